// IdlePolicy: how a thread that found no work waits. The policy never sits in a loop: loops report the work they did, and
// call wait() when there was none. One thread per object. Adaptive (spin for about one wake-up cost, then sleep) comes
// here as a third mode.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>

#include "lib/base/result.hpp"

namespace podlane::xsk {

enum class WaitMode { kSpinning, kInterrupt };

class IdlePolicy {
 public:
  explicit IdlePolicy(WaitMode mode) : mode_(mode) {}

  WaitMode mode() const { return mode_; }

  // Spinning: one pause, true. Interrupt: sleeps until one of fds can be read, has an error, or the timeout passes;
  // false when nothing happened. fds ask for POLLIN only: POLLOUT of an AF_XDP socket is true nearly always.
  bool wait(std::span<pollfd> fds, std::chrono::microseconds timeout);

  std::uint64_t sleeps() const { return sleeps_; }

 private:
  WaitMode mode_;
  std::uint64_t sleeps_ = 0;
};

}  // namespace podlane::xsk
