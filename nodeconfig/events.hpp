// Events: what tells the daemon to look again before its time. Files by inotify, interfaces by rtnetlink, CPUs and PCI
// devices by the kernel's uevents. sysfs and procfs tell nothing of their own: for those there is the resync. One
// thread.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::nodeconfig {

struct WatchedFile {
  std::string directory;  // On this machine. May be missing, and come later.
  std::string name;       // Empty: every file in it.
};

class Events {
 public:
  static Result<Events> open(std::vector<WatchedFile> files);

  // Adds watches for directories that exist by now.
  void watch_again();

  enum class Woken { kTimeout, kEvent, kHangup, kStop };
  // Waits for a signal (SIGHUP: kHangup; SIGTERM, SIGINT: kStop, both blocked by the caller), for an event, or
  // timeout_ms.
  Result<Woken> wait(int signal_fd, int timeout_ms);

 private:
  Events(std::vector<WatchedFile> files, UniqueFd inotify, UniqueFd links, UniqueFd devices)
      : files_(std::move(files)),
        inotify_(std::move(inotify)),
        links_(std::move(links)),
        devices_(std::move(devices)) {}
  bool drain_inotify();

  std::vector<WatchedFile> files_;
  std::vector<int> watches_;  // By place in files_; -1: not yet.
  UniqueFd inotify_, links_, devices_;
};

}  // namespace podlane::nodeconfig
