// Probe: what waiting costs on this node, measured. For each of a few CPUs a thread is pinned there, first sleeps and
// wakes, then spins and looks for gaps; meanwhile the kernel's counters are read twice. It takes `seconds`, disturbs
// the CPUs it runs on for that time, and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ctl/doctor/counters.hpp"
#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/tree.hpp"

namespace podlane::doctor {

struct CpuProbe {
  unsigned cpu = 0;
  std::string problem;  // Not empty: why nothing was measured here.
  double wake_p50_us = 0, wake_p99_us = 0, wake_max_us = 0;
  double gap_max_us = 0, lost_share = 0;  // Of the time that the thread wanted to run.
  std::uint64_t gaps = 0;
};

struct Probe {
  double seconds = 0;
  std::vector<CpuProbe> cpus;
  Counters before, after;
};

struct ProbePlan {
  nodeconfig::CpuSet cpus;
  int wake_ms = 300, gap_ms = 400;  // One after the other, all CPUs at once.
};

inline constexpr unsigned kMaxProbedCpus = 4;

Probe measure(const nodeconfig::Tree& tree, const ProbePlan& plan);

}  // namespace podlane::doctor
