#include "nodeconfig/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <set>

#include "nodeconfig/ethtool_files.hpp"

namespace podlane::nodeconfig {

namespace {

// openat() takes a path that begins with '/' for one of the machine, whatever the directory.
const char* below_root(const std::string& path) {
  const char* at = path.c_str();
  while (*at == '/') ++at;
  return *at == '\0' ? "." : at;
}

// "cpu2" before "cpu10".
bool natural_less(const std::string& a, const std::string& b) {
  const std::size_t at =
      static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  std::size_t start = at;
  const auto digit = [](const std::string& text, std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  while (start > 0 && digit(a, start - 1)) --start;
  std::size_t a_end = start, b_end = start;
  while (digit(a, a_end)) ++a_end;
  while (digit(b, b_end)) ++b_end;
  if (a_end > start && b_end > start && a_end != b_end) return a_end < b_end;
  return a < b;
}

}  // namespace

Result<Tree> Tree::open(const std::string& root, Write write) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open root", root);
  char resolved[PATH_MAX];
  if (::realpath(root.c_str(), resolved) == nullptr) return fail_errno("resolve root", root);
  const UniqueFd sys(::openat(fd.get(), "sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs info {};
  const bool live = sys.valid() && ::fstatfs(sys.get(), &info) == 0 && info.f_type == SYSFS_MAGIC;
  return Tree(std::string_view(resolved) == "/" ? "" : resolved, std::move(fd), live, std::move(write));
}

Tree Tree::replay(Recording recording) {
  Tree tree("", UniqueFd(), false, [](const std::string& path, std::string_view) -> Result<void> {
    return fail(Errc::kUnsupported, "write " + path + ": a snapshot is only read");
  });
  tree.replayed_ = std::make_shared<const Recording>(std::move(recording));
  return tree;
}

// Where a path ends in the snapshot, all its links followed.
std::string Tree::resolved(const std::string& path) const {
  constexpr int kMaxLinks = 40;  // As the kernel's.
  std::string done, rest = path;
  for (int links = 0; !rest.empty();) {
    const std::size_t start = std::min(rest.find_first_not_of('/'), rest.size());
    const std::size_t end = std::min(rest.find('/', start), rest.size());
    const std::string part = rest.substr(start, end - start);
    rest.erase(0, end);
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      done.erase(std::min(done.rfind('/'), done.size()));
      continue;
    }
    done += "/" + part;
    const auto link = replayed_->links.find(done);
    if (link == replayed_->links.end()) continue;
    if (++links > kMaxLinks) return {};
    rest = link->second + rest;
    done.clear();
  }
  return done;
}

std::vector<std::string> Tree::list_replayed(const std::string& path) const {
  const std::string prefix = resolved(path) + "/";
  std::set<std::string> found;
  const auto collect = [&](const auto& entries) {
    for (auto it = entries.lower_bound(prefix); it != entries.end() && it->first.starts_with(prefix); ++it) {
      found.insert(it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size()));
    }
  };
  collect(replayed_->files);
  collect(replayed_->links);
  collect(replayed_->directories);
  std::vector<std::string> names;
  for (const std::string& name : found) {
    if (!name.empty() && name[0] != '.') names.push_back(name);
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

Result<std::string> Tree::read(const std::string& path, std::size_t max_bytes) const {
  auto text = live_ && path.starts_with(kEthtoolRoot) ? read_ethtool(path) : read_file_of(path, max_bytes);
  if (text && recording_ != nullptr) recording_->files[path] = {.text = *text, .mode = mode(path)};
  return text;
}

Result<std::string> Tree::read_file_of(const std::string& path, std::size_t max_bytes) const {
  if (replayed_ != nullptr) {
    const auto file = replayed_->files.find(resolved(path));
    if (file == replayed_->files.end()) return std::unexpected(Error::from_errno(ENOENT, "open", path));
    return file->second.text;
  }
  const UniqueFd fd(::openat(fd_.get(), below_root(path), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open", path);
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(fd.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read", path);
    const bool first = text.empty();
    text.append(chunk, static_cast<std::size_t>(n));
    // Thousands of small files are read: the kernel gives as many whole records as its page holds (fs/seq_file.c), so
    // less than a quarter of one is all there is, and no second read is needed to see the end.
    if (n == 0 || (first && n < static_cast<ssize_t>(sizeof(chunk) / 4))) break;
    if (text.size() > max_bytes) {
      return fail(Errc::kInvalid, path + " is longer than " + std::to_string(max_bytes) + " bytes");
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

mode_t Tree::mode(const std::string& path) const {
  if (live_ && path.starts_with(kEthtoolRoot)) return 0644;
  if (replayed_ != nullptr) {
    const auto file = replayed_->files.find(resolved(path));
    return file == replayed_->files.end() ? 0 : file->second.mode;
  }
  struct stat info {};
  return ::fstatat(fd_.get(), below_root(path), &info, 0) == 0 ? info.st_mode & 07777 : 0;
}

std::vector<std::string> Tree::list(const std::string& path) const {
  if (replayed_ != nullptr) return list_replayed(path);
  std::vector<std::string> names;
  UniqueFd fd(::openat(fd_.get(), below_root(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return names;
  struct stat info {};
  const mode_t mode = ::fstat(fd.get(), &info) == 0 ? info.st_mode & 07777 : 0755;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (directory == nullptr) return names;
  (void)fd.release();
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end(), natural_less);
  if (recording_ != nullptr) {
    recording_->directories[path] = mode;
    for (const std::string& name : names) {
      // So that a listing of the snapshot shows the same names. Files get their content when they are read.
      struct stat entry {};
      if (::fstatat(fd_.get(), below_root(path + "/" + name), &entry, 0) != 0) continue;
      const mode_t bits = entry.st_mode & 07777;
      if (S_ISDIR(entry.st_mode)) recording_->directories.emplace(path + "/" + name, bits);
      else if (S_ISREG(entry.st_mode))
        recording_->files.emplace(path + "/" + name, Recording::File{.text = {}, .mode = bits});
    }
  }
  return names;
}

std::string Tree::real_path(const std::string& path) const {
  if (replayed_ != nullptr) return exists(path) ? resolved(path) : std::string();
  char resolved[PATH_MAX];
  if (::realpath((root_ + path).c_str(), resolved) == nullptr) return {};
  const std::string_view found = resolved;
  if (!found.starts_with(root_) || (found.size() > root_.size() && found[root_.size()] != '/')) return {};
  std::string inside(found.substr(root_.size()));
  if (recording_ != nullptr && inside != path) recording_->links[path] = inside;
  return inside;
}

bool Tree::exists(const std::string& path) const {
  if (replayed_ != nullptr) {
    const std::string at = resolved(path);
    return replayed_->files.contains(at) || replayed_->directories.contains(at);
  }
  const bool found = ::faccessat(fd_.get(), below_root(path), F_OK, 0) == 0;
  if (found && recording_ != nullptr) {
    struct stat info {};
    if (::fstatat(fd_.get(), below_root(path), &info, 0) == 0 && S_ISDIR(info.st_mode)) {
      recording_->directories.emplace(path, info.st_mode & 07777);
    } else {
      recording_->files.emplace(path, Recording::File{.text = {}, .mode = info.st_mode & 07777});
    }
  }
  return found;
}

Result<void> Tree::write(const std::string& path, std::string_view text) const {
  if (write_) return write_(path, text);
  if (live_ && path.starts_with(kEthtoolRoot)) return write_ethtool(path, text);
  // O_TRUNC is for plain files, as in a snapshot; sysfs and procfs take it without effect.
  const UniqueFd fd(::openat(fd_.get(), below_root(path), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open", path);
  // One write: the kernel takes each for a value of its own.
  ssize_t n = 0;
  do {
    n = ::write(fd.get(), text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail_errno("write", path);
  if (static_cast<std::size_t>(n) != text.size()) {
    return fail(Errc::kIo,
                "write " + path + ": " + std::to_string(n) + " of " + std::to_string(text.size()) + " bytes taken");
  }
  return {};
}

}  // namespace podlane::nodeconfig
