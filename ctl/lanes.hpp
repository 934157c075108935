// podlanectl lanes: who has what and what is in force, as text. Pure; the command itself is in lanes.cpp.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane::ctl {

// lanes.json (deviceplugin/lanes/lanes_json.hpp) as a table with a head line; a line in words when there is no lane.
// kInvalid when it is not such a file, kUnsupported when a later version wrote it.
Result<std::string> render_lanes(std::string_view lanes_json);

}  // namespace podlane::ctl
