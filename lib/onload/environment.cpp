#include "lib/onload/environment.hpp"

#include <algorithm>

#include "lib/onload/option_table.hpp"

namespace podlane::onload {

namespace {

// As long as Onload's own profile "latency": for what a trading program calls waiting, for ever.
constexpr std::int64_t kSpinningUs = 100000;
// About what a wake-up costs, so that a thread spins or sleeps at worst twice as long as the better choice would take.
constexpr std::int64_t kAdaptiveUs = 50;
constexpr std::int64_t kMostBuzzUs = 100;  // What EF_POLL_USEC alone would imply.
constexpr std::int64_t kTimerUs = 500;     // The one that was measured over AF_XDP, and Onload's default.
constexpr std::int64_t kFastStartBytes = 65536;

class Builder {
 public:
  explicit Builder(const Environment& extra) : extra_(extra) {}

  void set(std::string_view name, std::int64_t value) {
    const std::string* const wanted = find(extra_, name);
    built_.emplace_back(name, wanted != nullptr ? *wanted : std::to_string(value));
  }
  // As set(); the number that stands there.
  std::int64_t set_number(std::string_view name, std::int64_t value) {
    set(name, value);
    return parse_number(built_.back().second).value_or(value);
  }
  Environment finish() && {
    for (const auto& [name, value] : extra_) {
      if (find(built_, name) == nullptr) built_.emplace_back(name, value);
    }
    return std::move(built_);
  }

 private:
  const Environment& extra_;
  Environment built_;
};

void set_times(Builder& to, lane::Mode mode, Transport transport) {
  const bool spins = mode != lane::Mode::kInterrupt;
  const std::int64_t default_us = mode == lane::Mode::kSpinning ? kSpinningUs : spins ? kAdaptiveUs : 0;
  const std::int64_t budget_us = to.set_number("EF_POLL_USEC", default_us);
  // Read after EF_POLL_USEC, so an image's own would cancel it: always there, always the same.
  to.set("EF_SPIN_USEC", budget_us);
  const std::int64_t buzz_us = budget_us < 0 ? kMostBuzzUs : std::min(budget_us, kMostBuzzUs);
  to.set("EF_BUZZ_USEC", buzz_us);
  to.set("EF_SLEEP_SPIN_USEC", 0);
  const bool interrupts = mode != lane::Mode::kSpinning && transport == Transport::kNative;
  const bool driven = to.set_number("EF_INT_DRIVEN", interrupts ? 1 : 0) != 0;
  const std::int64_t timer_us = to.set_number("EF_HELPER_USEC", driven ? 0 : kTimerUs);
  to.set("EF_HELPER_PRIME_USEC", timer_us < 0 ? timer_us : timer_us / 2);
}

void set_spins(Builder& to, lane::Mode mode) {
  const int receives = mode == lane::Mode::kInterrupt ? 0 : 1;
  const int sends = mode == lane::Mode::kSpinning ? 1 : 0;
  for (const char* name : {"EF_SELECT_SPIN", "EF_POLL_SPIN", "EF_EPOLL_SPIN", "EF_UDP_RECV_SPIN", "EF_TCP_RECV_SPIN",
                           "EF_SOCK_LOCK_BUZZ", "EF_STACK_LOCK_BUZZ"}) {
    to.set(name, receives);
  }
  for (const char* name : {"EF_UDP_SEND_SPIN", "EF_TCP_SEND_SPIN", "EF_PKT_WAIT_SPIN"}) to.set(name, sends);
  for (const char* name : {"EF_TCP_ACCEPT_SPIN", "EF_TCP_CONNECT_SPIN", "EF_PIPE_RECV_SPIN", "EF_PIPE_SEND_SPIN",
                           "EF_SO_BUSY_POLL_SPIN"}) {
    to.set(name, 0);
  }
}

}  // namespace

std::string_view to_string(Transport transport) {
  return transport == Transport::kNative ? "native" : "AF_XDP";
}

const std::string* find(const Environment& environment, std::string_view name) {
  const auto found =
      std::find_if(environment.begin(), environment.end(), [&](const auto& one) { return one.first == name; });
  return found == environment.end() ? nullptr : &found->second;
}

Environment environment(lane::Mode mode, Transport transport, const Environment& extra) {
  Builder to(extra);
  set_times(to, mode, transport);
  set_spins(to, mode);
  to.set("EF_UL_EPOLL", 1);
  // ACKs at once cost a packet each; who sleeps between packets does not mind a late one.
  const std::int64_t fast_start = mode == lane::Mode::kInterrupt ? kFastStartBytes : 0;
  to.set("EF_TCP_FASTSTART_INIT", fast_start);
  to.set("EF_TCP_FASTSTART_IDLE", fast_start);
  // Onload cannot use huge pages for what AF_XDP reads.
  to.set("EF_USE_HUGE_PAGES", transport == Transport::kNative ? 1 : 0);
  if (transport == Transport::kAfXdp) to.set("EF_AF_XDP_ZEROCOPY", 0);
  // A socket that cannot be accelerated is an error, not a slow socket that nobody notices.
  to.set("EF_NO_FAIL", 0);
  // Each of these in an image would cancel all the others.
  to.set("EF_LOAD_ENV", 1);
  to.set("EF_DONT_ACCELERATE", 0);
  to.set("EF_VALIDATE_ENV", 1);
  return std::move(to).finish();
}

}  // namespace podlane::onload
