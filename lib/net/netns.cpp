#include "lib/net/netns.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <thread>

namespace podlane::net {

namespace {

bool is_netns(int fd) {
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 && info.f_type == NSFS_MAGIC && ::ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

}  // namespace

Result<UniqueFd> open_netns(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open network namespace", path);
  if (!is_netns(fd.get())) return fail(Errc::kGone, path + " is not a network namespace (any more)");
  return fd;
}

Result<UniqueFd> own_netns() { return open_netns("/proc/thread-self/ns/net"); }

NetNsState netns_state(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid()) return is_netns(fd.get()) ? NetNsState::kAlive : NetNsState::kGone;
  if (errno != ENOENT) return NetNsState::kUnknown;
  const std::string directory = path.substr(0, path.rfind('/'));
  return ::access(directory.c_str(), F_OK) == 0 ? NetNsState::kGone : NetNsState::kUnknown;
}

Result<void> run_in_netns(int netns_fd, const std::function<Result<void>()>& work) {
  Result<void> result;
  std::thread([&] {
    if (::setns(netns_fd, CLONE_NEWNET) != 0) {
      result = fail_errno("setns");
      return;
    }
    result = work();
  }).join();
  return result;
}

Result<std::uint64_t> netns_cookie_of_socket(int socket) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
  if (::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) != 0) {
    return fail_errno("getsockopt SO_NETNS_COOKIE");
  }
  return cookie;
}

Result<std::uint64_t> netns_cookie(int netns_fd) {
  std::uint64_t cookie = 0;
  PODLANE_TRY(run_in_netns(netns_fd, [&]() -> Result<void> {
    UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return fail_errno("socket");
    PODLANE_TRY_ASSIGN(cookie, netns_cookie_of_socket(socket.get()));
    return {};
  }));
  return cookie;
}

Result<UniqueFd> netns_of_socket(int socket) {
  UniqueFd fd(::ioctl(socket, SIOCGSKNS));
  if (!fd.valid()) return fail_errno("ioctl SIOCGSKNS");
  return fd;
}

}  // namespace podlane::net
