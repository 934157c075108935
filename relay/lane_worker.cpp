#include "relay/lane_worker.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "lib/podlane/forward.hpp"
#include "relay/cpus.hpp"

namespace podlane::relay {

namespace {

constexpr std::chrono::microseconds kSleepMax{1000000};
constexpr std::chrono::microseconds kRetryKick{500};  // When the kernel did not take all that was sent.
constexpr std::size_t kWaitsBesideTun = 2;            // Stop event and socket come first.
constexpr std::uint32_t kDrainPasses = 256;           // Of 32 packets each way: more than a ring and a TUN queue hold.
constexpr int kDrainCompletionsMs = 100;

}  // namespace

LaneWorker::LaneWorker(LanePort& port, xsk::WaitMode mode, std::optional<CpuId> cpu)
    : port_(port), idle_(mode), cpu_(cpu) {}

LaneWorker::~LaneWorker() {
  stop();
  join();
}

Result<void> LaneWorker::start() {
  stop_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_.valid()) return fail_errno("eventfd");
  waits_.push_back({stop_event_.get(), POLLIN, 0});
  waits_.push_back({port_.socket.fd(), POLLIN, 0});
  for (const UniqueFd& tun : port_.tuns) waits_.push_back({tun.get(), POLLIN, 0});
  thread_ = std::thread([this] { run(); });
  return {};
}

void LaneWorker::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  if (stop_event_.valid()) {
    [[maybe_unused]] const ssize_t ignored = ::write(stop_event_.get(), &one, sizeof(one));
  }
}

void LaneWorker::join() {
  if (thread_.joinable()) thread_.join();
}

void LaneWorker::run() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // Signals are the main thread's.
  ::pthread_setname_np(::pthread_self(), "podlane-lane");
  if (cpu_) {
    // plan_cpus() chose an allowed CPU; should it be taken away meanwhile, the scheduler's choice is good enough.
    [[maybe_unused]] const auto pinned = pin_this_thread(*cpu_);
  }
  while (!stopping_.load(std::memory_order_relaxed) && port_.fate() == Fate::kAlive) {
    if (do_work() == 0) wait();
  }
  if (port_.fate() == Fate::kAlive) drain();
  done_.store(true, std::memory_order_release);  // Pairs with is_done().
  port_.wake_control();
}

std::uint32_t LaneWorker::do_work() {
  port_.take_news();
  // Receiving first: an empty RX ring costs nothing to look at, an empty TUN a system call.
  std::uint32_t work = rx_to_tun(port_, kRxBatch);
  work += tun_to_tx(port_, kTxBatch);
  if (!port_.socket.zero_copy() && port_.socket.not_taken() != 0) work += flush_tx(port_) ? 1 : 0;
  return work;
}

void LaneWorker::wait() {
  // While no frame is free, packets in the TUN are no reason to wake; completions come without an event.
  const std::size_t count = port_.starved ? kWaitsBesideTun : waits_.size();
  const bool retry = port_.starved || port_.socket.not_taken() != 0;
  idle_.wait(std::span(waits_).first(count), retry ? kRetryKick : kSleepMax);
  if (idle_.mode() != xsk::WaitMode::kSpinning) port_.counters.set(Counter::kSleeps, idle_.sleeps());
}

// The carrier is down by now, so nothing new is routed here: what stands in the rings and in the TUN's queue goes on its
// way, and the kernel gets a moment to complete what it was given.
void LaneWorker::drain() {
  for (std::uint32_t i = 0; i < kDrainPasses && do_work() != 0; ++i) {
  }
  for (int i = 0; i < kDrainCompletionsMs && port_.socket.pool().count(xsk::Place::kSending) != 0; ++i) {
    flush_tx(port_);
    if (port_.socket.reclaim() == 0) ::poll(nullptr, 0, 1);
  }
}

}  // namespace podlane::relay
