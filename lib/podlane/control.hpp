// Control: the second thread of a lane's owner. It keeps the sessions with the device plugin, answers the packet threads'
// questions for next hops, publishes counters, and notices when a lane's device goes. It sleeps nearly always. One thread
// calls step(); in the relay that is the main thread, in libpodlane one of its own.
//
// How it works. A question (LanePort::asks) is noted as pending and sent on. An answer with a MAC is passed on as news at
// once. A question without answer for kAskPatience, and an answer without MAC after kNoAnswerPause, become "forget", so
// that the next packet asks again, but not every packet. News that the packet thread has no room for wait in a backlog.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/podlane/lane_port.hpp"

namespace podlane {

enum class ControlEvent { kSessionLost, kSessionResumed, kSessionRefused, kDeviceGone, kTunGone };
std::string_view to_string(ControlEvent event);

class Control {
 public:
  static constexpr std::chrono::milliseconds kAskPatience{3000};
  static constexpr std::chrono::milliseconds kNoAnswerPause{1000};
  static constexpr std::chrono::milliseconds kHealthEvery{250};
  static constexpr std::size_t kPendingMax = 1024;  // Per lane; more are told to ask again.

  using OnEvent = std::function<void(const LanePort& port, ControlEvent event, std::string_view detail)>;

  // ports are borrowed and outlive this; on_event is called from step().
  Control(std::vector<LanePort*> ports, OnEvent on_event, Clock clock = system_clock());

  // Sleeps until something happens on a session, a packet thread asks, one of `extra` can be read (its revents is set),
  // or max_wait passes; then does what is to do.
  void step(std::chrono::milliseconds max_wait, std::span<pollfd> extra);

 private:
  struct Pending {
    IpKey ip;
    MonotonicTime forget_at;
  };
  struct Lane {
    LanePort* port;
    std::vector<Pending> pending;
    std::deque<NeighborNews> backlog;
    bool reported_gone = false;
  };
  void step_lane(Lane& lane, MonotonicTime now);
  void take_asks(Lane& lane, MonotonicTime now);
  void take_session(Lane& lane, MonotonicTime now);
  void forget_old(Lane& lane, MonotonicTime now);
  void check_health(Lane& lane);
  std::chrono::milliseconds wait_time(std::chrono::milliseconds max_wait) const;

  std::vector<Lane> lanes_;
  OnEvent on_event_;
  Clock clock_;
  std::vector<pollfd> polled_;
};

}  // namespace podlane
