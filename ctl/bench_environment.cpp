#include "ctl/bench_environment.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdio>
#include <thread>

#include "lib/base/file.hpp"

namespace podlane::ctl {

namespace {

std::string first_line(const std::string& path) {
  const auto text = read_file(path, 4096);
  if (!text) return "not known";
  const std::string line = text->substr(0, text->find('\n'));
  return line.empty() ? "none" : line;
}

std::string cpu_model() {
  const auto text = read_file("/proc/cpuinfo", 1 << 20);
  if (!text) return "not known";
  const std::size_t at = text->find("model name");
  if (at == std::string::npos) return "not known";
  const std::size_t colon = text->find(": ", at);
  return text->substr(colon + 2, text->find('\n', colon) - colon - 2);
}

std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return "not known";
  std::string text;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> bench_environment() {
  utsname names{};
  ::uname(&names);
  return {{"kernel", names.release},
          {"cpu", cpu_model()},
          {"cpus", std::to_string(std::thread::hardware_concurrency()) + " usable, allowed " + allowed_cpus()},
          {"governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
          {"isolated", first_line("/sys/devices/system/cpu/isolated")},
          {"clock", first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource")},
          {"version", PODLANE_VERSION}};
}

BenchUsage bench_usage() {
  BenchUsage usage;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000 + static_cast<std::uint64_t>(time.tv_usec) * 1000;
  };
  usage.cpu_ns = ns(used.ru_utime) + ns(used.ru_stime);
  usage.involuntary_switches = static_cast<std::uint64_t>(used.ru_nivcsw);
  if (const auto stat = read_file("/proc/stat", 1 << 20)) {
    // "cpu  user nice system idle iowait irq softirq steal …" (proc(5)).
    unsigned long long steal = 0;
    if (std::sscanf(stat->c_str(), "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &steal) == 1) usage.steal_ticks = steal;
  }
  return usage;
}

}  // namespace podlane::ctl
