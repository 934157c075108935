// Advice: what podlane does not do itself - the kubelet's configuration, boot arguments, firmware - as texts and exact
// steps for this node. Pure.
#pragma once

#include <string>
#include <vector>

#include "nodeconfig/facts.hpp"
#include "nodeconfig/profile.hpp"

namespace podlane::nodeconfig {

struct Advice {
  std::string about;  // "kubelet", "boot", "firmware"
  std::string label;  // "kubelet-restart-required", "reboot-required"; empty: nothing is to be done.
  std::string words;
  std::string file_path, file;       // A file to write, and its content; empty: none.
  std::vector<std::string> steps;    // Commands, in order.
  std::vector<std::string> missing;  // What is not in force yet: "cpuManagerPolicy static (now none)".
};

std::vector<Advice> advise(const Facts& facts, const Profile& profile, const CpuSet& housekeeping);

}  // namespace podlane::nodeconfig
