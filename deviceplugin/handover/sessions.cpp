#include "deviceplugin/handover/sessions.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "deviceplugin/handover/umem_check.hpp"
#include "lib/net/netns.hpp"

// How it works
//
// Each connection walks hello → lookup → umem → build → ack → open; a resuming one goes from lookup to open. What a step
// allows is said at enum Step. Any other message, too many bytes or descriptors, or 10 s without the client's next step
// ends the connection with "error"; nothing else is touched by that. Descriptors live in UniqueFd from recvmsg on, so a
// message that nobody wants closes what came with it.
//
// A lane has at most one holder: the connection for which a socket is being made, or that owns it. Whether a former
// holder lives is asked of the kernel at that moment (its socket is hung up or not), so a new client need not wait until
// its end has been read. A worker that builds for a client that has gone ends in built(), where the grant is dropped.
//
// Connections are named by an id that is never reused: a worker's result for a closed one finds nothing.

namespace podlane::dp {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStepTimeout{10000};
constexpr std::size_t kHalfOpenMax = 8;       // Connections per lane that are not the holder's.
constexpr int kMessagesPerEvent = 16;         // Then other connections have their turn.
constexpr int kMessagesPerWindow = 200;       // Of an open session; then it is not read until the window ends.
constexpr milliseconds kWindow{1000};
constexpr milliseconds kStatsEvery{900};      // "At most once a second"; earlier ones are left out.
constexpr milliseconds kRefusalLogEvery{1000};
constexpr std::size_t kNotificationsMax = 4096;  // Beyond, news that the owner can miss is left out.
constexpr std::size_t kUnsentNeighborsMax = 4096;

bool hung_up(int socket) {
  pollfd entry{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

// The refusal of what the owner said about the lane.
std::string_view code_of_lookup(const Error& error) {
  switch (error.code()) {
    case Errc::kUnavailable: return "not-attached";
    case Errc::kNotFound:
    case Errc::kGone: return "gone";
    case Errc::kDenied: return "denied";
    case Errc::kBusy: return "busy";
    default: return "internal";
  }
}

std::string_view code_of_build(const Error& error) {
  switch (error.code()) {
    case Errc::kInvalid: return "umem";
    case Errc::kBusy: return "busy";
    case Errc::kGone: return "gone";
    default: return "internal";
  }
}

}  // namespace

void Sessions::add(const std::string& device, UniqueFd socket) {
  const Id id = next_id_++;
  const int fd = socket.get();
  Lane& lane = lanes_[device];
  const std::size_t half_open = lane.connections.size() - (lane.holder ? 1 : 0);
  Connection connection{.device = device, .socket = std::move(socket),
                        .deadline = std::chrono::steady_clock::now() + kStepTimeout};
  auto watched = loop_.watch(fd, EPOLLIN | EPOLLRDHUP, [this, id](std::uint32_t events) { on_event(id, events); });
  if (!watched) return;  // Closed: the client tries again.
  lane.connections.insert(id);
  connections_.emplace(id, std::move(connection));
  if (half_open >= kHalfOpenMax) refuse(id, "busy", "too many clients of this lane are half-way in the hand-over");
}

void Sessions::on_event(Id id, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    if (Connection* connection = find(id)) flush_neighbors(id, *connection);
  }
  const Connection* connection = find(id);
  if (connection == nullptr) return;
  // While paused nothing is read, so that the end must be seen here.
  if (connection->paused && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) return close(id);
  for (int i = 0; i < kMessagesPerEvent && receive_one(id); ++i) {
  }
}

bool Sessions::receive_one(Id id) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->paused) return false;
  auto received = seqpacket_receive(connection->socket.get(), lane::kHandoverMessageMaxBytes, lane::kHandoverMaxFds,
                                    milliseconds(0));
  if (!received && received.error().code() == Errc::kUnavailable) return false;
  if (!received && received.error().code() == Errc::kProtocol) {
    refuse(id, "protocol", received.error().message());
    return false;
  }
  if (!received || (received->text.empty() && received->fds.empty())) {
    close(id);
    return false;
  }
  take(id, *connection, std::move(*received));
  return true;
}

void Sessions::take(Id id, Connection& connection, SeqpacketMessage received) {
  auto message = lane::decode_handover(received.text);
  if (!message) return refuse(id, "protocol", message.error().message());
  const bool is_umem = std::holds_alternative<lane::UmemMessage>(*message);
  if (!received.fds.empty() && !(is_umem && connection.step == Step::kUmem)) {
    return refuse(id, "protocol", "this message carries no descriptors");
  }
  switch (connection.step) {
    case Step::kHello:
      if (auto* hello = std::get_if<lane::Hello>(&*message)) return take_hello(id, connection, std::move(*hello));
      return refuse(id, "protocol", "hello was due");
    case Step::kUmem:
      if (is_umem || std::holds_alternative<lane::Ready>(*message)) {
        return take_umem(id, connection, is_umem, std::move(received.fds));
      }
      return refuse(id, "protocol", "umem or ready was due");
    case Step::kAck:
      if (std::holds_alternative<lane::Ack>(*message)) return open(id, connection, /*resumed=*/false);
      return refuse(id, "protocol", "ack was due");
    case Step::kOpen:
      if (std::holds_alternative<lane::Resolve>(*message) || std::holds_alternative<lane::Stats>(*message)) {
        return take_open(connection, std::move(*message));
      }
      return refuse(id, "protocol", "after ack only resolve and stats may come");
    case Step::kLookup:
    case Step::kBuild: return refuse(id, "protocol", "it is the device plugin's turn to speak");
  }
}

void Sessions::take_hello(Id id, Connection& connection, lane::Hello hello) {
  if (hello.version != lane::kHandoverVersion) {
    return refuse(id, "version", "version " + std::to_string(hello.version) + " is not spoken here; it must be " +
                                     std::to_string(lane::kHandoverVersion));
  }
  connection.hello = std::move(hello);
  connection.step = Step::kLookup;
  connection.deadline.reset();
  workers_.submit([this, id, device = connection.device] {
    loop_.post([this, id, lane = owner_.lane_for_handover(device)]() mutable { looked_up(id, std::move(lane)); });
  });
}

void Sessions::looked_up(Id id, Result<HandoverLane> lane) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  if (!lane) return refuse(id, code_of_lookup(lane.error()), lane.error().message());
  const auto cookie = net::netns_cookie_of_socket(connection->socket.get());
  if (!cookie || *cookie != lane->netns_cookie) {
    return refuse(id, "denied", "the client is not in the network namespace of the pod that holds this lane");
  }
  connection->lane = std::move(*lane);
  if (connection->hello.resume) return resume(id, *connection);
  if (!connection->lane.only_resumed.empty()) return refuse(id, "gone", connection->lane.only_resumed);
  if (lanes_[connection->device].holder && !claim(id, *connection)) return;
  const lane::LaneDescription& description = connection->lane.description;
  lane::Offer offer{.kind = description.kind, .style = connection->lane.style};
  if (description.xsk) offer.umem = description.xsk->umem;
  connection->step = Step::kUmem;
  connection->deadline = std::chrono::steady_clock::now() + kStepTimeout;
  send(id, *connection, offer);
}

void Sessions::resume(Id id, Connection& connection) {
  if (!claim(id, connection) || !send(id, connection, lane::Resumed{})) return;
  // What changed while nobody was there. A next hop that a restarted daemon does not know yet is not news.
  for (const lane::Neighbor& neighbor : connection.lane.description.neighbors) {
    if (neighbor.mac) connection.unsent_neighbors.emplace(neighbor.ip, neighbor);
  }
  open(id, connection, /*resumed=*/true);
}

void Sessions::take_umem(Id id, Connection& connection, bool is_umem, std::vector<UniqueFd> fds) {
  const bool has_xsk = connection.lane.description.xsk.has_value();
  const std::size_t fds_due = has_xsk && connection.lane.style == lane::HandoverStyle::kFinished ? 1 : 0;
  if (is_umem != has_xsk) return refuse(id, "protocol", has_xsk ? "umem was due" : "ready was due");
  if (fds.size() != fds_due) {
    return refuse(id, fds.size() < fds_due ? "umem" : "protocol",
                  "umem carries " + std::to_string(fds_due) + " descriptors here, not " + std::to_string(fds.size()));
  }
  // Here and not by the worker, which then holds the last reference: whatever else this is, closing it may take long.
  if (fds_due != 0 && !is_memfd(fds[0].get())) return refuse(id, "umem", "the UMEM descriptor is not a memfd");
  if (!claim(id, connection)) return;
  auto netns = net::netns_of_socket(connection.socket.get());
  if (!netns) return refuse(id, "internal", netns.error().message());
  GrantRequest request{.device = connection.device, .lane = connection.lane, .netns = std::move(*netns),
                       .memfd = fds.empty() ? UniqueFd() : std::move(fds[0]), .vnet_hdr = connection.hello.vnet_hdr};
  connection.step = Step::kBuild;
  connection.deadline.reset();
  lanes_[connection.device].building = true;
  workers_.submit([this, id, device = connection.device, request = std::move(request)]() mutable {
    loop_.post([this, id, device, grant = make_grant(owner_, std::move(request))]() mutable {
      built(id, device, std::move(grant));
    });
  });
}

void Sessions::built(Id id, const std::string& device, Result<Grant> grant) {
  if (const auto lane = lanes_.find(device); lane != lanes_.end()) {
    lane->second.building = false;
    if (lane->second.connections.empty()) lanes_.erase(lane);
  }
  Connection* connection = find(id);
  if (connection == nullptr) return;  // The client has gone; so does the grant.
  if (!grant) return refuse(id, code_of_build(grant.error()), grant.error().message());
  connection->grant = std::move(*grant);
  // Neighbours that do not fit into the description follow in the session; newer news of them stands.
  std::vector<lane::Neighbor>& neighbors = connection->grant.description.neighbors;
  while (!neighbors.empty() && lane::encode(connection->grant.description).size() > lane::kHandoverMessageMaxBytes) {
    for (std::size_t i = 0; i < 16 && !neighbors.empty(); ++i) {
      connection->unsent_neighbors.emplace(neighbors.back().ip, neighbors.back());
      neighbors.pop_back();
    }
  }
  connection->step = Step::kAck;
  connection->deadline = std::chrono::steady_clock::now() + kStepTimeout;
  send(id, *connection, connection->grant.description, connection->grant.fds());
}

void Sessions::open(Id id, Connection& connection, bool resumed) {
  const lane::InForce in_force =
      resumed ? connection.lane.description.in_force : connection.grant.description.in_force;
  connection.grant = {};
  connection.step = Step::kOpen;
  connection.deadline.reset();
  log_.info(resumed ? "lane session resumed" : "lane handed over",
            {{"lane", connection.device}, {"client", connection.hello.client}, {"session", std::to_string(id)}});
  notifier_.submit([this, device = connection.device, in_force, resumed] {
    owner_.session_opened(device, in_force, resumed);
  });
  flush_neighbors(id, connection);
}

void Sessions::take_open(Connection& connection, lane::HandoverMessage message) {
  const MonotonicTime now = std::chrono::steady_clock::now();
  if (now >= connection.window_end) {
    connection.window_end = now + kWindow;
    connection.window_messages = 0;
  }
  if (++connection.window_messages >= kMessagesPerWindow) {
    connection.paused = true;
    listen_for(connection);
  }
  if (notifier_.waiting() >= kNotificationsMax) return;
  if (auto* resolve = std::get_if<lane::Resolve>(&message)) {
    notifier_.submit([this, device = connection.device, ip = std::move(resolve->ip)] { owner_.resolve(device, ip); });
  } else if (auto* stats = std::get_if<lane::Stats>(&message); stats != nullptr && now >= connection.next_stats) {
    connection.next_stats = now + kStatsEvery;
    notifier_.submit([this, device = connection.device, counters = std::move(stats->counters)]() mutable {
      owner_.stats(device, std::move(counters));
    });
  }
}

bool Sessions::claim(Id id, Connection& connection) {
  Lane& lane = lanes_[connection.device];
  if (lane.holder && *lane.holder != id) {
    const Connection* holder = find(*lane.holder);
    if (holder != nullptr && hung_up(holder->socket.get())) close(*lane.holder);
  }
  if (lane.building || (lane.holder && *lane.holder != id)) {
    refuse(id, "busy", "another client holds the lane");
    return false;
  }
  // At hello nothing is claimed yet: a client that then waits must not keep others out.
  if (connection.step != Step::kLookup || connection.hello.resume) lane.holder = id;
  return true;
}

bool Sessions::send(Id id, Connection& connection, const lane::HandoverMessage& message, const std::vector<int>& fds) {
  const std::string text = lane::encode(message);
  if (text.size() > lane::kHandoverMessageMaxBytes) {
    refuse(id, "internal", "the lane's description is longer than a message may be");
    return false;
  }
  // A client that does not read what it asked for has at most a few messages waiting; then it has lost its turn.
  if (seqpacket_send(connection.socket.get(), text, fds, milliseconds(0))) return true;
  close(id);
  return false;
}

void Sessions::send_neighbor(const std::string& device, const lane::Neighbor& neighbor) {
  const auto lane = lanes_.find(device);
  if (lane == lanes_.end()) return;
  const std::set<Id> ids = lane->second.connections;  // A copy: flushing may close one.
  for (const Id id : ids) {
    Connection& connection = *find(id);
    // The description may have been taken before this change: a client on its way gets it once its session is open.
    if (connection.step == Step::kHello) continue;
    auto& unsent = connection.unsent_neighbors;
    if (unsent.size() >= kUnsentNeighborsMax && !unsent.contains(neighbor.ip)) continue;
    unsent.insert_or_assign(neighbor.ip, neighbor);
    if (connection.step == Step::kOpen) flush_neighbors(id, connection);
  }
}

void Sessions::flush_neighbors(Id id, Connection& connection) {
  auto& unsent = connection.unsent_neighbors;
  while (!unsent.empty()) {
    const auto sent = seqpacket_send(connection.socket.get(),
                                     lane::encode(lane::NeighborUpdate{.neighbor = unsent.begin()->second}), {},
                                     milliseconds(0));
    if (!sent && sent.error().code() != Errc::kUnavailable) return close(id);
    if (!sent) break;
    unsent.erase(unsent.begin());
  }
  listen_for(connection);
}

void Sessions::listen_for(const Connection& connection) {
  loop_.change(connection.socket.get(), EPOLLRDHUP | (connection.paused ? 0U : static_cast<std::uint32_t>(EPOLLIN)) |
                                            (connection.unsent_neighbors.empty() ? 0U : static_cast<std::uint32_t>(EPOLLOUT)));
}

std::optional<MonotonicTime> Sessions::tick() {
  const MonotonicTime now = std::chrono::steady_clock::now();
  std::optional<MonotonicTime> next;
  std::vector<Id> late;
  for (auto& [id, connection] : connections_) {
    if (connection.paused && now >= connection.window_end) {
      connection.paused = false;
      listen_for(connection);
    }
    if (connection.deadline && now >= *connection.deadline) late.push_back(id);
    const std::optional<MonotonicTime> due = connection.paused ? connection.window_end : connection.deadline;
    if (due && (!next || *due < *next)) next = due;
  }
  for (const Id id : late) refuse(id, "protocol", "the client's next message did not come within 10 s");
  return next;
}

void Sessions::refuse(Id id, std::string_view code, std::string_view message) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  const lane::HandoverRefusal refusal{.code = std::string(code), .message = std::string(message)};
  // What came and was not read would make the kernel drop this answer (af_unix.c, unix_release_sock: ECONNRESET).
  for (int i = 0; i < kMessagesPerEvent; ++i) {
    auto unread = seqpacket_receive(connection->socket.get(), lane::kHandoverMessageMaxBytes, lane::kHandoverMaxFds,
                                    milliseconds(0));
    if (!unread && unread.error().code() != Errc::kProtocol) break;
    if (unread && unread->text.empty() && unread->fds.empty()) break;
  }
  [[maybe_unused]] const auto sent =
      seqpacket_send(connection->socket.get(), lane::encode(refusal), {}, milliseconds(0));
  const std::string device = connection->device;
  const MonotonicTime now = std::chrono::steady_clock::now();
  if (MonotonicTime& next = next_refusal_log_[device]; now >= next) {
    next = now + kRefusalLogEvery;
    // A client that waits for ADD asks again and again: that is no news for an operator.
    if (code == "not-attached") log_.debug("hand-over refused", {{"lane", device}, {"code", code}, {"why", message}});
    else log_.warn("hand-over refused", {{"lane", device}, {"code", code}, {"why", message}});
  }
  if (notifier_.waiting() < kNotificationsMax) {
    notifier_.submit([this, device, text = std::string(code)] { owner_.refused(device, text); });
  }
  close(id);
}

void Sessions::close(Id id, bool tell_owner) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  const std::string device = it->second.device;
  const bool was_open = it->second.step == Step::kOpen;
  loop_.unwatch(it->second.socket.get());
  connections_.erase(it);
  if (const auto lane = lanes_.find(device); lane != lanes_.end()) {
    lane->second.connections.erase(id);
    if (lane->second.holder == id) lane->second.holder.reset();
    if (lane->second.connections.empty() && !lane->second.building) lanes_.erase(lane);
  }
  if (!was_open || !tell_owner) return;
  log_.info("lane session ended", {{"lane", device}, {"session", std::to_string(id)}});
  notifier_.submit([this, device] { owner_.session_closed(device); });
}

void Sessions::drop_device(const std::string& device) {
  next_refusal_log_.erase(device);
  const auto lane = lanes_.find(device);
  if (lane == lanes_.end()) return;
  const std::set<Id> ids = lane->second.connections;
  for (const Id id : ids) close(id, /*tell_owner=*/false);
}

void Sessions::drop_all() {
  while (!connections_.empty()) close(connections_.begin()->first, /*tell_owner=*/false);
}

Sessions::Connection* Sessions::find(Id id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : &it->second;
}

}  // namespace podlane::dp
