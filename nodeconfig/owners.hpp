// Who else tunes this node: processes and their configuration. Detected, named, and never touched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodeconfig/tree.hpp"

namespace podlane::nodeconfig {

struct Process {
  unsigned pid = 0;
  std::string name;
  std::int64_t started_ms = 0;  // Since boot.
};

// A value that another owner keeps: of a file by its path, or of all interrupts.
struct Claim {
  std::string path;   // "/proc/sys/vm/stat_interval"; ends with '*' when it stands for all that begin so.
  std::string value;  // What it writes there; empty when not known.
  std::string place;  // "/etc/tuned/trading/tuned.conf:14"
};

struct Owner {
  std::string name;       // "TuneD", "irqbalance"
  std::string evidence;   // "profile latency-performance is active (/etc/tuned/active_profile)"
  std::string advice;     // What to do about it, in one sentence.
  bool owns_all = false;  // The whole node: everything is only observed.
  std::vector<Claim> claims;
};

// The processes with one of these names.
std::vector<Process> find_processes(const Tree& tree, const std::vector<std::string>& names);
std::vector<Owner> find_owners(const Tree& tree, const std::vector<Process>& processes);

// Of TuneD's configuration: sections with options, each with its line. Lines that are none are passed over.
struct IniLine {
  std::string section, option, value;
  unsigned line = 0;
};
std::vector<IniLine> parse_ini(std::string_view text);

// The claim on a path, or nullptr.
const Claim* claim_on(const std::vector<Owner>& owners, const std::string& path, const Owner** owner);

}  // namespace podlane::nodeconfig
