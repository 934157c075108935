// HandoverServer: listens on the lanes' hand-over sockets, proves who connects, takes the UMEM, makes the socket, hands it
// over, and keeps the session (docs/handover-protocol.md). One thread of its own with epoll; the few steps that block
// (setns, bind retry) run on short-lived threads, so that one pod cannot hold up another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deviceplugin/inventory/config.hpp"
#include "lib/base/log.hpp"
#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/lane/handover_msg.hpp"

namespace podlane::dp {

// All that the hand-over of one lane needs to know; a copy, made when a client has said hello.
struct HandoverLane {
  lane::LaneDescription description;  // Complete but for xsk sizes in force, in_force and fds, which the server fills.
  lane::HandoverStyle style = lane::HandoverStyle::kFinished;
  ZeroCopy zero_copy = ZeroCopy::kPrefer;
  std::uint64_t netns_cookie = 0;    // The client's socket must be of this namespace.
  bool socket_in_pod_netns = false;  // Veth lanes: the socket is made inside the client's namespace.
  bool native_xdp = true;            // How the program on the socket's device is attached.
  std::uint32_t tun_queues = 1;
  bool tun_multi_queue = false;
  std::string only_resumed;  // Not empty: why a new owner is refused as "gone"; one that resumes keeps its lane.
};

// What the server asks of and tells the lane table. Called from the server's threads; each may wait for the table.
class HandoverOwner {
 public:
  virtual ~HandoverOwner() = default;
  // kUnavailable: no ADD yet ("not-attached" on the wire). kGone, kInvalid…: refused with the message.
  virtual Result<HandoverLane> lane_for_handover(const std::string& device) = 0;
  // Puts the new socket into the XSKMAP slot of the lane. Before the client gets it.
  virtual Result<void> install_socket(const std::string& device, int xsk_fd) = 0;
  // resumed: in_force is the description's own, as lane_for_handover gave it.
  virtual void session_opened(const std::string& device, const lane::InForce& in_force, bool resumed) = 0;
  virtual void session_closed(const std::string& device) = 0;
  virtual void refused(const std::string& device, const std::string& code) = 0;
  // The answer comes by HandoverServer::send_neighbor, at once when it is known.
  virtual void resolve(const std::string& device, const std::string& ip) = 0;
  virtual void stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) = 0;
};

class HandoverServer {
 public:
  static Result<std::unique_ptr<HandoverServer>> start(HandoverOwner& owner, Log& log);
  // Closes listeners and sessions; sockets handed over live on. Waits for calls into the owner that are under way (up to
  // 2 s for a bind), so the owner must still be able to answer. The owner hears nothing of the closed sessions.
  virtual ~HandoverServer() = default;

  // Makes directory (mode 0755) and <directory>/handover.sock (mode 0666) and listens; again for the same device: the
  // socket is made anew at the given place. Any thread.
  virtual Result<void> serve(const std::string& device, const std::string& directory) = 0;
  // Ends its session (no session_closed: the owner knows) and removes the socket file. A call into the owner about this
  // device that is under way may still come after it. None of these three waits for the server's threads.
  virtual void stop_serving(const std::string& device) = 0;
  // Dropped when nobody is connected; a resuming client gets the known ones of description.neighbors.
  virtual void send_neighbor(const std::string& device, const lane::Neighbor& neighbor) = 0;
};

}  // namespace podlane::dp
