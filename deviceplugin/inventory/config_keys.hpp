// The keys of a pool and the lane kinds they are for: read by the parser, and by tests/arch, which compares them with
// docs/config.md. Constants only; any thread.
#pragma once

#include <array>
#include <string_view>

namespace podlane::dp {

struct PoolKey {
  std::string_view name;
  bool queue, veth, tun, onload;
};

inline constexpr std::array<PoolKey, 20> kPoolKeys{{
    {"name", true, true, true, true},         {"lane", true, true, true, true},
    {"lanes", false, true, true, true},       {"devices", true, true, false, false},
    {"queues", true, false, false, false},    {"trusted", true, true, false, false},
    {"subnets", true, true, true, false},     {"gateway", true, true, true, false},
    {"gateways", true, true, true, false},    {"ipam", true, true, true, false},
    {"frames", true, true, false, false},     {"frameSize", true, true, false, false},
    {"ringSize", true, true, false, false},   {"zeroCopy", true, true, false, false},
    {"hugePages", true, true, false, false},  {"handover", true, true, false, false},
    {"mode", true, true, true, true},         {"relayCpus", true, true, false, false},
    {"interface", false, false, false, true}, {"env", false, false, false, true},
}};

inline constexpr std::array<std::string_view, 3> kOtherKeys{"pools", "devices.names", "ipam.type"};

}  // namespace podlane::dp
