// A node with one NIC: namespace `host` with nic0, the wire, namespace `far` with far0 (10.9.0.99/24, fd00:9::99/64). The
// test's thread stands in `host`. Test code.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bpf/loader/steering.hpp"
#include "deviceplugin/lanes/host_side.hpp"
#include "tests/bpf/packets.hpp"
#include "tests/promises/raw_xsk.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::test {

class Node {
 public:
  Node();
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const ScratchNetns& host() const { return host_; }
  const ScratchNetns& far() const { return far_; }
  const std::string& bpffs() const { return bpffs_; }
  IfIndex nic() const { return facts_.index; }
  const dp::MacAddress& nic_mac() const { return facts_.mac; }
  dp::MacAddress far_mac() const;
  bpf::Steering& steering();  // Opened at first use, attached to the NIC.
  bpf::Steering open_steering() const;

  // A veth lane in a pod of its own, steered, with a socket on its pod end.
  struct Pod {
    ScratchNetns netns{"plhp"};
    dp::VethLane lane;
    std::unique_ptr<RawXsk> socket;
    LaneSlot slot;
  };
  std::unique_ptr<Pod> add_veth_pod(std::uint32_t slot, const std::vector<std::string>& addresses);

  // One UDP datagram out of far0; false when the kernel refused it.
  bool send_from_far(const std::string& to, const std::string& text, std::uint16_t port = 4001) const;
  std::string far_neighbor(const std::string& address) const;  // The MAC far has for it, or "".

 private:
  ScratchNetns host_{"plhh"};
  ScratchNetns far_{"plhf"};
  std::string bpffs_;
  UniqueFd home_;
  dp::NicFacts facts_;
  std::optional<bpf::Steering> steering_;
};

// A UDP socket of a namespace, bound to a port on all addresses, that can be read without waiting.
class UdpEar {
 public:
  UdpEar(const ScratchNetns& netns, std::uint16_t port);
  std::string hear();  // "" : nothing there.

 private:
  UniqueFd socket_;
};

// Frames that hold the text, collected until there are `count` or time is up.
std::vector<std::string> collect(RawXsk& socket, const std::string& text, std::size_t count = 1);
// A UDP packet with a right checksum field of zero (IPv4).
Bytes udp_text(const std::string& text, std::uint16_t port = 4001);

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) throw std::runtime_error(result.error().message());
}

}  // namespace podlane::test
