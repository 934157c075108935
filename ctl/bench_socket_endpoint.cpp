#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>

#include "ctl/bench_endpoint.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::ctl {

namespace {

using namespace std::chrono_literals;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const UdpAddress& address) {
  SocketAddress result;
  if (address.ip.family == net::Family::kIpv4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    std::memcpy(&v4->sin_addr, address.ip.bytes.data(), 4);
    result.length = sizeof(sockaddr_in);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    std::memcpy(&v6->sin6_addr, address.ip.bytes.data(), 16);
    result.length = sizeof(sockaddr_in6);
  }
  return result;
}

class SocketEndpoint final : public BenchEndpoint {
 public:
  SocketEndpoint(UniqueFd socket, BenchWait wait, bool connected)
      : socket_(std::move(socket)), wait_(wait), connected_(connected) {}

  Result<void> send(std::span<const std::uint8_t> payload) override {
    ++system_calls_;
    const ssize_t n = connected_
                          ? ::send(socket_.get(), payload.data(), payload.size(), 0)
                          : ::sendto(socket_.get(), payload.data(), payload.size(), 0, peer_.get(), peer_.length);
    // A full queue on the way, or a port that is not there yet (ICMP): lost, as any datagram may be.
    if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED && errno != EAGAIN) return fail_errno("send");
    return {};
  }

  Result<std::size_t> receive(std::span<std::uint8_t> payload, Time deadline) override {
    for (std::uint32_t tries = 0;; ++tries) {
      if (wait_ == BenchWait::kBlocking && !wait_readable(deadline)) return std::size_t{0};
      ++system_calls_;
      peer_length_ = sizeof(peer_.storage);
      const ssize_t n = connected_ ? ::recv(socket_.get(), payload.data(), payload.size(), MSG_DONTWAIT)
                                   : ::recvfrom(socket_.get(), payload.data(), payload.size(), MSG_DONTWAIT,
                                                peer_.get(), &peer_length_);
      if (n >= 0) {
        if (!connected_) peer_.length = peer_length_;
        return static_cast<std::size_t>(n);
      }
      if (errno != EAGAIN && errno != ECONNREFUSED && errno != EINTR) return fail_errno("receive");
      // The clock is read now and then only: it is not what is measured.
      if (tries % 64 == 63 && std::chrono::steady_clock::now() >= deadline) return std::size_t{0};
    }
  }

  std::uint64_t system_calls() const override { return system_calls_; }
  std::string description() const override {
    return wait_ == BenchWait::kSpinning ? "UDP socket, spinning" : "UDP socket, blocking";
  }

 private:
  bool wait_readable(Time deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0ms) return false;
    pollfd polled{socket_.get(), POLLIN, 0};
    ++system_calls_;
    return ::poll(&polled, 1, static_cast<int>(left.count())) > 0;
  }

  UniqueFd socket_;
  BenchWait wait_;
  bool connected_;
  SocketAddress peer_;
  socklen_t peer_length_ = 0;
  std::uint64_t system_calls_ = 0;
};

}  // namespace

Result<UdpAddress> parse_udp_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return fail(Errc::kInvalid, "address '" + std::string(text) + "' must be like 10.9.0.1:7 or [fd09::1]:7");
  };
  if (colon == std::string_view::npos) return wrong();
  std::string_view ip = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (ip.starts_with('[') && ip.ends_with(']')) ip = ip.substr(1, ip.size() - 2);
  UdpAddress address;
  const auto parsed = net::parse_ip(ip);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (!parsed || error != std::errc{} || end != port.data() + port.size() || port.empty()) return wrong();
  address.ip = *parsed;
  return address;
}

Result<std::unique_ptr<BenchEndpoint>> open_socket_endpoint(const EndpointOptions& options) {
  const net::Family family = options.peer != nullptr ? options.peer->ip.family : options.local.ip.family;
  UniqueFd socket(::socket(family == net::Family::kIpv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("socket");
  UdpAddress local = options.local;
  local.ip.family = family;
  const SocketAddress bound = socket_address(local);
  if (::bind(socket.get(), bound.get(), bound.length) != 0) return fail_errno("bind", local.ip.to_string());
  if (options.peer != nullptr) {
    const SocketAddress peer = socket_address(*options.peer);
    if (::connect(socket.get(), peer.get(), peer.length) != 0) return fail_errno("connect", options.peer->ip.to_string());
  }
  return std::make_unique<SocketEndpoint>(std::move(socket), options.wait, options.peer != nullptr);
}

}  // namespace podlane::ctl
