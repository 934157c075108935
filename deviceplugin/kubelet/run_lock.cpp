#include "deviceplugin/kubelet/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/file.hpp"

namespace podlane::dp {

Result<RunLock> RunLock::acquire(const std::string& run_dir) {
  PODLANE_TRY(make_directories(run_dir));
  const std::string path = run_dir + "/deviceplugin.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return fail_errno("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno("lock", path);
    auto holder = read_fd(fd.get(), 256, path);
    std::string who = holder && !holder->empty() ? *holder : "another process";
    while (who.ends_with('\n')) who.pop_back();
    return fail(Errc::kBusy, "a device plugin runs on '" + run_dir + "' already: " + who + " holds " + path);
  }
  // Who holds it, for the one who comes second. The host name tells pods apart: the pid is one of the pod's namespace.
  char host[65] = "";
  ::gethostname(host, sizeof(host) - 1);
  const std::string who =
      "podlane-deviceplugin " PODLANE_VERSION " pid " + std::to_string(::getpid()) + " on " + host + "\n";
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), who.data(), who.size(), 0) < 0) {
    return fail_errno("write", path);
  }
  return RunLock(std::move(fd));
}

}  // namespace podlane::dp
