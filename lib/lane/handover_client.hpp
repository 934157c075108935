// The pod's side of the hand-over (docs/handover-protocol.md): asks the device plugin for the lane of one directory, with
// no capability, under the default seccomp profile of containerd. Used by the relay and by libpodlane. Blocking; any
// thread. What comes after the hand-over is handover_session.hpp.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/lane/umem_memory.hpp"

namespace podlane::lane {

struct HandoverOptions {
  std::string socket_path;  // "/run/podlane/lanes/<pool>/<n>/handover.sock"
  std::string client;       // "podlane-relay 0.1.0": for the device plugin's log only.
  bool vnet_hdr = true;     // TUN packets carry a virtio_net_hdr.
  std::chrono::milliseconds step_timeout{10000};
  int cancel_fd = -1;  // Borrowed; readable means: give up now (kUnavailable). For SIGTERM while waiting.
  // Told why it waits, each time the reason changes: "no ADD yet", "nobody listens at …".
  std::function<void(std::string_view why)> on_wait;
};

// All that a lane's owner holds. Closing xsk gives the lane back; the kernel empties its XSKMAP slot by itself.
struct LaneGrant {
  LaneDescription description;
  HandoverStyle style = HandoverStyle::kFinished;
  // Invalid for tun lanes. kUnbound: register umem.memory(), size, map and bind it; a bind right after a former owner's
  // end gives EBUSY for some ms, so try for up to 2 s.
  UniqueFd xsk;
  std::vector<UniqueFd> tuns;  // One per queue, non-blocking.
  UmemMemory umem;             // Empty for tun lanes.
  UniqueFd session;            // For Session.
};

// Hello to acknowledgement. While there is no ADD yet, no socket file, no daemon, or a former owner's end is not yet
// noticed, it waits and tries again until `deadline`; the error then is kUnavailable and has the last reason. Refusals:
// kDenied (wrong namespace), kBusy (another owner lives), kGone (the device went), kUnsupported (version), kProtocol,
// kInvalid (our UMEM was refused), kIo.
Result<LaneGrant> request_lane(const HandoverOptions& options, MonotonicTime deadline);

}  // namespace podlane::lane
