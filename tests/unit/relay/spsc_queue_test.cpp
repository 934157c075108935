#include "lib/podlane/spsc_queue.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace podlane {
namespace {

TEST(SpscQueue, IsBoundedAndInOrder) {
  SpscQueue<int, 4> queue;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.push(i));
  EXPECT_FALSE(queue.push(4));
  int value = -1;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue.pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(queue.pop(value));
}

TEST(SpscQueue, LosesNothingBetweenTwoThreads) {
  SpscQueue<std::uint64_t, 64> queue;
  constexpr std::uint64_t kCount = 100000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kCount;) {
      if (queue.push(i)) ++i;
      else std::this_thread::yield();
    }
  });
  for (std::uint64_t expected = 0; expected < kCount;) {
    std::uint64_t value = 0;
    if (queue.pop(value)) {
      ASSERT_EQ(value, expected++);
    }
    else std::this_thread::yield();
  }
  producer.join();
}

}  // namespace
}  // namespace podlane
