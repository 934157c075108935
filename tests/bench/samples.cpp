#include "tests/bench/samples.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace podlane::bench {

void pin_to_cpu(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) throw std::runtime_error("cannot pin to CPU " + std::to_string(cpu));
}

std::int64_t Samples::percentile_ns(double fraction) {
  if (values_ns_.empty()) return 0;
  std::sort(values_ns_.begin(), values_ns_.end());
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values_ns_.size())));
  return values_ns_[std::clamp<std::size_t>(rank, 1, values_ns_.size()) - 1];
}

Usage usage_now() {
  Usage usage;
  timespec cpu{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  rusage resources{};
  ::getrusage(RUSAGE_SELF, &resources);
  std::ifstream stat("/proc/stat");
  std::string label;
  long long user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  stat >> label >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  usage.wall_ns = now_ns();
  usage.cpu_ns = cpu.tv_sec * 1'000'000'000LL + cpu.tv_nsec;
  usage.steal_ms = steal * 1000 / ::sysconf(_SC_CLK_TCK);
  usage.involuntary_switches = static_cast<std::uint64_t>(resources.ru_nivcsw);
  return usage;
}

void print_round(const RoundResult& result, Samples& samples, const Usage& before, const Usage& after) {
  const double wall_ns = static_cast<double>(after.wall_ns - before.wall_ns);
  const auto count = static_cast<double>(samples.count());
  std::printf(
      "{\"what\":\"%s\",\"count\":%zu,\"p50_ns\":%lld,\"p99_ns\":%lld,\"p999_ns\":%lld,\"max_ns\":%lld,"
      "\"per_second\":%.0f,\"cpu_percent\":%.1f,\"steal_ms\":%lld,\"involuntary_switches\":%llu,\"lost\":%llu,"
      "\"system_calls_per_packet\":%.3f}\n",
      result.what.c_str(), samples.count(), static_cast<long long>(samples.percentile_ns(0.5)),
      static_cast<long long>(samples.percentile_ns(0.99)), static_cast<long long>(samples.percentile_ns(0.999)),
      static_cast<long long>(samples.percentile_ns(1.0)), count * 1e9 / wall_ns,
      100.0 * static_cast<double>(after.cpu_ns - before.cpu_ns) / wall_ns,
      static_cast<long long>(after.steal_ms - before.steal_ms),
      static_cast<unsigned long long>(after.involuntary_switches - before.involuntary_switches),
      static_cast<unsigned long long>(result.lost),
      count > 0 ? static_cast<double>(result.system_calls) / (2 * count) : 0.0);
  std::fflush(stdout);
}

}  // namespace podlane::bench
