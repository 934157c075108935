// The device plugin's configuration: pools from JSON (docs/config.md). Parsing checks everything that can be checked
// without a NIC; what needs one is checked by inventory.hpp. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::dp {

enum class ZeroCopy { kRequire, kPrefer, kOff };
enum class HandoverChoice { kAuto, kUnbound };

struct PoolConfig {
  std::string name;
  lane::Kind kind = lane::Kind::kVeth;
  std::vector<std::string> netdevs;  // devices.names; queue and veth pools. Veth pools have exactly one: the NIC.
  std::uint32_t lanes = 0;           // All but queue pools, which have one per device for now.
  bool trusted = false;              // Must be true for queue pools.
  std::vector<std::string> subnets;  // CIDR
  std::vector<std::string> gateways;
  std::optional<json::Value> ipam;
  std::uint32_t frames = 4096;
  std::uint32_t frame_size_bytes = 2048;
  std::uint32_t ring_size = 2048;
  ZeroCopy zero_copy = ZeroCopy::kPrefer;
  lane::HugePages huge_pages = lane::HugePages::kNone;
  HandoverChoice handover = HandoverChoice::kAuto;
  lane::Mode default_mode = lane::Mode::kInterrupt;  // Of onload pools: the mode.
  std::string interface;  // Onload pools: the NIC whose way counts; empty: all that Onload accelerates.
  std::vector<std::pair<std::string, std::string>> environment;  // Onload pools: EF_* that win over the mode's.
};

struct Config {
  std::vector<PoolConfig> pools;
};

// Errors name the key ("pools[1].ringSize"), the value and what would be right. No pools is valid.
Result<Config> parse_config(std::string_view text);

}  // namespace podlane::dp
