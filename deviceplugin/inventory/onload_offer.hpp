// What a pool of kind onload can give on this node as it is now, and what a container gets of it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/inventory/config.hpp"
#include "deviceplugin/inventory/onload_node.hpp"

namespace podlane::dp {

struct OnloadOffer {
  std::string why = "not looked at yet";  // Why no device can be used; empty: some can.
  std::string nic;                        // The one whose way counts: the pool's, or one that is reached by AF_XDP.
  onload::Transport transport = onload::Transport::kNative;
  std::uint32_t channels = 0;  // As many devices can be used; 0: no limit.
  onload::Environment environment;
  std::vector<std::string> device_nodes;
  std::vector<std::string> libraries;
  std::vector<std::string> warnings;
  friend bool operator==(const OnloadOffer&, const OnloadOffer&) = default;

  // Of the device of this number; empty: it can be used.
  std::string why_unhealthy(std::uint32_t device) const;
};

OnloadOffer offer_of(const PoolConfig& pool, const OnloadNode& node);

// For a container that holds these devices, by their numbers: what the mode says, LD_PRELOAD, and over AF_XDP the
// channel.
onload::Environment environment_of(const OnloadOffer& offer, const std::vector<std::uint32_t>& devices);

// In words what is in force: "interrupt, over AF_XDP by eth0: …".
std::string describe(const OnloadOffer& offer, lane::Mode mode);

}  // namespace podlane::dp
