#include "lib/base/histogram.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace podlane {
namespace {

TEST(Histogram, KnowsEveryValueToAStep) {
  for (const std::uint64_t value : {0ULL, 1ULL, 63ULL, 64ULL, 127ULL, 128ULL, 129ULL, 1000ULL, 123456789ULL, 1ULL << 40, ~0ULL >> 1, ~0ULL}) {
    auto histogram = std::make_unique<Histogram>();
    histogram->record(value);
    std::uint64_t bucket = 0;
    histogram->each([&](std::uint64_t high, std::uint64_t count) {
      bucket = high;
      EXPECT_EQ(count, 1U);
    });
    EXPECT_GE(bucket, value);
    EXPECT_LE(static_cast<double>(bucket - value), static_cast<double>(value) / 64.0) << value;
    EXPECT_EQ(histogram->percentile(50), value) << "a lone value is its own maximum";
  }
}

TEST(Histogram, FindsPercentilesOfARamp) {
  auto histogram = std::make_unique<Histogram>();
  for (std::uint64_t i = 1; i <= 100000; ++i) histogram->record(i);
  for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9}) {
    EXPECT_NEAR(static_cast<double>(histogram->percentile(percent)), percent * 1000, percent * 1000 / 50) << percent;
  }
  EXPECT_EQ(histogram->percentile(100), 100000U);
  EXPECT_EQ(histogram->min(), 1U);
  EXPECT_DOUBLE_EQ(histogram->mean(), 50000.5);
}

TEST(Histogram, MergesAsIfRecordedTogether) {
  auto a = std::make_unique<Histogram>(), b = std::make_unique<Histogram>(), both = std::make_unique<Histogram>();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    (i % 2 == 0 ? a : b)->record(i * i);
    both->record(i * i);
  }
  a->merge(*b);
  EXPECT_EQ(a->count(), both->count());
  EXPECT_EQ(a->percentile(99), both->percentile(99));
  EXPECT_EQ(a->max(), both->max());
  EXPECT_EQ(std::make_unique<Histogram>()->percentile(99), 0U);
}

}  // namespace
}  // namespace podlane
