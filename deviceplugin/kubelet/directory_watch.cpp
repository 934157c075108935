#include "deviceplugin/kubelet/directory_watch.hpp"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace podlane::dp {

Result<DirectoryWatch> DirectoryWatch::open(std::string directory) {
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return fail_errno("inotify_init1");
  return DirectoryWatch(std::move(directory), std::move(inotify));
}

bool DirectoryWatch::refresh() {
  struct stat info {};
  if (::stat(directory_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    drop();
    return false;
  }
  if (watch_ >= 0 && info.st_dev == device_ && info.st_ino == inode_) return true;
  drop();
  watch_ = ::inotify_add_watch(
      inotify_.get(), directory_.c_str(),
      IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  // Without a watch (fs.inotify.max_user_watches reached) the caller's periodic look still finds everything.
  return true;
}

std::vector<std::string> DirectoryWatch::drain() {
  std::vector<std::string> names;
  alignas(inotify_event) char buffer[4096];
  while (true) {
    const ssize_t got = ::read(inotify_.get(), buffer, sizeof(buffer));
    if (got <= 0) return names;
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      // IN_IGNORED: the kernel removed the watch with its directory. It may speak of an earlier watch.
      if ((event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) != 0 && event->wd == watch_) drop();
      names.emplace_back(event->len > 0 ? event->name : "");
    }
  }
}

void DirectoryWatch::drop() {
  // Fails when the kernel has removed the watch by itself; there is nothing to do then.
  if (watch_ >= 0) ::inotify_rm_watch(inotify_.get(), watch_);
  watch_ = -1;
}

}  // namespace podlane::dp
