// One pass over a node: read, plan, and where it is asked for, apply. What the commands and the daemon share.
#pragma once

#include <memory>
#include <string>

#include "nodeconfig/advice.hpp"
#include "nodeconfig/apply.hpp"

namespace podlane::nodeconfig {

struct Pass {
  Facts facts;
  Plan plan;
  std::vector<Advice> advice;
};

// Interface -> lanes on it, of the device plugin's lanes.json.
Result<std::map<std::string, std::string>> parse_lanes(std::string_view text);

Result<Profile> load_profile(const std::string& path);

// The plan alone: nothing is written, the run directory may be missing.
Result<Pass> look(const Tree& tree, const Profile& profile, const std::string& run_dir, const PlanOptions& options);

// Only one process at a time changes a node. kBusy names the lock's file.
Result<UniqueFd> lock_node(const std::string& run_dir);

// Under the lock. In mode observe the same as look().
Result<Pass> change(const Tree& tree, const Profile& profile, const std::string& run_dir, const PlanOptions& options);

// Under the lock: undo of everything.
Result<std::vector<Undone>> take_back(const Tree& tree, const std::string& run_dir);

// <run dir>/nodeconfig.json, for podlanectl and whoever publishes labels.
Result<void> publish_status(const Profile& profile, const Pass& pass, const std::string& run_dir);

}  // namespace podlane::nodeconfig
