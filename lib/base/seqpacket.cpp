#include "lib/base/seqpacket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/base/scope_guard.hpp"

namespace podlane {

namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return fail(Errc::kInvalid, "socket path '" + path + "' must have 1 to " +
                                    std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<void> wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline,
                      std::string_view operation) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int n = ::poll(&entry, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (n > 0) return {};
    if (n == 0) return fail(Errc::kUnavailable, std::string(operation) + ": timed out");
    if (errno != EINTR) return fail_errno("poll", operation);
  }
}

}  // namespace

Result<UniqueFd> seqpacket_connect(const std::string& path, std::chrono::milliseconds timeout) {
  PODLANE_TRY_ASSIGN(const sockaddr_un address, address_of(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno("socket", path);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    // EAGAIN: the backlog is full, and a unix socket gives no event for room in it (unix(7)).
    if (errno != EAGAIN && errno != EINTR) return fail_errno("connect", path);
    if (std::chrono::steady_clock::now() >= deadline) return fail_errno("connect", path);
    ::poll(nullptr, 0, 2);
  }
}

Result<UniqueFd> seqpacket_listen(const std::string& path, mode_t mode, int backlog) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary = path + "." + std::to_string(::getpid()) + "." + std::to_string(serial.fetch_add(1));
  PODLANE_TRY_ASSIGN(const sockaddr_un address, address_of(temporary));
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno("socket", path);
  ::unlink(temporary.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail_errno("bind", temporary);
  }
  ScopeGuard remove_temporary([&] { ::unlink(temporary.c_str()); });
  if (::chmod(temporary.c_str(), mode) != 0) return fail_errno("chmod", temporary);
  if (::listen(fd.get(), backlog) != 0) return fail_errno("listen", path);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno("rename to", path);
  remove_temporary.release();
  return fd;
}

Result<void> seqpacket_send(int socket, std::string_view text, const std::vector<int>& fds,
                            std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  std::string control(fds.empty() ? 0 : CMSG_SPACE(sizeof(int) * fds.size()), '\0');
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(message), fds.data(), sizeof(int) * fds.size());
  }
  for (;;) {
    const ssize_t n = ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {};  // A packet socket sends all or nothing.
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail_errno("sendmsg");
    PODLANE_TRY(wait_for(socket, POLLOUT, deadline, "send"));
  }
}

Result<SeqpacketMessage> seqpacket_receive(int socket, std::size_t max_bytes, std::size_t max_fds,
                                           std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  SeqpacketMessage received;
  std::string control(CMSG_SPACE(sizeof(int) * (max_fds + 1)), '\0');
  for (;;) {
    // The length first: a buffer for the longest message would cost each waiting thread that much memory for good.
    const ssize_t waiting = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (waiting < 0 && errno == EINTR) continue;
    if (waiting < 0 && errno == EAGAIN) {
      PODLANE_TRY(wait_for(socket, POLLIN, deadline, "receive"));
      continue;
    }
    if (waiting < 0) return fail_errno("recv");
    received.text.resize(std::min(static_cast<std::size_t>(waiting), max_bytes + 1));
    iovec part{.iov_base = received.text.data(), .iov_len = received.text.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail_errno("recvmsg");
    for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr; message = CMSG_NXTHDR(&header, message)) {
      if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(message) + i * sizeof(int), sizeof(int));
        received.fds.emplace_back(fd);
      }
    }
    received.text.resize(static_cast<std::size_t>(n));
    if ((header.msg_flags & MSG_TRUNC) != 0 || received.text.size() > max_bytes) {
      return fail(Errc::kProtocol, "message is longer than " + std::to_string(max_bytes) + " bytes");
    }
    if ((header.msg_flags & MSG_CTRUNC) != 0 || received.fds.size() > max_fds) {
      return fail(Errc::kProtocol, "message carries more than " + std::to_string(max_fds) + " descriptors");
    }
    return received;
  }
}

}  // namespace podlane
