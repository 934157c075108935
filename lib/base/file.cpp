#include "lib/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "lib/base/scope_guard.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane {

namespace {

Result<void> write_all(int fd, std::string_view content, std::string_view name) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write", name);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> sync_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  UniqueFd fd(::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open directory", directory);
  if (::fsync(fd.get()) != 0) return fail_errno("fsync", directory);
  return {};
}

}  // namespace

Result<std::string> read_fd(int fd, std::size_t max_bytes, std::string_view name) {
  std::string content;
  char chunk[16384];
  for (;;) {
    const ssize_t n = ::read(fd, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read", name);
    if (n == 0) return content;
    content.append(chunk, static_cast<std::size_t>(n));
    if (content.size() > max_bytes) {
      return fail(Errc::kInvalid, std::string(name) + " is longer than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open", path);
  return read_fd(fd.get(), max_bytes, path);
}

Result<void> write_file_atomic(const std::string& path, std::string_view content, Durability durability, mode_t mode) {
  static std::atomic<unsigned> serial{0};
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  // A leading dot keeps directory readers, which skip dot files, from seeing a half-written neighbour.
  const std::string temporary =
      directory + "." + leaf + "." + std::to_string(::getpid()) + "." + std::to_string(serial.fetch_add(1));
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return fail_errno("create", temporary);
  ScopeGuard remove_temporary([&] { ::unlink(temporary.c_str()); });
  PODLANE_TRY(write_all(fd.get(), content, temporary));
  if (durability == Durability::kDisk && ::fsync(fd.get()) != 0) return fail_errno("fsync", temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno("rename to", path);
  remove_temporary.release();
  if (durability == Durability::kDisk) return sync_directory_of(path);
  return {};
}

Result<void> write_existing(const std::string& path, std::string_view content) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open", path);
  return write_all(fd.get(), content, path);
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    const mode_t of_part = at == std::string::npos ? mode : 0755;
    if (::mkdir(part.c_str(), of_part) != 0) {
      if (errno != EEXIST) return fail_errno("mkdir", part);
    } else if (::chmod(part.c_str(), of_part) != 0) {  // Whatever the umask of whoever started us took away.
      return fail_errno("chmod", part);
    }
    if (at != std::string::npos) ++at;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail_errno("stat", path);
  if (!S_ISDIR(info.st_mode)) return fail(Errc::kExists, path + " exists and is not a directory");
  return {};
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unlink", path);
  return {};
}

}  // namespace podlane
