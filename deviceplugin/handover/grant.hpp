// Grant: what one client is handed, and the blocking work that makes it. Runs on a worker thread.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/handover/handover_server.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

struct Grant {
  lane::LaneDescription description;  // Complete; its fds name xsk and tuns in this order.
  UniqueFd xsk;                       // Invalid for tun lanes.
  std::vector<UniqueFd> tuns;

  std::vector<int> fds() const;  // Borrowed, in the order of description.fds.
};

struct GrantRequest {
  std::string device;
  HandoverLane lane;
  UniqueFd netns;  // The client's.
  UniqueFd memfd;  // Invalid for tun lanes and unbound sockets.
  bool vnet_hdr = true;
};

// Socket, TUN queues, XSKMAP, in this order: a live owner makes the first two fail (kBusy), so that its place in the
// XSKMAP is never taken from it. kInvalid is only used for a UMEM that the client must correct.
Result<Grant> make_grant(HandoverOwner& owner, GrantRequest request);

}  // namespace podlane::dp
