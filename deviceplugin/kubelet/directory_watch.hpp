// DirectoryWatch: inotify on one directory that may not exist yet, may be removed and may be made again. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "deviceplugin/kubelet/plugin_server.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

class DirectoryWatch {
 public:
  static Result<DirectoryWatch> open(std::string directory);

  int fd() const { return inotify_.get(); }  // Readable when something happened.

  // Watches the directory that the path names now; false when there is none. Cheap: call it at each round, since a
  // directory that was replaced under a bind mount sends no event.
  bool refresh();

  // Takes all waiting events; names of files that were made, removed or renamed. A lost event shows as the name "".
  std::vector<std::string> drain();

 private:
  DirectoryWatch(std::string directory, UniqueFd inotify)
      : directory_(std::move(directory)), inotify_(std::move(inotify)) {}
  void drop();

  std::string directory_;
  UniqueFd inotify_;
  int watch_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace podlane::dp
