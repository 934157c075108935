#include "deviceplugin/lanes/lanes_json.hpp"

#include <sched.h>

#include "lib/json/json.hpp"

namespace podlane::dp {

namespace {

constexpr std::size_t kRowsAtOnce = 16;

}  // namespace

// Row by row, and the CPU is given away between: one piece of 500 lanes takes milliseconds, which the scheduler (EEVDF,
// RUN_TO_PARITY) lets it finish before a kubelet's call on the same CPU.
std::string encode_lanes_json(const std::vector<LaneReport>& lanes) {
  std::string rows;
  std::size_t count = 0;
  for (const LaneReport& lane : lanes) {
    if (lane.state == "free") continue;
    if (count++ % kRowsAtOnce == kRowsAtOnce - 1) ::sched_yield();
    json::Value row;
    row["pool"] = lane.pool;
    row["device"] = lane.device;
    row["state"] = lane.state;
    row["kind"] = lane.kind;
    row["slot"] = lane.slot;
    if (!lane.netdev.empty()) {
      row["netdev"] = lane.netdev;
      row["queue"] = lane.queue;
    }
    if (!lane.pod.empty()) {
      row["namespace"] = lane.pod_namespace;
      row["pod"] = lane.pod;
      row["container"] = lane.container;
      if (!lane.path.empty()) row["path"] = lane.path;
      row["mode"] = lane.mode;
      if (lane.kind != "onload") row["ifname"] = lane.ifname;
      if (lane.kind != "onload") row["addresses"] = lane.addresses;
    } else if (lane.kind == "onload") {
      row["mode"] = lane.mode;
    }
    if (lane.state == "serving" && lane.kind != "tun") {
      row["inForce"] = {
          {"zeroCopy", lane.zero_copy}, {"xdp", lane.native_xdp ? "native" : "generic"}, {"busyPoll", lane.busy_poll}};
    }
    rows.append(rows.empty() ? "" : ",").append(json::dump(row));
  }
  return "{\"version\":" + std::to_string(kLanesJsonVersion) + ",\"lanes\":[" + rows + "]}\n";
}

}  // namespace podlane::dp
