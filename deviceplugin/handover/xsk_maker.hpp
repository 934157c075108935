// Makes the AF_XDP socket of a lane in the calling thread's network namespace: a socket binds only to a device of the
// namespace that it was made in. Blocks up to kBindPatience; any thread.
#pragma once

#include <chrono>

#include "deviceplugin/inventory/config.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/handover_msg.hpp"

namespace podlane::dp {

// The kernel frees a closed socket's queue in deferred work, so a new bind may be refused for some ms.
inline constexpr std::chrono::milliseconds kBindPatience{2000};

struct XskPlan {
  lane::XskDescription xsk;  // Ring sizes of 0 get defaults.
  ZeroCopy zero_copy = ZeroCopy::kPrefer;
  bool busy_poll = false;  // Set the options: for devices that have a NAPI id.
};

struct XskMade {
  UniqueFd socket;
  lane::XskDescription xsk;    // As made: name of the device now, ring sizes.
  bool zero_copy = false;      // In force, read back from the kernel.
  bool busy_poll_set = false;  // The options are set; whether they do anything is known after bind.
  bool busy_poll = false;      // They are set, and the kernel shows a NAPI id for the bound socket.
};

// Tied to the device, busy poll set, neither memory nor rings nor bound: the client does the rest.
Result<XskMade> make_unbound_xsk(const XskPlan& plan);

// Bound, with rings and the memory of memfd registered. memfd must have passed check_umem. kBusy: a live owner holds the
// queue. kGone: no such device, or it is down.
Result<XskMade> make_finished_xsk(const XskPlan& plan, int memfd);

}  // namespace podlane::dp
