#include "ctl/doctor/probe.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace podlane::doctor {

namespace {

constexpr std::int64_t kSleepNs = 1'000'000;
constexpr std::int64_t kGapNs = 1000;  // Shorter ones are the loop's own.

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

bool pin_to(unsigned cpu) {
  const std::size_t size = CPU_ALLOC_SIZE(nodeconfig::CpuSet::kMax);
  cpu_set_t* const set = CPU_ALLOC(nodeconfig::CpuSet::kMax);
  if (set == nullptr) return false;
  CPU_ZERO_S(size, set);
  CPU_SET_S(cpu, size, set);
  const bool pinned = ::sched_setaffinity(0, size, set) == 0;
  const int error = errno;
  CPU_FREE(set);
  errno = error;
  return pinned;
}

// How late a sleep ends: the timer, the idle state, the clock and the scheduler together.
void measure_wake(CpuProbe& probe, int milliseconds) {
  // The kernel may end a sleep as much later as the thread's slack says, 50 us by default, to save wake-ups (prctl(2)).
  (void)::prctl(PR_SET_TIMERSLACK, 1);
  std::vector<double> late_us;
  const std::int64_t end = now_ns() + milliseconds * std::int64_t{1'000'000};
  while (now_ns() < end) {
    const std::int64_t until = now_ns() + kSleepNs;
    const timespec at{.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    late_us.push_back(static_cast<double>(now_ns() - until) / 1000);
  }
  std::sort(late_us.begin(), late_us.end());
  probe.wake_p50_us = late_us[late_us.size() / 2];
  probe.wake_p99_us = late_us[late_us.size() * 99 / 100];
  probe.wake_max_us = late_us.back();
}

// Two looks at the clock that are far apart: the thread was not running between them.
void measure_gaps(CpuProbe& probe, int milliseconds) {
  const std::int64_t start = now_ns(), end = start + milliseconds * std::int64_t{1'000'000};
  std::int64_t last = start, longest = 0, lost = 0;
  while (last < end) {
    const std::int64_t now = now_ns();
    const std::int64_t gap = now - last;
    last = now;
    if (gap <= kGapNs) continue;
    longest = std::max(longest, gap);
    lost += gap;
    ++probe.gaps;
  }
  probe.gap_max_us = static_cast<double>(longest) / 1000;
  probe.lost_share = static_cast<double>(lost) / static_cast<double>(std::max<std::int64_t>(last - start, 1));
}

void measure_cpu(CpuProbe& probe, const ProbePlan& plan) {
  if (!pin_to(probe.cpu)) {
    probe.problem = "CPU " + std::to_string(probe.cpu) + " is not ours to run on: " + std::strerror(errno);
    return;
  }
  measure_wake(probe, plan.wake_ms);
  measure_gaps(probe, plan.gap_ms);
}

}  // namespace

Probe measure(const nodeconfig::Tree& tree, const ProbePlan& plan) {
  Probe probe;
  for (const unsigned cpu : plan.cpus.cpus()) {
    if (probe.cpus.size() < kMaxProbedCpus) probe.cpus.push_back({.cpu = cpu});
  }
  probe.before = read_counters(tree);
  const std::int64_t start = now_ns();
  std::vector<std::thread> threads;
  for (CpuProbe& cpu : probe.cpus) threads.emplace_back([&cpu, &plan] { measure_cpu(cpu, plan); });
  for (std::thread& thread : threads) thread.join();
  probe.seconds = static_cast<double>(now_ns() - start) / 1e9;
  probe.after = read_counters(tree);
  return probe;
}

}  // namespace podlane::doctor
