// Inventory: which devices (kubelet's word) a configuration gives, and whether the NICs behind them can carry them.
// Pure; any thread. Reading a NIC is lanes/host_side.hpp, nic_facts().
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/inventory/config.hpp"
#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::dp {

struct DeviceSpec {
  std::string id;  // "<pool>-<n>"
  std::string pool;
  lane::Kind kind = lane::Kind::kVeth;
  std::string netdev;  // The NIC of queue and veth lanes.
  QueueId queue;  // Queue lanes: always 0 until NICs with several queues are built. Onload: the channel over AF_XDP.
};

// All devices of all pools, in the pools' order. Errors: two queue pools that share a queue, an untrusted queue pool, a
// hand-over that the kind cannot do; the message names the pools, the key and what would be right.
Result<std::vector<DeviceSpec>> list_devices(const Config& config);

// The NICs that the pools name, each once.
std::vector<std::string> list_nics(const Config& config);

// Why a NIC with so many receive queues in use cannot carry the lanes of this pool; empty: it can.
std::string why_unfit(const PoolConfig& pool, const std::string& netdev, std::uint32_t rx_queues);

// Queue lanes need finished sockets, and those need ring mappings after bind: Linux 6.4 (net/xdp/xsk.c). `release` is
// uname's. Empty: this kernel can do what the pools ask.
bool kernel_hands_over_finished(const std::string& release);
Result<void> check_kernel(const Config& config, const std::string& release);

}  // namespace podlane::dp
