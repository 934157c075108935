#include "lib/lane/handover_session.hpp"

#include <algorithm>

#include "lib/base/seqpacket.hpp"

namespace podlane::lane {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseMin{100};
constexpr milliseconds kPauseMax{5000};
constexpr milliseconds kAnswerTimeout{10000};
constexpr milliseconds kStatsEvery{1000};
constexpr milliseconds kAskAgain{20};
constexpr int kMessagesPerTick = 64;

}  // namespace

Session::Session(UniqueFd socket, std::string socket_path, std::string client, Clock clock)
    : socket_(std::move(socket)),
      socket_path_(std::move(socket_path)),
      client_(std::move(client)),
      clock_(std::move(clock)),
      pause_(kPauseMin) {}

std::optional<MonotonicTime> Session::next_tick() const {
  if (state_ == State::kResuming || state_ == State::kAway) return deadline_;
  if (state_ == State::kOpen && !unsent_.empty()) return clock_() + kAskAgain;
  return std::nullopt;
}

SessionEvents Session::tick() {
  SessionEvents events;
  if (state_ == State::kAway && clock_() >= deadline_) reconnect(events);
  if (state_ == State::kOpen || state_ == State::kResuming) read_messages(events);
  if (state_ == State::kResuming && clock_() >= deadline_) lose(events);
  ask();
  return events;
}

void Session::read_messages(SessionEvents& events) {
  // Bounded: the daemon cannot keep the control thread here. What is left makes fd() readable again.
  for (int i = 0; i < kMessagesPerTick && socket_.valid(); ++i) {
    auto received = seqpacket_receive(socket_.get(), kHandoverMessageMaxBytes, kHandoverMaxFds, milliseconds(0));
    if (!received && received.error().code() == Errc::kUnavailable) return;
    if (!received || (received->text.empty() && received->fds.empty())) return lose(events);
    auto message = decode_handover(received->text);
    if (!message) return lose(events);
    take(std::move(*message), events);
  }
}

void Session::take(HandoverMessage message, SessionEvents& events) {
  if (auto* update = std::get_if<NeighborUpdate>(&message)) {
    events.neighbors.push_back(std::move(update->neighbor));
  } else if (std::holds_alternative<Resumed>(message) && state_ == State::kResuming) {
    state_ = State::kOpen;
    pause_ = kPauseMin;
    events.resumed = true;
    // A daemon that was restarted knows nothing of what was asked before.
    unsent_.assign(asked_.begin(), asked_.end());
  } else if (auto* refusal = std::get_if<HandoverRefusal>(&message)) {
    const bool gone = refusal->code == "gone";
    events.refusal = std::move(*refusal);
    lose(events);
    if (gone) state_ = State::kEnded;
  }
  // Anything else is of a later version of the protocol and is left alone.
}

void Session::reconnect(SessionEvents& events) {
  auto socket = seqpacket_connect(socket_path_, milliseconds(0));
  if (!socket) return back_off();
  socket_ = std::move(*socket);
  state_ = State::kResuming;
  deadline_ = clock_() + kAnswerTimeout;
  if (!send(Hello{.client = client_, .resume = true})) lose(events);
}

void Session::lose(SessionEvents& events) {
  events.lost |= state_ == State::kOpen;
  socket_.reset();
  back_off();
}

void Session::back_off() {
  state_ = State::kAway;
  deadline_ = clock_() + pause_;
  pause_ = std::min(pause_ * 2, kPauseMax);
}

void Session::resolve(const std::string& ip) {
  if (asked_.size() < kAskedMax) asked_.insert(ip);
  if (state_ != State::kOpen) return;  // What is in asked_ goes out when the session is back.
  if (unsent_.size() < kAskedMax) unsent_.push_back(ip);
  ask();
}

void Session::ask() {
  while (state_ == State::kOpen && !unsent_.empty()) {
    if (!send(Resolve{.ip = unsent_.back()})) return;
    unsent_.pop_back();
  }
}

bool Session::send_stats(const std::vector<std::pair<std::string, std::uint64_t>>& counters) {
  if (state_ != State::kOpen || clock_() < next_stats_) return false;
  next_stats_ = clock_() + kStatsEvery;
  return send(Stats{.counters = counters});
}

// False when the socket is full or broken; tick() notices a broken one.
bool Session::send(const HandoverMessage& message) {
  return seqpacket_send(socket_.get(), encode(message), {}, milliseconds(0)).has_value();
}

}  // namespace podlane::lane
