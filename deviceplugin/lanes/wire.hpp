// A packet socket for ARP and neighbour discovery on one NIC. XDP has run before it: it sees what lane_steer passed.
// In the network namespace of the thread that opened it; one thread at a time.
#pragma once

#include <functional>

#include "deviceplugin/lanes/arp_ndp.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

class Wire {
 public:
  // Receives ARP (kIpv4) or neighbour solicitations and advertisements (kIpv6). Non-blocking.
  static Result<Wire> open(IfIndex nic, net::Family family);

  Result<void> send(const Frame& frame);
  Result<void> join(const MacAddress& group);  // For the life of this object.
  // Everything that waits to be read.
  void drain(const std::function<void(const NeighborClaim&)>& take);
  int fd() const { return socket_.get(); }

 private:
  Wire(UniqueFd socket, IfIndex nic) : socket_(std::move(socket)), nic_(nic) {}

  UniqueFd socket_;
  IfIndex nic_;
};

}  // namespace podlane::dp
