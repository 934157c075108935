// Strong integers: distinct types for numbers that must not be swapped at a call.
#pragma once

#include <compare>
#include <cstdint>

namespace podlane {

template <typename Tag, typename Value>
struct Strong {
  Value value{};
  constexpr Strong() = default;
  constexpr explicit Strong(Value v) : value(v) {}
  friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
};

using IfIndex = Strong<struct IfIndexTag, int>;            // Kernel interface index, unique in one network namespace.
using QueueId = Strong<struct QueueIdTag, std::uint32_t>;  // Receive/transmit queue of a netdev, from 0.
using CpuId = Strong<struct CpuIdTag, std::uint32_t>;
using LaneSlot = Strong<struct LaneSlotTag, std::uint32_t>;  // Key of a lane in the pinned XSKMAP (bpf/abi/lane_abi.h).

}  // namespace podlane
