// Settings: a profile's wishes spelled out for one node, one for each file; and what those files read now. Expanding is
// pure; read_settings() is where the plan looks at the node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nodeconfig/facts.hpp"
#include "nodeconfig/profile.hpp"

namespace podlane::nodeconfig {

struct Setting {
  const Knob* knob = nullptr;
  std::string key;      // What it is: "irq/0000:3b:00.0/rx-3/affinity", "sysctl/vm.stat_interval".
  std::string path;     // Where it is now.
  std::string wanted;   // As canonical() gives it.
  std::string place;    // In the profile.
  std::string cannot;   // Not empty: this node cannot have it, and why.
  std::string not_now;  // Not empty: it would disturb somebody, and whom.
};

struct Expansion {
  CpuSet lanes, housekeeping;
  std::vector<Setting> settings;   // In the order in which they are applied.
  std::vector<std::string> notes;  // What the operator should know, in sentences.
};

// Errors: CPU sets that overlap or do not exist, and queues and NUMA nodes that do not: then nothing is planned at all.
Result<Expansion> expand(const Facts& facts, const Profile& profile);

// One spelling for each value: "0,1" and "0-1", "0003" and "3", "always [never]" and "never".
std::string canonical(Format format, std::string_view text);

// Whether a file that reads `now` has what is wanted. Interrupts: any part of the CPUs wanted is as good.
bool satisfies(const Setting& setting, std::string_view now);

struct Reading {
  std::optional<std::string> now;     // Canonical; empty: not readable, see error.
  int error = 0;                      // errno
  mode_t mode = 0;                    // Of an interrupt that is not where it is wanted.
  std::string effective;              // Of one that is: where it fires.
  std::vector<std::string> offered;   // Words that can be chosen; empty where the knob has no such list.
  std::optional<std::int64_t> limit;  // Knob::limit
  bool meaningless = false;           // Knob::needs is missing.
};

Reading read_setting(const Tree& tree, const Setting& setting);

// The file of a key that was set before: interrupts and interfaces are found again under their number and name of now.
// Empty: gone.
std::string path_now(const Facts& facts, const Knob& knob, const std::string& key, const std::string& path_then);

}  // namespace podlane::nodeconfig
