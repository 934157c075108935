// Whole-file helpers. Blocking; any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane {

// Reads at most max_bytes; a longer file is kInvalid, a missing one kNotFound.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 1 << 20);
Result<std::string> read_fd(int fd, std::size_t max_bytes, std::string_view name);

enum class Durability { kMemory, kDisk };  // kDisk: fsync of the file and of its directory.

// Writes a temporary neighbour and renames it over path: readers see the old or the new content, never a part.
Result<void> write_file_atomic(const std::string& path, std::string_view content, Durability durability,
                               mode_t mode = 0600);

// Writes to an existing file as it is (sysfs, procfs).
Result<void> write_existing(const std::string& path, std::string_view content);

// mkdir -p; succeeds when it exists. The mode is for the last one, its parents get 0755: several of us make /run/podlane, and
// a container's user must get through it.
Result<void> make_directories(const std::string& path, mode_t mode = 0755);

// unlink; a missing file is success.
Result<void> remove_file(const std::string& path);

}  // namespace podlane
