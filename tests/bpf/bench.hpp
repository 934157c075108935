// A node on the bench: a scratch namespace in which this process stands, a veth "NIC" with two queues, the product's
// Steering with its programs attached, and the kernel's program test-run. Test code; single-threaded.
#pragma once

#include <optional>
#include <string>

#include "bpf/loader/steering.hpp"
#include "tests/bpf/packets.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::test {

struct Outcome {
  std::uint32_t verdict = 0;
  Bytes packet;
};

// Puts the calling thread into a namespace and back.
class StandIn {
 public:
  explicit StandIn(const ScratchNetns& netns);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  UniqueFd home_;
};

class Bench {
 public:
  Bench();
  ~Bench();

  bpf::Steering& steering() { return *steering_; }
  IfIndex nic() const { return nic_; }
  const Mac& nic_mac() const { return nic_mac_; }
  IfIndex device(const std::string& name) const;
  void answer_by_redirect(bool on) const;  // Rewrites what the loader found out about the NIC.

  // Empty: the kernel refuses to run the program on such a packet.
  std::optional<Outcome> run_xdp(int program, const Bytes& packet, std::uint32_t rx_queue) const;
  std::optional<Outcome> run_tc(int program, const Bytes& packet, IfIndex device) const;
  UniqueFd lane_steer() const;                   // As it is attached to the NIC.
  UniqueFd veth_host(IfIndex host_end) const;    // As it is attached there.
  static std::uint32_t verified_instructions(int program);

  const ScratchNetns& host() const { return host_; }
  const ScratchNetns& far() const { return far_; }

 private:
  ScratchNetns host_{"plbh"};
  ScratchNetns far_{"plbf"};
  std::optional<StandIn> stand_in_;
  std::string bpffs_;
  std::optional<bpf::Steering> steering_;
  IfIndex nic_;
  Mac nic_mac_{};
};

}  // namespace podlane::test
