// LaneWorker: the thread that moves one lane's packets. It owns the lane's rings and TUN from start() to join().
//
// How it works. Each pass of do_work(): news of next hops, RX ring -> TUN, TUN -> TX ring, and what an earlier kick left
// over. A pass without work goes to the idle policy. The thread ends when it is told to (then it drains), or when the
// lane's device or TUN is gone; it tells the control thread in both cases.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "lib/base/strong.hpp"
#include "lib/podlane/lane_port.hpp"
#include "lib/xsk/idle_policy.hpp"

namespace podlane::relay {

class LaneWorker {
 public:
  // port is borrowed and outlives the worker.
  LaneWorker(LanePort& port, xsk::WaitMode mode, std::optional<CpuId> cpu);
  ~LaneWorker();
  LaneWorker(const LaneWorker&) = delete;
  LaneWorker& operator=(const LaneWorker&) = delete;

  Result<void> start();
  void stop();  // Asks it to drain and end. Any thread.
  void join();
  bool is_done() const { return done_.load(std::memory_order_acquire); }  // Pairs with run()'s last store.
  LanePort& port() const { return port_; }
  xsk::WaitMode mode() const { return idle_.mode(); }

 private:
  void run();
  std::uint32_t do_work();
  void wait();
  void drain();

  LanePort& port_;
  xsk::IdlePolicy idle_;
  std::optional<CpuId> cpu_;
  UniqueFd stop_event_;
  std::vector<pollfd> waits_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace podlane::relay
