// Which devices an annotated pod gets: joins what its annotations ask for with what the kubelet says it holds. Pure.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/inventory/config.hpp"
#include "deviceplugin/lanes/lane_table.hpp"
#include "lib/lane/annotations.hpp"

namespace podlane::dp {

struct ChosenLane {
  std::string device;
  std::string container;  // The one that holds the device.
  std::string pool;
  lane::Kind kind = lane::Kind::kVeth;
  std::optional<lane::Path> path;  // Empty for tun lanes.
  lane::Mode mode = lane::Mode::kInterrupt;
  std::vector<std::string> fixed_addresses;
};

// kNotFound: the kubelet lists fewer or more devices than the pod asks for (it may list them in a moment). kDenied:
// another container than the named one holds them, or several do.
Result<std::vector<ChosenLane>> choose_lanes(const lane::PodLanes& wanted, const Config& config,
                                             const std::vector<PodDevices>& listing, const lane::PodName& pod);

// Each fixed address lies in one of the pool's subnets.
Result<void> check_in_subnets(const PoolConfig& pool, const std::vector<std::string>& addresses);

}  // namespace podlane::dp
