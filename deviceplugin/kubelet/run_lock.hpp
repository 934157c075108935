// RunLock: one device plugin for each run directory. Held by the kernel (flock), so it goes with the process, however
// that ends.
#pragma once

#include <string>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

class RunLock {
 public:
  // Locks <run_dir>/deviceplugin.lock, making the directory where it is missing. kBusy when another process has it; the
  // message says which.
  static Result<RunLock> acquire(const std::string& run_dir);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace podlane::dp
