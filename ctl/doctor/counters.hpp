// Counters of the kernel that tell what happened on a CPU between two looks: interrupts, CPU time, tasks. Parsers of
// /proc, pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nodeconfig/tree.hpp"

namespace podlane::doctor {

// Of one CPU, in ticks: proc(5), /proc/stat.
struct CpuTime {
  std::uint64_t busy = 0, idle = 0, steal = 0;
};

// CPU -> count, of one line of /proc/interrupts. Columns are the CPUs online, named in its first line.
struct InterruptLine {
  std::string name;  // "147", "LOC"
  std::string what;  // "ens1f0-TxRx-3", "Local timer interrupts"
  std::map<unsigned, std::uint64_t> by_cpu;
};

struct TaskTime {
  std::string name;
  unsigned cpu = 0;  // Where it ran last.
  bool of_kernel = false;
  std::uint64_t ticks = 0;
};

struct Counters {
  std::map<unsigned, CpuTime> cpus;
  std::vector<InterruptLine> interrupts;
  std::map<unsigned, TaskTime> tasks;  // By process id.
};

std::map<unsigned, CpuTime> parse_cpu_times(std::string_view proc_stat);
std::vector<InterruptLine> parse_interrupts(std::string_view proc_interrupts);
// /proc/<pid>/stat. An empty name: it is no such line.
TaskTime parse_task(std::string_view stat);

Counters read_counters(const nodeconfig::Tree& tree);

}  // namespace podlane::doctor
