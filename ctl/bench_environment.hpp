// What a number was measured on: printed before it (style.md 51). Linux only; reads procfs and sysfs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace podlane::ctl {

// ("kernel", "6.18.44"), ("cpu", …), ("cpus", "2 online, allowed 0-1"), ("governor", …), ("clock", …), ("isolated", …).
std::vector<std::pair<std::string, std::string>> bench_environment();

// Used between two moments: CPU time of this process, steal time of the machine, involuntary context switches.
struct BenchUsage {
  std::uint64_t cpu_ns = 0;
  std::uint64_t steal_ticks = 0;  // 10 ms each, over all CPUs.
  std::uint64_t involuntary_switches = 0;
};
BenchUsage bench_usage();

}  // namespace podlane::ctl
