// lanes.json (deviceplugin/lanes/lanes_json.hpp), as the doctor uses it. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::doctor {

struct Lane {
  std::string pool, device, state, kind;
  std::string netdev;  // Empty: a lane without a NIC.
  int queue = -1;
  std::string name_space, pod, container, path, mode, ifname;
  std::vector<std::string> addresses;
  bool in_force = false;  // Somebody serves it: the three below are true of its socket.
  bool zero_copy = false, native_xdp = false, busy_poll = false;
};

// kInvalid when it is no such file, kUnsupported when a later version wrote it.
Result<std::vector<Lane>> parse_lanes(std::string_view text);

}  // namespace podlane::doctor
