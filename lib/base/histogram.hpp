// Histogram: log-linear, in nanoseconds or any other whole unit; 64 steps per power of two, so a value is known to 1.6 %.
// record() does not allocate. One writer; any thread may read after it has stopped.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace podlane {

class Histogram {
 public:
  static constexpr unsigned kStepBits = 6;  // 64 steps per power of two.
  static constexpr unsigned kSteps = 1U << kStepBits;
  static constexpr unsigned kBuckets = (64 - kStepBits + 1) * kSteps;

  void record(std::uint64_t value) {
    ++buckets_[bucket_of(value)];
    ++count_;
    sum_ += value;
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
  }
  void merge(const Histogram& other) {
    for (unsigned i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    if (other.max_ > max_) max_ = other.max_;
    if (other.min_ < min_) min_ = other.min_;
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

  // The value that `percent` of the records do not exceed, to the width of a step; 0 when there are none.
  std::uint64_t percentile(double percent) const {
    if (count_ == 0) return 0;
    const double exact = percent / 100.0 * static_cast<double>(count_);
    std::uint64_t rank = static_cast<std::uint64_t>(exact);
    if (static_cast<double>(rank) < exact) ++rank;
    if (rank == 0) rank = 1;
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen >= rank) {
        const std::uint64_t high = highest_of(i);
        return high < max_ ? high : max_;
      }
    }
    return max_;
  }

  // Calls visit(highest value of the bucket, records in it) for each bucket that has any, lowest first.
  template <typename Visit>
  void each(Visit visit) const {
    for (unsigned i = 0; i < kBuckets; ++i) {
      if (buckets_[i] != 0) visit(highest_of(i), buckets_[i]);
    }
  }

 private:
  // Values below 2 * kSteps stand for themselves; above, the upper kStepBits + 1 bits choose the bucket.
  static unsigned bucket_of(std::uint64_t value) {
    const unsigned width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > kStepBits + 1 ? width - kStepBits - 1 : 0;
    return shift * kSteps + static_cast<unsigned>(value >> shift);
  }
  static std::uint64_t highest_of(unsigned bucket) {
    if (bucket < 2 * kSteps) return bucket;
    const unsigned shift = bucket / kSteps - 1;
    return ((static_cast<std::uint64_t>(bucket - shift * kSteps) + 1) << shift) - 1;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0, sum_ = 0, max_ = 0, min_ = ~std::uint64_t{0};
};

}  // namespace podlane
