// The environment by which a container's Onload waits as a mode says. Complete: every variable that decides about
// waiting is there, zeros and defaults too, so that nothing an image brings along leaks through. Pure; any thread.
//
// Two columns, because what wakes a sleeping thread differs. On a NIC that Onload drives itself (native) an interrupt
// does. Over AF_XDP nothing but Onload's own timer was seen to: with EF_INT_DRIVEN=1 half a round trip took 46 ms
// (spinning: 0.35 ms, no interrupts and a timer of 500 us: 0.78 ms), so there each mode is EF_INT_DRIVEN=0 with that
// timer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/lane/lane_types.hpp"

namespace podlane::onload {

enum class Transport { kNative, kAfXdp };
std::string_view to_string(Transport transport);  // "native", "AF_XDP"

using Environment = std::vector<std::pair<std::string, std::string>>;  // In an order for reading; each name once.

// The value, or nullptr.
const std::string* find(const Environment& environment, std::string_view name);

// `extra` wins over the mode's values, and what follows from a value it sets (EF_SPIN_USEC and EF_BUZZ_USEC from
// EF_POLL_USEC) follows, unless it is set too. Names and values of `extra` are the caller's to check (validate.hpp).
Environment environment(lane::Mode mode, Transport transport, const Environment& extra = {});

}  // namespace podlane::onload
