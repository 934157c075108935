#include "tests/bench/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace podlane::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_bound(std::vector<double> values, Side side) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  // P(the median lies above the (n - drop)-th smallest value) = P(Binomial(n, 1/2) <= drop).
  double tail = 0;
  std::size_t drop = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const double log_term = std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
                            std::lgamma(static_cast<double>(n - k) + 1) - static_cast<double>(n) * std::log(2.0);
    tail += std::exp(log_term);
    if (tail > 0.05) break;
    drop = k;
  }
  return side == Side::kUpper ? values[n - 1 - drop] : values[drop];
}

}  // namespace podlane::bench
