// Session: the lane owner's connection to the device plugin after the hand-over. Neighbours and statistics travel on it,
// and its end tells the device plugin that the owner went. It may break at any time (daemon upgraded): the owner keeps
// moving packets, and the session comes back by itself. Never blocks. One thread: the owner's control thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/handover_msg.hpp"

namespace podlane::lane {

struct SessionEvents {
  std::vector<Neighbor> neighbors;  // News, oldest first.
  bool lost = false;                // The connection broke in this tick.
  bool resumed = false;             // It is back.
  // What the device plugin refused a resume with. Other codes than "gone" are tried again.
  std::optional<HandoverRefusal> refusal;
};

class Session {
 public:
  static constexpr std::size_t kAskedMax = 4096;  // Addresses remembered; more are asked once and not again.

  // socket: LaneGrant::session. socket_path and client as in HandoverOptions.
  Session(UniqueFd socket, std::string socket_path, std::string client, Clock clock = system_clock());

  int fd() const { return socket_.get(); }  // Poll for POLLIN; -1 while there is none. Changes on reconnecting.
  bool connected() const { return state_ == State::kOpen; }
  bool ended() const { return state_ == State::kEnded; }  // The lane's device is gone: no more tries.
  // When tick() has something to do even if fd() stays quiet; empty when there is nothing.
  std::optional<MonotonicTime> next_tick() const;

  // Reads what came, notices the end, reconnects when it is time.
  SessionEvents tick();

  // Asks for a neighbour; the answer comes by tick(). Asked again by itself after a reconnect.
  void resolve(const std::string& ip);
  // Sends at most once a second; false when it was too early, or nobody is there.
  bool send_stats(const std::vector<std::pair<std::string, std::uint64_t>>& counters);

 private:
  enum class State {
    kOpen,      // resolve, stats and neighbours flow.
    kResuming,  // Hello sent, no answer yet; given up at deadline_.
    kAway,      // No connection; next try at deadline_.
    kEnded,
  };
  void read_messages(SessionEvents& events);
  void take(HandoverMessage message, SessionEvents& events);
  void reconnect(SessionEvents& events);
  void lose(SessionEvents& events);
  void back_off();
  void ask();
  bool send(const HandoverMessage& message);

  UniqueFd socket_;
  std::string socket_path_;
  std::string client_;
  Clock clock_;
  State state_ = State::kOpen;
  MonotonicTime deadline_{};
  MonotonicTime next_stats_{};
  std::chrono::milliseconds pause_;
  std::set<std::string> asked_;
  std::vector<std::string> unsent_;  // Of resolve(); waits for room in the socket or for the connection.
};

}  // namespace podlane::lane
