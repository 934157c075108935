// What the kubelet side counts since start, by pool; read by /metrics and /readyz. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace podlane::dp {

struct PoolCounters {
  std::atomic<std::uint64_t> registrations_total{0};
  std::atomic<std::uint64_t> registration_errors_total{0};
  std::atomic<std::uint64_t> streams_total{0};
  std::atomic<std::uint64_t> allocations_total{0};  // Container requests answered.
  std::atomic<std::uint64_t> allocation_errors_total{0};
  std::atomic<std::uint64_t> pre_starts_total{0};
  std::atomic<std::uint64_t> pre_start_errors_total{0};
};

// A copy for readers.
struct PoolStatus {
  std::string pool;
  bool registered = false;  // The kubelet has accepted us and holds our stream open.
  std::uint64_t registrations_total = 0;
  std::uint64_t registration_errors_total = 0;
  std::uint64_t streams_total = 0;
  std::uint64_t allocations_total = 0;
  std::uint64_t allocation_errors_total = 0;
  std::uint64_t pre_starts_total = 0;
  std::uint64_t pre_start_errors_total = 0;
};

}  // namespace podlane::dp
