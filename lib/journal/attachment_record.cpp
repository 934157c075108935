#include "lib/journal/attachment_record.hpp"

#include <limits>

namespace podlane::journal {

namespace {

constexpr int kVersion = 1;

json::Value key_to_json(const AttachmentKey& key) {
  return {{"network", key.network}, {"containerId", key.container_id}, {"ifname", key.ifname}};
}

Result<AttachmentKey> key_from_json(const json::Reader& reader) {
  AttachmentKey key;
  PODLANE_TRY_ASSIGN(key.network, reader.string("network"));
  PODLANE_TRY_ASSIGN(key.container_id, reader.string("containerId"));
  PODLANE_TRY_ASSIGN(key.ifname, reader.string("ifname"));
  return key;
}

Result<AttachmentKey> required_key(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const auto key, reader.optional_object("key"));
  if (!key) return fail(Errc::kInvalid, "key is missing; it must be {network, containerId, ifname}");
  return key_from_json(*key);
}

// A later version of podlane may add keys, which are ignored, but raises the version when old readers would be wrong.
Result<json::Reader> open_record(const json::Value& value) {
  PODLANE_TRY_ASSIGN(json::Reader reader, json::Reader::open(value, ""));
  PODLANE_TRY(reader.integer("version", kVersion, kVersion));
  return reader;
}

Result<std::string> string_or_empty(const json::Reader& reader, std::string_view key) {
  PODLANE_TRY_ASSIGN(auto text, reader.optional_string(key));
  return std::move(text).value_or("");
}

Result<LaneRecord> lane_from_json(const json::Reader& reader) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
  LaneRecord lane;
  PODLANE_TRY_ASSIGN(lane.pool, string_or_empty(reader, "pool"));
  PODLANE_TRY_ASSIGN(lane.device, string_or_empty(reader, "device"));
  PODLANE_TRY_ASSIGN(lane.ifname, reader.string("ifname"));
  PODLANE_TRY_ASSIGN(const auto ifindex, reader.integer("ifindex", 0, std::numeric_limits<int>::max()));
  PODLANE_TRY_ASSIGN(const auto table, reader.integer("table", 0, kMax32));
  PODLANE_TRY_ASSIGN(const auto mtu, reader.integer("mtu", 0, kMax32));
  PODLANE_TRY_ASSIGN(const auto owner, reader.integer("owner", 0, kMax32));
  PODLANE_TRY_ASSIGN(const auto queues, reader.optional_integer("queues", 1, 256));
  lane.queues = static_cast<std::uint32_t>(queues.value_or(1));
  lane.owner = static_cast<std::uint32_t>(owner);
  lane.ifindex = static_cast<int>(ifindex);
  lane.table = static_cast<std::uint32_t>(table);
  lane.mtu = static_cast<std::uint32_t>(mtu);
  PODLANE_TRY_ASSIGN(lane.addresses, reader.optional_strings("addresses"));
  return lane;
}

Result<IpamCall> call_from_json(const json::Reader& reader) {
  IpamCall call;
  PODLANE_TRY_ASSIGN(call.plugin, reader.string("plugin"));
  PODLANE_TRY_ASSIGN(call.cni_path, reader.string("cniPath"));
  PODLANE_TRY_ASSIGN(call.container_id, reader.string("containerId"));
  PODLANE_TRY_ASSIGN(call.netns_path, string_or_empty(reader, "netns"));
  PODLANE_TRY_ASSIGN(call.ifname, reader.string("ifname"));
  PODLANE_TRY_ASSIGN(call.args, string_or_empty(reader, "args"));
  PODLANE_TRY_ASSIGN(const auto config, reader.optional_object("config"));
  if (!config) return fail(Errc::kInvalid, reader.path_of("config") + " is missing; it must be an object");
  call.config = config->value();
  return call;
}

}  // namespace

std::string file_stem_of(const AttachmentKey& key) {
  // FNV-1a over the key with separators that none of its parts can hold.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const std::string& part : {key.network, key.container_id, key.ifname}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    hash = (hash ^ 0xff) * 1099511628211ULL;
  }
  std::string stem;
  for (const char c : key.container_id.substr(0, 64)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    stem.push_back(plain ? c : '_');
  }
  stem.push_back('-');
  for (int shift = 60; shift >= 0; shift -= 4) stem.push_back("0123456789abcdef"[(hash >> shift) & 15]);
  return stem;
}

std::string encode(const AttachmentRecord& record) {
  json::Value lanes = json::Value::array();
  for (const LaneRecord& lane : record.lanes) {
    lanes.push_back({{"pool", lane.pool},
                     {"device", lane.device},
                     {"ifname", lane.ifname},
                     {"ifindex", lane.ifindex},
                     {"table", lane.table},
                     {"mtu", lane.mtu},
                     {"queues", lane.queues},
                     {"owner", lane.owner},
                     {"addresses", lane.addresses}});
  }
  return json::dump({{"version", kVersion},
                     {"key", key_to_json(record.key)},
                     {"bootId", record.boot_id},
                     {"netns", record.netns_path},
                     {"pod", {{"namespace", record.pod_namespace}, {"name", record.pod_name}, {"uid", record.pod_uid}}},
                     {"withDaemon", record.with_daemon},
                     {"state", record.state == RecordState::kMade ? "made" : "adding"},
                     {"lanes", std::move(lanes)}});
}

Result<AttachmentRecord> decode_attachment_record(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader reader, open_record(value));
  AttachmentRecord record;
  PODLANE_TRY_ASSIGN(record.key, required_key(reader));
  PODLANE_TRY_ASSIGN(record.boot_id, reader.string("bootId"));
  PODLANE_TRY_ASSIGN(record.netns_path, string_or_empty(reader, "netns"));
  PODLANE_TRY_ASSIGN(const auto pod, reader.optional_object("pod"));
  if (pod) {
    PODLANE_TRY_ASSIGN(record.pod_namespace, string_or_empty(*pod, "namespace"));
    PODLANE_TRY_ASSIGN(record.pod_name, string_or_empty(*pod, "name"));
    PODLANE_TRY_ASSIGN(record.pod_uid, string_or_empty(*pod, "uid"));
  }
  PODLANE_TRY_ASSIGN(const auto with_daemon, reader.optional_boolean("withDaemon"));
  record.with_daemon = with_daemon.value_or(false);
  PODLANE_TRY_ASSIGN(const auto state, reader.optional_choice("state", {"adding", "made"}));
  record.state = state == "made" ? RecordState::kMade : RecordState::kAdding;
  PODLANE_TRY_ASSIGN(const auto lanes, reader.optional_objects("lanes"));
  for (const json::Reader& object : lanes) {
    PODLANE_TRY_ASSIGN(LaneRecord lane, lane_from_json(object));
    record.lanes.push_back(std::move(lane));
  }
  return record;
}

std::string encode(const AddressRecord& record) {
  json::Value calls = json::Value::array();
  for (const IpamCall& call : record.calls) {
    calls.push_back({{"plugin", call.plugin},
                     {"cniPath", call.cni_path},
                     {"containerId", call.container_id},
                     {"netns", call.netns_path},
                     {"ifname", call.ifname},
                     {"args", call.args},
                     {"config", call.config}});
  }
  return json::dump({{"version", kVersion},
                     {"key", key_to_json(record.key)},
                     {"bootId", record.boot_id},
                     {"netns", record.netns_path},
                     {"calls", std::move(calls)}});
}

Result<AddressRecord> decode_address_record(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader reader, open_record(value));
  AddressRecord record;
  PODLANE_TRY_ASSIGN(record.key, required_key(reader));
  PODLANE_TRY_ASSIGN(record.boot_id, reader.string("bootId"));
  PODLANE_TRY_ASSIGN(record.netns_path, string_or_empty(reader, "netns"));
  PODLANE_TRY_ASSIGN(const auto calls, reader.optional_objects("calls"));
  for (const json::Reader& object : calls) {
    PODLANE_TRY_ASSIGN(IpamCall call, call_from_json(object));
    record.calls.push_back(std::move(call));
  }
  return record;
}

std::string encode(const AttachmentKey& key) {
  return json::dump({{"version", kVersion}, {"key", key_to_json(key)}});
}

Result<AttachmentKey> decode_key(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader reader, open_record(value));
  return required_key(reader);
}

}  // namespace podlane::journal
