#include "ctl/bench_pingpong.hpp"

#include <poll.h>

#include <cstring>
#include <random>
#include <vector>

namespace podlane::ctl {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSleepMargin = 200us;  // Before the moment of sending: the rest is spun, a wake-up takes tens of us.
constexpr auto kEchoLook = 200ms;     // How often the server looks at `stop`.

void wait_until(Clock::time_point moment) {
  for (;;) {
    const auto left = moment - Clock::now();
    if (left <= 0ns) return;
    if (left > kSleepMargin * 2) {
      const auto sleep = left - kSleepMargin;
      const timespec time{static_cast<time_t>(sleep / 1s), static_cast<long>((sleep % 1s).count())};
      ::ppoll(nullptr, 0, &time, nullptr);
    }
  }
}

// One round trip. false: lost.
Result<bool> one_trip(BenchEndpoint& endpoint, std::vector<std::uint8_t>& payload, std::vector<std::uint8_t>& answer,
                      std::uint64_t sequence, std::chrono::milliseconds timeout) {
  std::memcpy(payload.data(), &sequence, sizeof(sequence));
  PODLANE_TRY(endpoint.send(payload));
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    PODLANE_TRY_ASSIGN(const std::size_t size, endpoint.receive(answer, deadline));
    if (size == 0) return false;
    // Sequence and run must be ours: a late answer is not this one's.
    if (size == payload.size() && std::memcmp(answer.data(), payload.data(), 16) == 0) return true;
  }
}

}  // namespace

Result<PingPongResult> run_ping_pong(BenchEndpoint& endpoint, const PingPongOptions& options,
                                     const std::atomic<bool>& stop) {
  if (options.size_bytes < 16 || options.size_bytes > 65000) {
    return fail(Errc::kInvalid, "size " + std::to_string(options.size_bytes) + " must be 16 to 65000 bytes");
  }
  std::vector<std::uint8_t> payload(options.size_bytes, 0x5a), answer(65536);
  std::random_device random;
  const std::uint64_t run = static_cast<std::uint64_t>(random()) << 32 | random();
  std::memcpy(payload.data() + 8, &run, sizeof(run));

  std::uint64_t sequence = 0;
  for (std::uint64_t i = 0; i < options.warm_up && !stop; ++i) {
    PODLANE_TRY_ASSIGN([[maybe_unused]] const bool back,
                       one_trip(endpoint, payload, answer, sequence++, options.timeout));
  }
  PingPongResult result;
  const BenchUsage before = bench_usage();
  const std::uint64_t calls_before = endpoint.system_calls();
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < options.count && !stop; ++i) {
    auto moment = Clock::now();
    if (options.rate != 0) {
      moment = start + std::chrono::nanoseconds(i * 1000000000 / options.rate);
      wait_until(moment);
    }
    ++result.sent;
    PODLANE_TRY_ASSIGN(const bool back, one_trip(endpoint, payload, answer, sequence++, options.timeout));
    if (back) result.rtt_ns.record(static_cast<std::uint64_t>((Clock::now() - moment).count()));
    else ++result.lost;
  }
  result.elapsed = Clock::now() - start;
  result.system_calls = endpoint.system_calls() - calls_before;
  const BenchUsage after = bench_usage();
  result.usage = {after.cpu_ns - before.cpu_ns, after.steal_ticks - before.steal_ticks,
                  after.involuntary_switches - before.involuntary_switches};
  return result;
}

Result<std::uint64_t> run_echo(BenchEndpoint& endpoint, const std::atomic<bool>& stop) {
  std::vector<std::uint8_t> payload(65536);
  std::uint64_t count = 0;
  while (!stop) {
    PODLANE_TRY_ASSIGN(const std::size_t size, endpoint.receive(payload, Clock::now() + kEchoLook));
    if (size == 0) continue;
    PODLANE_TRY(endpoint.send(std::span(payload).first(size)));
    ++count;
  }
  return count;
}

}  // namespace podlane::ctl
