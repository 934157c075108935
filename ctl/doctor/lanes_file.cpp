#include "ctl/doctor/lanes_file.hpp"

#include "lib/json/json.hpp"

namespace podlane::doctor {

namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxBytes = 16 << 20;

Result<std::string> text_of(const json::Reader& in, std::string_view key) {
  PODLANE_TRY_ASSIGN(auto text, in.optional_string(key));
  return std::move(text).value_or("");
}

Result<Lane> lane_of(const json::Reader& in) {
  Lane lane;
  PODLANE_TRY_ASSIGN(lane.pool, text_of(in, "pool"));
  PODLANE_TRY_ASSIGN(lane.device, in.string("device"));
  PODLANE_TRY_ASSIGN(lane.state, in.string("state"));
  PODLANE_TRY_ASSIGN(lane.kind, in.string("kind"));
  PODLANE_TRY_ASSIGN(lane.netdev, text_of(in, "netdev"));
  PODLANE_TRY_ASSIGN(const auto queue, in.optional_integer("queue", 0, 65535));
  lane.queue = static_cast<int>(queue.value_or(-1));
  PODLANE_TRY_ASSIGN(lane.name_space, text_of(in, "namespace"));
  PODLANE_TRY_ASSIGN(lane.pod, text_of(in, "pod"));
  PODLANE_TRY_ASSIGN(lane.container, text_of(in, "container"));
  PODLANE_TRY_ASSIGN(lane.path, text_of(in, "path"));
  PODLANE_TRY_ASSIGN(lane.mode, text_of(in, "mode"));
  PODLANE_TRY_ASSIGN(lane.ifname, text_of(in, "ifname"));
  PODLANE_TRY_ASSIGN(lane.addresses, in.optional_strings("addresses"));
  PODLANE_TRY_ASSIGN(const auto in_force, in.optional_object("inForce"));
  if (!in_force) return lane;
  lane.in_force = true;
  PODLANE_TRY_ASSIGN(const auto zero_copy, in_force->optional_boolean("zeroCopy"));
  PODLANE_TRY_ASSIGN(const std::string xdp, text_of(*in_force, "xdp"));
  PODLANE_TRY_ASSIGN(const auto busy_poll, in_force->optional_boolean("busyPoll"));
  lane.zero_copy = zero_copy.value_or(false);
  lane.native_xdp = xdp == "native";
  lane.busy_poll = busy_poll.value_or(false);
  return lane;
}

}  // namespace

Result<std::vector<Lane>> parse_lanes(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(text, {.max_bytes = kMaxBytes}));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(document, ""));
  PODLANE_TRY_ASSIGN(const auto version, in.integer("version", 1, 1 << 20));
  if (version != kVersion) {
    return fail(Errc::kUnsupported,
                "version " + std::to_string(version) + ", this podlanectl knows " + std::to_string(kVersion));
  }
  PODLANE_TRY_ASSIGN(const auto rows, in.optional_objects("lanes"));
  std::vector<Lane> lanes;
  for (const json::Reader& row : rows) {
    PODLANE_TRY_ASSIGN(Lane lane, lane_of(row));
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace podlane::doctor
