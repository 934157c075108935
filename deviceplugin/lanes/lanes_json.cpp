#include "deviceplugin/lanes/lanes_json.hpp"

#include "lib/json/json.hpp"

namespace podlane::dp {

std::string encode_lanes_json(const std::vector<LaneReport>& lanes) {
  json::Value list = json::Value::array();
  for (const LaneReport& lane : lanes) {
    if (lane.state == "free") continue;
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
      row["ifname"] = lane.ifname;
      row["addresses"] = lane.addresses;
    }
    if (lane.state == "serving" && lane.kind != "tun") {
      row["inForce"] = {{"zeroCopy", lane.zero_copy},
                        {"xdp", lane.native_xdp ? "native" : "generic"},
                        {"busyPoll", lane.busy_poll}};
    }
    list.push_back(std::move(row));
  }
  json::Value document;
  document["version"] = kLanesJsonVersion;
  document["lanes"] = std::move(list);
  return json::dump(document) + "\n";
}

}  // namespace podlane::dp
