// Sessions: the connections of all lanes and the order of their messages (docs/handover-protocol.md). Belongs to the
// event thread; what blocks goes to the workers, and their results come back as posted functions. See sessions.cpp,
// "How it works".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "deviceplugin/handover/event_loop.hpp"
#include "deviceplugin/handover/grant.hpp"
#include "deviceplugin/handover/handover_server.hpp"
#include "deviceplugin/handover/worker_pool.hpp"
#include "lib/base/seqpacket.hpp"

namespace podlane::dp {

class Sessions {
 public:
  // All borrowed. notifier runs one job at a time, so that the owner hears of things in their order.
  Sessions(EventLoop& loop, WorkerPool& workers, WorkerPool& notifier, HandoverOwner& owner, Log& log)
      : loop_(loop), workers_(workers), notifier_(notifier), owner_(owner), log_(log) {}

  void add(const std::string& device, UniqueFd socket);  // A client has connected.
  void drop_device(const std::string& device);           // Ends its sessions without telling the owner, who asked for it.
  void drop_all();                                       // The same for all devices.
  void send_neighbor(const std::string& device, const lane::Neighbor& neighbor);

  // Does what time has made due; when to come again.
  std::optional<MonotonicTime> tick();

 private:
  using Id = std::uint64_t;
  enum class Step {
    kHello,   // Waits for hello.
    kLookup,  // A worker asks the owner for the lane. Whatever the client says now is out of order.
    kUmem,    // The offer is sent; waits for umem or ready.
    kBuild,   // A worker makes the grant. Whatever the client says now is out of order.
    kAck,     // The grant is sent; waits for ack.
    kOpen,    // The session: resolve and stats come, neighbours go.
  };
  struct Connection {
    std::string device;
    UniqueFd socket;
    Step step = Step::kHello;
    std::optional<MonotonicTime> deadline;  // Of the client's next step.
    lane::Hello hello;
    HandoverLane lane;
    Grant grant;  // Held from kBuild to ack, then released: the pod is the only owner.
    std::map<std::string, lane::Neighbor> unsent_neighbors;  // Waits for kOpen and room; the latest of each address.
    // kOpen only.
    MonotonicTime window_end{};
    int window_messages = 0;
    bool paused = false;
    MonotonicTime next_stats{};
  };
  struct Lane {
    std::set<Id> connections;
    std::optional<Id> holder;  // The one connection in kBuild, kAck or kOpen.
    bool building = false;     // A worker makes a grant, even if its client has gone meanwhile.
  };

  void on_event(Id id, std::uint32_t events);
  bool receive_one(Id id);  // True when there may be more.
  void take(Id id, Connection& connection, SeqpacketMessage received);
  void take_hello(Id id, Connection& connection, lane::Hello hello);
  void looked_up(Id id, Result<HandoverLane> lane);
  void resume(Id id, Connection& connection);
  void take_umem(Id id, Connection& connection, bool is_umem, std::vector<UniqueFd> fds);
  void built(Id id, const std::string& device, Result<Grant> grant);
  void open(Id id, Connection& connection, bool resumed);
  void take_open(Connection& connection, lane::HandoverMessage message);

  bool claim(Id id, Connection& connection);  // Makes it the holder; refuses it as busy when another lives.
  bool send(Id id, Connection& connection, const lane::HandoverMessage& message, const std::vector<int>& fds = {});
  void flush_neighbors(Id id, Connection& connection);
  void listen_for(const Connection& connection);
  void refuse(Id id, std::string_view code, std::string_view message);
  void close(Id id, bool tell_owner = true);
  Connection* find(Id id);

  EventLoop& loop_;
  WorkerPool& workers_;
  WorkerPool& notifier_;
  HandoverOwner& owner_;
  Log& log_;
  Id next_id_ = 1;
  std::map<Id, Connection> connections_;
  std::map<std::string, Lane> lanes_;  // Those with connections or a build under way.
  std::map<std::string, MonotonicTime> next_refusal_log_;
};

}  // namespace podlane::dp
