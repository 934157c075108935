// Endpoints of the ping-pong bench: one UDP peer over the kernel's sockets or over a lane's rings (libpodlane). One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/result.hpp"
#include "lib/net/addr.hpp"

namespace podlane::ctl {

struct UdpAddress {
  net::IpAddress ip;
  std::uint16_t port = 0;
};
// "10.9.0.1:7", "[fd09::1]:7".
Result<UdpAddress> parse_udp_address(std::string_view text);

enum class BenchWait { kSpinning, kBlocking };

class BenchEndpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~BenchEndpoint() = default;
  // To the peer: the one given at the start, or the one whose datagram came last.
  virtual Result<void> send(std::span<const std::uint8_t> payload) = 0;
  // The next datagram for us, cut to `payload`. 0: none came before the deadline.
  virtual Result<std::size_t> receive(std::span<std::uint8_t> payload, Time deadline) = 0;
  virtual std::uint64_t system_calls() const = 0;  // Our own since the start, as far as we can count them.
  virtual std::string description() const = 0;     // "UDP socket, spinning"
};

struct EndpointOptions {
  UdpAddress local;                // Port 0: any. For a lane, an empty address is the lane's own.
  const UdpAddress* peer = nullptr;  // Null: a server.
  BenchWait wait = BenchWait::kSpinning;
};
Result<std::unique_ptr<BenchEndpoint>> open_socket_endpoint(const EndpointOptions& options);
Result<std::unique_ptr<BenchEndpoint>> open_lane_endpoint(const std::string& lane_directory,
                                                          const EndpointOptions& options);

}  // namespace podlane::ctl
