// The bound decides must-rows, so its order statistics are checked against binomial tables.
#include "tests/bench/statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace podlane::bench {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(MedianBound, DropsAsManyExtremesAsTheBinomialTailAllows) {
  const struct {
    const char* name;
    int n;
    double upper, lower;
  } rows[] = {
      {"too few to drop any", 4, 4, 1},
      {"5 values: tail 1/32", 5, 5, 1},
      {"10 values: P(<=1) = 0.011, P(<=2) = 0.055", 10, 9, 2},
      {"11 values: P(<=2) = 0.033", 11, 9, 3},
      {"21 values: P(<=6) = 0.039", 21, 15, 7},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(median_bound(one_to(row.n), Side::kUpper), row.upper) << row.name;
    EXPECT_EQ(median_bound(one_to(row.n), Side::kLower), row.lower) << row.name;
  }
}

}  // namespace
}  // namespace podlane::bench
