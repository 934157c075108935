// lanes.json: who has what, for podlanectl and node configuration. Pure. Any thread.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::dp {

inline constexpr int kLanesJsonVersion = 1;

// {"version":1,"lanes":[{…}]}: one object per lane that is not free, in the order of pool and device.
std::string encode_lanes_json(const std::vector<LaneReport>& lanes);

}  // namespace podlane::dp
