// Neighbors: next hops from the host's neighbour table, kept fresh and followed. Entries that we ask for are managed
// (NTF_EXT_MANAGED, Linux 5.16), so that the kernel keeps them resolved by itself; where the host has no address in that
// subnet the kernel cannot ask properly and we probe with the lane's address. A thread of its own; any thread may call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "deviceplugin/lanes/host_side.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::dp {

class Neighbors {
 public:
  // on_change: (nic, neighbour), from the neighbours' thread, for every watched one whose MAC changes or goes.
  using Callback = std::function<void(IfIndex nic, const lane::Neighbor& neighbor)>;
  static Result<std::unique_ptr<Neighbors>> start(Callback on_change);
  virtual ~Neighbors() = default;  // Leaves managed entries in place only while a watch was not taken back.

  // Watches ip on nic, asked for in the name of lane_address. Counted: as many unwatch calls take it back.
  virtual void watch(IfIndex nic, const std::string& ip, const std::string& lane_address) = 0;
  virtual void unwatch(IfIndex nic, const std::string& ip) = 0;  // The last one removes our managed entry.
  virtual lane::Neighbor current(IfIndex nic, const std::string& ip) = 0;  // mac empty: not known (yet).
};

}  // namespace podlane::dp
