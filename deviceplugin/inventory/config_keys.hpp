// The keys of a pool and the lane kinds they are for: read by the parser, and by tests/arch, which compares them with
// docs/config.md. Constants only; any thread.
#pragma once

#include <array>
#include <string_view>

namespace podlane::dp {

struct PoolKey {
  std::string_view name;
  bool queue, veth, tun;
};

inline constexpr std::array<PoolKey, 18> kPoolKeys{{
    {"name", true, true, true},
    {"lane", true, true, true},
    {"lanes", false, true, true},
    {"devices", true, true, false},
    {"queues", true, false, false},
    {"trusted", true, true, false},
    {"subnets", true, true, true},
    {"gateway", true, true, true},
    {"gateways", true, true, true},
    {"ipam", true, true, true},
    {"frames", true, true, false},
    {"frameSize", true, true, false},
    {"ringSize", true, true, false},
    {"zeroCopy", true, true, false},
    {"hugePages", true, true, false},
    {"handover", true, true, false},
    {"mode", true, true, true},
    {"relayCpus", true, true, false},
}};

inline constexpr std::array<std::string_view, 3> kOtherKeys{"pools", "devices.names", "ipam.type"};

}  // namespace podlane::dp
