#include "deviceplugin/handover/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/testlib/testlib.hpp"

namespace podlane::dp {
namespace {

using namespace std::chrono_literals;

TEST(WorkerPool, OneThreadKeepsTheOrder) {
  std::vector<int> seen;
  std::atomic<bool> done = false;
  WorkerPool pool(1);
  for (int i = 0; i < 1000; ++i) pool.submit([&, i] { seen.push_back(i); });
  pool.submit([&] { done = true; });
  ASSERT_TRUE(test::eventually(5s, [&] { return done.load(); }));
  ASSERT_EQ(seen.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(WorkerPool, BlockedJobsDoNotHoldUpOthersWithinTheBound) {
  std::atomic<bool> release = false;
  std::atomic<int> begun = 0;
  WorkerPool pool(4);
  for (int i = 0; i < 6; ++i) {
    pool.submit([&] {
      ++begun;
      test::eventually(10s, [&] { return release.load(); });
    });
  }
  EXPECT_TRUE(test::eventually(5s, [&] { return begun == 4; }));
  EXPECT_EQ(pool.waiting(), 2U);
  release = true;
  EXPECT_TRUE(test::eventually(5s, [&] { return begun == 6; }));
}

TEST(WorkerPool, EndWaitsForWhatRunsAndDropsTheRest) {
  std::atomic<int> ended = 0;
  std::atomic<bool> begun = false;
  {
    WorkerPool pool(1);
    pool.submit([&] {
      begun = true;
      test::pass_time(50ms);
      ++ended;
    });
    ASSERT_TRUE(test::eventually(5s, [&] { return begun.load(); }));
    pool.submit([&] { ++ended; });
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace podlane::dp
