// The statistics of the benchmarks: medians, and a distribution-free bound for a median of paired ratios. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace podlane::bench {

double median(std::vector<double> values);

enum class Side { kUpper, kLower };

// One-sided 95 % confidence bound of the median by order statistics: the k-th value from that side's end, k as small as
// keeps the binomial tail within 5 %. No assumption about the distribution. Fewer than 5 values give the extreme value.
double median_bound(std::vector<double> values, Side side);

}  // namespace podlane::bench
