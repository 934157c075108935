// What the benchmark programs share: round-trip samples, what the process and the machine did meanwhile, and the one JSON
// line that a round prints and compare.cpp reads. Test code: may throw.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace podlane::bench {

inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void pin_to_cpu(int cpu);  // Negative: leaves the thread where it is.

// All samples are kept: a round has at most some 100,000, and an exact percentile needs no bucket argument.
class Samples {
 public:
  explicit Samples(std::size_t capacity) { values_ns_.reserve(capacity); }
  void add(std::int64_t value_ns) { values_ns_.push_back(value_ns); }
  std::size_t count() const { return values_ns_.size(); }
  std::int64_t percentile_ns(double fraction);  // Sorts; nearest rank.

 private:
  std::vector<std::int64_t> values_ns_;
};

// CPU time of this process, involuntary switches, and the time the hypervisor took from all CPUs (/proc/stat, steal).
struct Usage {
  std::int64_t wall_ns = 0, cpu_ns = 0, steal_ms = 0;
  std::uint64_t involuntary_switches = 0;
};
Usage usage_now();

struct RoundResult {
  std::string what;
  std::uint64_t lost = 0;
  std::uint64_t system_calls = 0;  // 0: not counted.
};
// Prints {"what":…,"count":…,"p50_ns":…,"p99_ns":…,"p999_ns":…,"max_ns":…,"per_second":…,"cpu_percent":…,"steal_ms":…,
// "involuntary_switches":…,"lost":…,"system_calls_per_packet":…} and a newline.
void print_round(const RoundResult& result, Samples& samples, const Usage& before, const Usage& after);

}  // namespace podlane::bench
