#include "ctl/doctor/counters.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

constexpr std::uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD (include/linux/sched.h)

std::optional<std::uint64_t> to_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "CPU12", "cpu12"
std::optional<unsigned> cpu_number(std::string_view word) {
  if (word.size() < 4) return std::nullopt;
  const auto number = to_count(word.substr(3));
  if (!number || *number >= nodeconfig::CpuSet::kMax) return std::nullopt;
  return static_cast<unsigned>(*number);
}

// Calls `each` with every line.
template <typename Each>
void of_each_line(std::string_view text, Each each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::map<unsigned, CpuTime> parse_cpu_times(std::string_view proc_stat) {
  std::map<unsigned, CpuTime> times;
  of_each_line(proc_stat, [&](std::string_view line) {
    if (!line.starts_with("cpu")) return;
    const auto words = words_of(line);
    const auto cpu = words.empty() ? std::nullopt : cpu_number(words[0]);
    if (!cpu || words.size() < 9) return;
    std::uint64_t fields[8];
    for (std::size_t i = 0; i < 8; ++i) {
      const auto value = to_count(words[i + 1]);
      if (!value) return;
      fields[i] = *value;
    }
    // user nice system idle iowait irq softirq steal
    times[*cpu] = {.busy = fields[0] + fields[1] + fields[2] + fields[5] + fields[6],
                   .idle = fields[3] + fields[4],
                   .steal = fields[7]};
  });
  return times;
}

std::vector<InterruptLine> parse_interrupts(std::string_view proc_interrupts) {
  std::vector<InterruptLine> lines;
  std::vector<unsigned> columns;
  bool is_head = true;
  of_each_line(proc_interrupts, [&](std::string_view line) {
    const auto words = words_of(line);
    if (is_head) {
      is_head = false;
      for (const std::string_view word : words) {
        if (const auto cpu = cpu_number(word); cpu && word.starts_with("CPU")) columns.push_back(*cpu);
      }
      return;
    }
    if (words.size() < 2 || !words[0].ends_with(':') || columns.empty()) return;
    InterruptLine found{.name = std::string(words[0].substr(0, words[0].size() - 1))};
    std::size_t at = 1;
    for (; at < words.size() && at - 1 < columns.size(); ++at) {
      const auto count = to_count(words[at]);
      if (!count) break;
      if (*count != 0) found.by_cpu[columns[at - 1]] = *count;
    }
    const bool of_device = to_count(found.name).has_value();
    // A device's line names chip and type first; its own name is the last word. Others are described in words.
    for (; at < words.size(); ++at) {
      if (of_device) found.what = words[at];
      else found.what.append(found.what.empty() ? "" : " ").append(words[at]);
    }
    lines.push_back(std::move(found));
  });
  return lines;
}

TaskTime parse_task(std::string_view stat) {
  TaskTime task;
  const std::size_t open = stat.find('('), close = stat.rfind(')');
  if (open == stat.npos || close == stat.npos || close < open) return task;
  const auto words = words_of(stat.substr(close + 1));  // From field 3 on: proc(5).
  if (words.size() < 37) return task;
  const auto flags = to_count(words[6]), user = to_count(words[11]), system = to_count(words[12]),
             cpu = to_count(words[36]);
  if (!flags || !user || !system || !cpu || *cpu >= nodeconfig::CpuSet::kMax) return task;
  task.name = stat.substr(open + 1, close - open - 1);
  task.of_kernel = (*flags & kKernelThread) != 0;
  task.ticks = *user + *system;
  task.cpu = static_cast<unsigned>(*cpu);
  return task;
}

Counters read_counters(const nodeconfig::Tree& tree) {
  Counters counters;
  if (const auto text = tree.read("/proc/stat", 16 << 20)) counters.cpus = parse_cpu_times(*text);
  if (const auto text = tree.read("/proc/interrupts", 16 << 20)) counters.interrupts = parse_interrupts(*text);
  for (const std::string& name : tree.list("/proc")) {
    const auto pid = to_count(name);
    if (!pid || *pid > 1U << 30) continue;
    const auto stat = tree.read("/proc/" + name + "/stat");
    if (!stat) continue;
    TaskTime task = parse_task(*stat);
    if (!task.name.empty()) counters.tasks[static_cast<unsigned>(*pid)] = std::move(task);
  }
  return counters;
}

}  // namespace podlane::doctor
