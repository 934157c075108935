// Offloads and channels of a device by ethtool ioctls (linux/ethtool.h), in the calling thread's network namespace. Any
// thread. Netlink is not used here: it knows no legacy groups such as "tx", which are what a person would switch.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"

namespace podlane::net {

// As in ethtool -K: tx, tso, gso, gro.
enum class Offload { kTxChecksum, kTso, kGso, kGro };

Result<bool> offload_in_force(const std::string& ifname, Offload offload);
// Sets it and reads it back: kUnsupported when the device keeps its own mind.
Result<void> set_offload(const std::string& ifname, Offload offload, bool on);

// Receive queues in use (ethtool -l: RX and combined). kUnsupported where the driver does not tell.
Result<std::uint32_t> rx_channels(const std::string& ifname);

// The driver's name, as ethtool -i: "veth", "virtio_net". kUnsupported where it has none.
Result<std::string> driver_name(const std::string& ifname);

}  // namespace podlane::net
