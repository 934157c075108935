// Tree: the only door to the node's /sys, /proc, /etc and /var, and to ethtool (ethtool_files.hpp). Paths are as on the
// node ("/proc/irq/24/node"); the root is "/", a mount of the host ("/host"), a recorded tree, or what a test built.
// One thread at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::nodeconfig {

// What was read, for `snapshot`: files by path, links and listed directories.
struct Recording {
  struct File {
    std::string text;  // Without the newline at its end.
    mode_t mode = 0;
  };
  std::map<std::string, File> files;
  std::map<std::string, std::string> links;  // Path, and where it ends: both as on the node.
  std::map<std::string, mode_t> directories;
};

class Tree {
 public:
  // How a write is done, when it is not the plain one: tests show what kernels answer. Gets the path in the tree.
  using Write = std::function<Result<void>(const std::string& path, std::string_view text)>;

  static Result<Tree> open(const std::string& root, Write write = {});
  // A snapshot, from memory: nothing is unpacked, no link of it leads anywhere else. Writes are refused.
  static Tree replay(Recording recording);

  // Whole file without the newline at its end. kNotFound: no such file, or its device went away.
  Result<std::string> read(const std::string& path, std::size_t max_bytes = 1 << 20) const;
  // Names in a directory, sorted, without dot files. Numbers sort as numbers. Empty when there is no such directory.
  std::vector<std::string> list(const std::string& path) const;
  // Where a path ends once all links are followed, as on the node. Empty when it is missing or leads out of the tree.
  std::string real_path(const std::string& path) const;
  bool exists(const std::string& path) const;
  // Permission bits; 0 when it is missing. The kernel takes the write bits from interrupts that it manages
  // (since 6.12).
  mode_t mode(const std::string& path) const;
  // Replaces the content of a file that exists. Never creates one.
  Result<void> write(const std::string& path, std::string_view text) const;

  void record_into(Recording* recording) { recording_ = recording; }  // Borrowed; nullptr ends it.

 private:
  Tree(std::string root, UniqueFd fd, bool live, Write write)
      : root_(std::move(root)), fd_(std::move(fd)), live_(live), write_(std::move(write)) {}
  Result<std::string> read_file_of(const std::string& path, std::size_t max_bytes) const;
  std::vector<std::string> list_replayed(const std::string& path) const;
  std::string resolved(const std::string& path) const;

  std::string root_;  // Real path, without a slash at its end; "" for "/".
  UniqueFd fd_;
  bool live_ = false;  // A running kernel's /sys: only then NICs of this machine are meant.
  Write write_;
  Recording* recording_ = nullptr;
  std::shared_ptr<const Recording> replayed_;  // Empty: files are read from the root.
};

}  // namespace podlane::nodeconfig
