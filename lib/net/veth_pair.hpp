// What a lane's veth pair is from its making to its opening.
//
// Linux charges a device's IPv6 state (inet6_dev, its sysctl table and counters: 20 KB an end on 6.18) to the control
// group of whoever makes the device, or raises its MTU to 1280 or more; below that there is no such state
// (net/ipv6/addrconf.c, addrconf_notify). So the device plugin makes the pair small and the CNI plugin, a process of
// the runtime's group, opens it: with 500 lanes the device plugin's group has 18 MB less.
#pragma once

#include <cstdint>

#include "lib/net/rtnetlink.hpp"

namespace podlane::net {

inline constexpr std::uint32_t kMtuWithoutIpv6 = 1279;

struct VethPair {
  IfIndex host;  // In the calling thread's namespace.
  IfIndex pod;   // In the pod's.
};
// Both ends: MTU, no IPv6 address of their own, up. Once more changes nothing.
Result<void> open_veth_pair(const VethPair& pair, int pod_netns_fd, std::uint32_t mtu);

}  // namespace podlane::net
