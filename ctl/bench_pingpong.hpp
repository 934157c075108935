// podlanectl bench pingpong: one datagram goes, the same comes back; how long did it take? The library part: no options, no
// output. One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "ctl/bench_endpoint.hpp"
#include "ctl/bench_environment.hpp"
#include "lib/base/histogram.hpp"

namespace podlane::ctl {

struct PingPongOptions {
  std::size_t size_bytes = 64;   // UDP payload; at least 16: sequence number and run.
  std::uint64_t count = 20000;   // Measured round trips.
  std::uint64_t warm_up = 1000;  // Round trips before that.
  std::uint64_t rate = 0;        // Round trips a second; 0: as fast as they come back.
  std::chrono::milliseconds timeout{1000};  // For one round trip; then it counts as lost.
};

struct PingPongResult {
  Histogram rtt_ns;  // Paced: from the intended moment of sending, so that a stall is charged to all that it delayed.
  std::uint64_t sent = 0, lost = 0;
  std::chrono::nanoseconds elapsed{0};
  std::uint64_t system_calls = 0;  // Of this side.
  BenchUsage usage;                // Differences over the measured part.
};

// stop: ends the run early when it becomes true; what was measured until then is the result.
Result<PingPongResult> run_ping_pong(BenchEndpoint& endpoint, const PingPongOptions& options,
                                     const std::atomic<bool>& stop);

// Sends every datagram back until stop. Number of datagrams.
Result<std::uint64_t> run_echo(BenchEndpoint& endpoint, const std::atomic<bool>& stop);

}  // namespace podlane::ctl
