#include "lib/journal/torn_leases.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "lib/base/file.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::journal {

namespace {

std::string text_of(const json::Value& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

// Its leases are <dataDir>/<network>/<address>, beside "lock" and "last_reserved_ip.<range>".
std::string directory_of(const IpamCall& call) {
  if (call.plugin != "host-local" || !call.config.is_object() || !call.config.contains("ipam")) return {};
  const std::string network = text_of(call.config, "name");
  if (network.empty() || network.find('/') != std::string::npos) return {};
  const std::string data = text_of(call.config["ipam"], "dataDir");
  return (data.empty() ? "/var/lib/cni/networks" : data) + "/" + network;
}

// host-local's own lock of the network: a lease must not be given between our look at it and its removal. Not valid
// when others hold it all the time.
UniqueFd lock_network(int directory) {
  UniqueFd lock(::openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  for (int tries = 0; lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries == 100) return {};
    ::poll(nullptr, 0, 10);  // flock() has no timeout of its own.
  }
  return lock;
}

bool is_address(const char* name) {
  in6_addr address;
  return ::inet_pton(AF_INET, name, &address) == 1 || ::inet_pton(AF_INET6, name, &address) == 1;
}

}  // namespace

std::size_t remove_torn_leases(const IpamCall& call, std::time_t boot) {
  const std::string path = directory_of(call);
  if (path.empty()) return 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return 0;
  const int fd = ::dirfd(directory.get());
  const UniqueFd lock = lock_network(fd);
  if (!lock.valid()) return 0;
  std::size_t removed = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    struct stat info {};
    if (!is_address(entry->d_name) || ::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    // One that is being written now is empty, too, but young.
    if (!S_ISREG(info.st_mode) || info.st_size != 0 || info.st_mtim.tv_sec >= boot) continue;
    removed += ::unlinkat(fd, entry->d_name, 0) == 0;
  }
  return removed;
}

std::time_t boot_time() {
  const auto text = read_file("/proc/stat", 16 << 20);
  const std::size_t at = text ? text->find("\nbtime ") : std::string::npos;
  return at == std::string::npos ? 0 : static_cast<std::time_t>(std::strtoll(text->c_str() + at + 7, nullptr, 10));
}

}  // namespace podlane::journal
