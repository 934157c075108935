// How long a pass takes on a large node: 256 CPUs, 2,000 interrupts, 64 queues. Printed, not judged: machines differ
// (docs/node-profile.md has the figures of one).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

TEST(Reach, OfALargeNode) {
  Node node(
      {.sockets = 2, .cores = 64, .threads = 2, .nics = {{.queues = 64}}, .nvme_queues = 256, .other_irqs = 1679});
  const Profile profile = profile_of(R"({"mode": "enforce", "cpus": {"lanes": "32-63", "workqueues": "housekeeping"},
    "interrupts": {"irqs": "housekeeping", "defaultAffinity": "housekeeping"}, "memory": {"thp": "never"},
    "power": {"governor": "performance", "energyPreference": "performance", "maxIdleLatencyUs": 10},
    "nics": [{"match": {"name": "*"}, "irqs": "local", "rps": "off", "xps": "housekeeping"}]})");
  const auto tree = Tree::open(node.root());
  std::vector<double> milliseconds, busy;
  const auto cpu_milliseconds = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  std::size_t changes = 0;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const double busy_before = cpu_milliseconds();
    const auto pass = look(*tree, profile, node.run_dir(), {});
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    busy.push_back(cpu_milliseconds() - busy_before);
    ASSERT_TRUE(pass) << pass.error().message();
    changes = pass->plan.changes.size();
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::sort(busy.begin(), busy.end());
  EXPECT_EQ(changes, 2000U + 1 + 1 + 1 + 3 * 32 + 2 * 64);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(change(*tree, profile, node.run_dir(), {}));
  const double applied = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "facts and plan of 256 CPUs, 2000 interrupts, 64 queues: %.1f ms, of which this thread ran %.1f ms (medians of "
      "7; best %.1f and %.1f); apply of all: %.1f ms; "
      "largest RSS of this process %.1f MB\n",
      milliseconds[3], busy[3], milliseconds[0], busy[0], applied, static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace
}  // namespace podlane::nodeconfig::test
