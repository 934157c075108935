// Options of podlane-relay: the command line, and PODLANE_* variables where it is silent. docs/relay.md lists them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/xsk/idle_policy.hpp"

namespace podlane::relay {

struct Options {
  std::vector<std::string> lane_dirs;        // Directories that hold <n>/handover.sock, or such <n> themselves.
  std::optional<xsk::WaitMode> mode;         // Empty: as the lane's description says.
  std::vector<CpuId> cpus;                   // One per lane, in order; empty: chosen from the allowed ones.
  std::chrono::seconds wait{60};             // For the hand-over.
  LogLevel log_level = LogLevel::kInfo;
  bool check = false;
  bool version = false;
  bool help = false;
};

// environment: "NAME=value" entries. Errors name option, value and what would be right.
Result<Options> parse_options(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);

std::string_view usage();

// The lanes of the directories: each <n> below them, in order, that is a number and holds or will hold handover.sock.
Result<std::vector<std::string>> find_lanes(const std::vector<std::string>& lane_dirs);

// "2", "2-3", "0,2-3".
Result<std::vector<CpuId>> parse_cpu_list(std::string_view text);

}  // namespace podlane::relay
