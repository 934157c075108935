// Names that the lane table makes or reads. Pure but for random_directory_name(). Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"

namespace podlane::dp {

inline constexpr std::string_view kPodLanesDirectory = "/run/podlane/lanes/";  // In the container; then the pool.

std::string lanes_variable(std::string_view pool);   // "PODLANE_LANES_MARKET_DATA" for "market-data"
std::string resource_name(std::string_view pool);    // "podlane.io/feed"

// 128 random bits as 32 hexadecimal digits: an Allocate's directory cannot be guessed and is never used twice.
Result<std::string> random_directory_name();

// A lane's veth. The random part keeps a new pair apart from an older one of the slot that is still going away.
Result<std::string> veth_host_name(LaneSlot slot);  // "pl12x3f9a1c"
std::string veth_pod_name(LaneSlot slot);           // "pv12": slots are unique on the node, so also in the pod.

// "feed-2" before "feed-10".
void sort_device_ids(std::vector<std::string>& ids);

}  // namespace podlane::dp
