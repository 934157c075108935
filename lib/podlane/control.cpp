#include "lib/podlane/control.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "lib/net/addr.hpp"

namespace podlane {

namespace {

constexpr std::size_t kBacklogMax = 4096;

void put_news(std::deque<NeighborNews>& backlog, const NeighborNews& news) {
  // The packet thread has stopped taking them: the oldest are the least worth.
  if (backlog.size() == kBacklogMax) backlog.pop_front();
  backlog.push_back(news);
}

}  // namespace

std::string_view to_string(ControlEvent event) {
  switch (event) {
    case ControlEvent::kSessionLost: return "session lost";
    case ControlEvent::kSessionResumed: return "session resumed";
    case ControlEvent::kSessionRefused: return "session refused";
    case ControlEvent::kDeviceGone: return "device gone";
    case ControlEvent::kTunGone: return "TUN gone";
  }
  return "?";
}

Control::Control(std::vector<LanePort*> ports, OnEvent on_event, Clock clock)
    : on_event_(std::move(on_event)), clock_(std::move(clock)) {
  for (LanePort* port : ports) lanes_.push_back({port, {}, {}, false});
}

void Control::step(std::chrono::milliseconds max_wait, std::span<pollfd> extra) {
  polled_.assign(extra.begin(), extra.end());
  for (const Lane& lane : lanes_) {
    polled_.push_back({lane.port->wake.get(), POLLIN, 0});
    polled_.push_back({lane.port->session.fd(), POLLIN, 0});  // -1 is passed over by poll(2).
  }
  const int ready = ::poll(polled_.data(), polled_.size(), static_cast<int>(wait_time(max_wait).count()));
  if (ready < 0) {
    for (pollfd& fd : polled_) fd.revents = 0;
  }
  for (std::size_t i = 0; i < extra.size(); ++i) extra[i].revents = polled_[i].revents;
  const MonotonicTime now = clock_();
  for (Lane& lane : lanes_) step_lane(lane, now);
}

void Control::step_lane(Lane& lane, MonotonicTime now) {
  std::uint64_t woken = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(lane.port->wake.get(), &woken, sizeof(woken));
  take_session(lane, now);
  take_asks(lane, now);
  forget_old(lane, now);
  while (!lane.backlog.empty() && lane.port->news.push(lane.backlog.front())) lane.backlog.pop_front();
  check_health(lane);
  if (lane.port->session.connected()) lane.port->session.send_stats(lane.port->counters.snapshot());
}

void Control::take_asks(Lane& lane, MonotonicTime now) {
  IpKey ip;
  while (lane.port->asks.pop(ip)) {
    if (lane.pending.size() >= kPendingMax) {
      put_news(lane.backlog, {ip, {}, false});
      continue;
    }
    lane.pending.push_back({ip, now + kAskPatience});
    lane.port->session.resolve(to_string(ip));
  }
}

void Control::take_session(Lane& lane, MonotonicTime now) {
  const lane::SessionEvents events = lane.port->session.tick();
  if (events.lost) on_event_(*lane.port, ControlEvent::kSessionLost, {});
  if (events.resumed) on_event_(*lane.port, ControlEvent::kSessionResumed, {});
  if (events.refusal) on_event_(*lane.port, ControlEvent::kSessionRefused, events.refusal->message);
  for (const lane::Neighbor& neighbor : events.neighbors) {
    const auto address = net::parse_ip(neighbor.ip);
    if (!address) continue;
    const IpKey ip = ip_key_of(*address);
    std::erase_if(lane.pending, [&](const Pending& pending) { return pending.ip == ip; });
    const auto mac = neighbor.mac ? parse_mac(*neighbor.mac) : std::nullopt;
    if (mac) put_news(lane.backlog, {ip, *mac, true});
    else lane.pending.push_back({ip, now + kNoAnswerPause});
  }
}

void Control::forget_old(Lane& lane, MonotonicTime now) {
  std::erase_if(lane.pending, [&](const Pending& pending) {
    if (pending.forget_at > now) return false;
    put_news(lane.backlog, {pending.ip, {}, false});
    return true;
  });
}

void Control::check_health(Lane& lane) {
  LanePort& port = *lane.port;
  // A netdev that is unregistered leaves ENETDOWN on its sockets (xsk_notifier, net/xdp/xsk.c); poll does not report it.
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(port.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ENETDOWN) {
    port.set_fate(Fate::kDeviceGone);
  }
  if (port.session.ended()) port.set_fate(Fate::kDeviceGone);
  for (const UniqueFd& tun : port.tuns) {
    pollfd state{tun.get(), 0, 0};
    // A TUN that is no longer registered polls as an error (tun_chr_poll, drivers/net/tun.c).
    if (::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) port.set_fate(Fate::kTunGone);
  }
  const Fate fate = port.fate();
  if (fate == Fate::kAlive || lane.reported_gone) return;
  lane.reported_gone = true;
  on_event_(port, fate == Fate::kDeviceGone ? ControlEvent::kDeviceGone : ControlEvent::kTunGone, {});
}

std::chrono::milliseconds Control::wait_time(std::chrono::milliseconds max_wait) const {
  std::chrono::milliseconds wait = std::min(max_wait, kHealthEvery);
  const MonotonicTime now = clock_();
  for (const Lane& lane : lanes_) {
    if (const auto next = lane.port->session.next_tick()) {
      wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(*next - now));
    }
    if (!lane.backlog.empty()) wait = std::min(wait, std::chrono::milliseconds(1));
  }
  return std::max(wait, std::chrono::milliseconds(0));
}

}  // namespace podlane
