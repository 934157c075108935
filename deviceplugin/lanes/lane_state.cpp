#include "deviceplugin/lanes/lane_state.hpp"

#include <limits>

#include "bpf/abi/lane_abi.h"
#include "lib/json/json.hpp"

namespace podlane::dp {

namespace {

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kRecordVersion = 1;

json::Value encode_owner(const LaneOwner& owner) {
  json::Value value;
  value["network"] = owner.attachment.network;
  value["containerId"] = owner.attachment.container_id;
  value["ifname"] = owner.attachment.ifname;
  value["namespace"] = owner.pod.name_space;
  value["pod"] = owner.pod.name;
  value["uid"] = owner.pod.uid;
  value["container"] = owner.container;
  value["netns"] = owner.netns_path;
  value["netnsCookie"] = std::to_string(owner.netns_cookie);  // 64 bits: more than JSON's numbers hold everywhere.
  if (owner.path) value["path"] = lane::to_string(*owner.path);
  value["mode"] = lane::to_string(owner.mode);
  value["fixedAddresses"] = owner.fixed_addresses;
  return value;
}

json::Value encode_host(const LaneHostSide& host) {
  json::Value value;
  value["nicName"] = host.nic_name;
  value["nic"] = host.nic.value;
  value["nicMac"] = to_string(host.nic_mac);
  value["vethHostName"] = host.veth_host_name;
  value["vethPodName"] = host.veth_pod_name;
  value["vethHost"] = host.veth_host.value;
  value["vethPod"] = host.veth_pod.value;
  return value;
}

Result<LaneState> decode_state(const std::string& text) {
  for (const LaneState state : {LaneState::kReserved, LaneState::kAttached, LaneState::kReady}) {
    if (text == to_string(state)) return state;
  }
  return fail(Errc::kInvalid, "state '" + text + "' must be one of reserved, attached, ready");
}

Result<LaneOwner> decode_owner(const json::Reader& in) {
  LaneOwner owner;
  PODLANE_TRY_ASSIGN(owner.attachment.network, in.string("network"));
  PODLANE_TRY_ASSIGN(owner.attachment.container_id, in.string("containerId"));
  PODLANE_TRY_ASSIGN(owner.attachment.ifname, in.string("ifname"));
  PODLANE_TRY_ASSIGN(owner.pod.name_space, in.string("namespace"));
  PODLANE_TRY_ASSIGN(owner.pod.name, in.string("pod"));
  PODLANE_TRY_ASSIGN(owner.pod.uid, in.string("uid"));
  PODLANE_TRY_ASSIGN(owner.container, in.string("container"));
  PODLANE_TRY_ASSIGN(owner.netns_path, in.string("netns"));
  PODLANE_TRY_ASSIGN(const std::string cookie, in.string("netnsCookie"));
  owner.netns_cookie = std::strtoull(cookie.c_str(), nullptr, 10);
  PODLANE_TRY_ASSIGN(const auto path, in.optional_string("path"));
  if (path) {
    PODLANE_TRY_ASSIGN(owner.path, lane::parse_path(*path));
  }
  PODLANE_TRY_ASSIGN(const std::string mode, in.string("mode"));
  PODLANE_TRY_ASSIGN(owner.mode, lane::parse_mode(mode));
  PODLANE_TRY_ASSIGN(owner.fixed_addresses, in.optional_strings("fixedAddresses"));
  return owner;
}

Result<LaneHostSide> decode_host(const json::Reader& in) {
  LaneHostSide host;
  PODLANE_TRY_ASSIGN(host.nic_name, in.string("nicName"));
  PODLANE_TRY_ASSIGN(const auto nic, in.integer("nic", 0, kMaxIndex));
  PODLANE_TRY_ASSIGN(const std::string mac, in.string("nicMac"));
  const auto nic_mac = parse_mac(mac);
  if (!nic_mac) return fail(Errc::kInvalid, "host.nicMac '" + mac + "' must be a MAC address");
  host.nic_mac = *nic_mac;
  PODLANE_TRY_ASSIGN(host.veth_host_name, in.string("vethHostName"));
  PODLANE_TRY_ASSIGN(host.veth_pod_name, in.string("vethPodName"));
  PODLANE_TRY_ASSIGN(const auto veth_host, in.integer("vethHost", 0, kMaxIndex));
  PODLANE_TRY_ASSIGN(const auto veth_pod, in.integer("vethPod", 0, kMaxIndex));
  host.nic = IfIndex(static_cast<int>(nic));
  host.veth_host = IfIndex(static_cast<int>(veth_host));
  host.veth_pod = IfIndex(static_cast<int>(veth_pod));
  return host;
}

Result<LaneTun> decode_tun(const json::Reader& in) {
  LaneTun tun;
  PODLANE_TRY_ASSIGN(tun.name, in.string("name"));
  PODLANE_TRY_ASSIGN(const auto ifindex, in.integer("ifindex", 0, kMaxIndex));
  PODLANE_TRY_ASSIGN(const auto mtu, in.integer("mtu", 0, 65535));
  PODLANE_TRY_ASSIGN(const auto queues, in.optional_integer("queues", 1, 256));
  tun.queues = static_cast<std::uint32_t>(queues.value_or(1));
  PODLANE_TRY_ASSIGN(tun.addresses, in.optional_strings("addresses"));
  tun.ifindex = static_cast<int>(ifindex);
  tun.mtu = static_cast<std::uint32_t>(mtu);
  return tun;
}

Result<void> decode_rest(const json::Reader& in, LaneRecord& record) {
  PODLANE_TRY_ASSIGN(const auto owner, in.optional_object("owner"));
  PODLANE_TRY_ASSIGN(const auto host, in.optional_object("host"));
  PODLANE_TRY_ASSIGN(const auto tun, in.optional_object("tun"));
  PODLANE_TRY_ASSIGN(const auto in_force, in.optional_object("inForce"));
  if (record.state != LaneState::kReserved && (!owner || !host || !tun)) {
    return fail(Errc::kInvalid, "owner, host and tun must be there in state " + std::string(to_string(record.state)));
  }
  if (owner) {
    PODLANE_TRY_ASSIGN(record.owner, decode_owner(*owner));
  }
  if (host) {
    PODLANE_TRY_ASSIGN(record.host, decode_host(*host));
  }
  if (tun) {
    PODLANE_TRY_ASSIGN(record.tun, decode_tun(*tun));
  }
  if (in_force) {
    PODLANE_TRY_ASSIGN(const auto zero_copy, in_force->optional_boolean("zeroCopy"));
    PODLANE_TRY_ASSIGN(const auto native_xdp, in_force->optional_boolean("nativeXdp"));
    PODLANE_TRY_ASSIGN(const auto busy_poll, in_force->optional_boolean("busyPoll"));
    record.in_force = {zero_copy.value_or(false), native_xdp.value_or(false), busy_poll.value_or(false)};
  }
  PODLANE_TRY_ASSIGN(record.watched, in.optional_strings("watched"));
  return {};
}

}  // namespace

std::string_view to_string(LaneState state) {
  switch (state) {
    case LaneState::kFree: return "free";
    case LaneState::kReserved: return "reserved";
    case LaneState::kAttached: return "attached";
    case LaneState::kReady: return "ready";
  }
  return "free";
}

std::string encode_record(const LaneRecord& record, const std::string& boot_id) {
  json::Value value;
  value["version"] = kRecordVersion;
  value["bootId"] = boot_id;
  value["device"] = record.device;
  value["pool"] = record.pool;
  value["kind"] = lane::to_string(record.kind);
  value["state"] = to_string(record.state);
  value["slot"] = record.slot.value;
  value["index"] = record.index;
  value["directory"] = record.directory;
  if (record.state == LaneState::kAttached || record.state == LaneState::kReady) {
    value["owner"] = encode_owner(record.owner);
    value["host"] = encode_host(record.host);
    value["tun"] = {{"name", record.tun.name},
                    {"ifindex", record.tun.ifindex},
                    {"mtu", record.tun.mtu},
                    {"queues", record.tun.queues},
                    {"addresses", record.tun.addresses}};
    value["inForce"] = {{"zeroCopy", record.in_force.zero_copy},
                        {"nativeXdp", record.in_force.native_xdp},
                        {"busyPoll", record.in_force.busy_poll}};
    value["watched"] = record.watched;
  }
  return json::dump(value);
}

Result<DecodedRecord> decode_record(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(value, ""));
  DecodedRecord decoded;
  LaneRecord& record = decoded.record;
  PODLANE_TRY(in.integer("version", kRecordVersion, kRecordVersion));
  PODLANE_TRY_ASSIGN(decoded.boot_id, in.string("bootId"));
  PODLANE_TRY_ASSIGN(record.device, in.string("device"));
  PODLANE_TRY_ASSIGN(record.pool, in.string("pool"));
  PODLANE_TRY_ASSIGN(const std::string kind, in.string("kind"));
  PODLANE_TRY_ASSIGN(record.kind, lane::parse_kind(kind));
  PODLANE_TRY_ASSIGN(const std::string state, in.string("state"));
  PODLANE_TRY_ASSIGN(record.state, decode_state(state));
  PODLANE_TRY_ASSIGN(const auto slot, in.integer("slot", 0, LANE_SLOTS - 1));
  PODLANE_TRY_ASSIGN(const auto index, in.integer("index", 0, LANE_SLOTS));
  PODLANE_TRY_ASSIGN(record.directory, in.string("directory"));
  record.slot = LaneSlot(static_cast<std::uint32_t>(slot));
  record.index = static_cast<std::uint32_t>(index);
  PODLANE_TRY(decode_rest(in, record));
  return decoded;
}

}  // namespace podlane::dp
