#include "lib/lane/control_msg.hpp"

#include <array>
#include <limits>

namespace podlane::lane {

namespace {

constexpr std::array<std::pair<ControlCode, std::string_view>, 6> kCodes{{{ControlCode::kNoLane, "no-lane"},
                                                                          {ControlCode::kGone, "gone"},
                                                                          {ControlCode::kRefused, "refused"},
                                                                          {ControlCode::kNotReady, "not-ready"},
                                                                          {ControlCode::kProtocol, "protocol"},
                                                                          {ControlCode::kInternal, "internal"}}};

json::Value begin_request(std::string_view op, const Attachment* attachment) {
  json::Value value{{"version", kControlVersion}, {"op", op}};
  if (attachment != nullptr) {
    value["network"] = attachment->network;
    value["containerId"] = attachment->container_id;
    value["ifname"] = attachment->ifname;
  }
  return value;
}

json::Value lanes_made_to_json(const std::vector<LaneMade>& lanes) {
  json::Value list = json::Value::array();
  for (const LaneMade& lane : lanes) {
    list.push_back({{"device", lane.device},
                    {"tun",
                     {{"name", lane.tun_name},
                      {"ifindex", lane.tun_ifindex},
                      {"mtu", lane.mtu},
                      {"queues", lane.queues}}},
                    {"addresses", lane.addresses}});
  }
  return list;
}

struct RequestEncoder {
  json::Value operator()(const AttachRequest& request) const {
    json::Value value = begin_request("attach", &request.attachment);
    value["pod"] = {{"namespace", request.pod.name_space}, {"name", request.pod.name}, {"uid", request.pod.uid}};
    json::Value annotations = json::Value::object();
    for (const auto& [key, text] : request.annotations) annotations[key] = text;
    value["annotations"] = std::move(annotations);
    value["netnsPath"] = request.netns_path;
    return value;
  }
  json::Value operator()(const CommitRequest& request) const {
    json::Value value = begin_request("commit", &request.attachment);
    value["lanes"] = lanes_made_to_json(request.lanes);
    return value;
  }
  json::Value operator()(const DetachRequest& request) const { return begin_request("detach", &request.attachment); }
  json::Value operator()(const CheckRequest& request) const {
    json::Value value = begin_request("check", &request.attachment);
    value["lanes"] = lanes_made_to_json(request.lanes);
    return value;
  }
  json::Value operator()(const AttachmentsRequest& request) const {
    json::Value value = begin_request("attachments", nullptr);
    value["network"] = request.network;
    return value;
  }
  json::Value operator()(const StatusRequest&) const { return begin_request("status", nullptr); }
};

Result<std::string> non_empty(const json::Reader& reader, std::string_view key) {
  PODLANE_TRY_ASSIGN(std::string text, reader.string(key));
  if (text.empty()) return fail(Errc::kInvalid, reader.path_of(key) + " '' must not be empty");
  return text;
}

Result<Attachment> read_attachment(const json::Reader& reader) {
  Attachment attachment;
  PODLANE_TRY_ASSIGN(attachment.network, non_empty(reader, "network"));
  PODLANE_TRY_ASSIGN(attachment.container_id, non_empty(reader, "containerId"));
  PODLANE_TRY_ASSIGN(attachment.ifname, non_empty(reader, "ifname"));
  return attachment;
}

Result<PodName> read_pod(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const auto pod, reader.optional_object("pod"));
  if (!pod) return fail(Errc::kInvalid, "pod is missing; it must be {namespace, name, uid}");
  PodName name;
  PODLANE_TRY_ASSIGN(name.name_space, non_empty(*pod, "namespace"));
  PODLANE_TRY_ASSIGN(name.name, non_empty(*pod, "name"));
  PODLANE_TRY_ASSIGN(const auto uid, pod->optional_string("uid"));
  name.uid = uid.value_or("");
  return name;
}

Result<std::vector<LaneMade>> read_lanes_made(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const auto objects, reader.optional_objects("lanes"));
  std::vector<LaneMade> lanes;
  for (const json::Reader& object : objects) {
    LaneMade lane;
    PODLANE_TRY_ASSIGN(lane.device, non_empty(object, "device"));
    PODLANE_TRY_ASSIGN(const auto tun, object.optional_object("tun"));
    if (!tun) return fail(Errc::kInvalid, object.path_of("tun") + " is missing; it must be {name, ifindex}");
    PODLANE_TRY_ASSIGN(lane.tun_name, non_empty(*tun, "name"));
    PODLANE_TRY_ASSIGN(const auto ifindex, tun->integer("ifindex", 1, std::numeric_limits<int>::max()));
    lane.tun_ifindex = static_cast<int>(ifindex);
    PODLANE_TRY_ASSIGN(const auto mtu, tun->optional_integer("mtu", 0, 65535));
    PODLANE_TRY_ASSIGN(const auto queues, tun->optional_integer("queues", 1, 256));
    lane.mtu = static_cast<std::uint32_t>(mtu.value_or(0));
    lane.queues = static_cast<std::uint32_t>(queues.value_or(1));
    PODLANE_TRY_ASSIGN(lane.addresses, object.optional_strings("addresses"));
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

Result<AttachRequest> read_attach(const json::Reader& reader) {
  AttachRequest request;
  PODLANE_TRY_ASSIGN(request.attachment, read_attachment(reader));
  PODLANE_TRY_ASSIGN(request.pod, read_pod(reader));
  PODLANE_TRY_ASSIGN(request.netns_path, non_empty(reader, "netnsPath"));
  PODLANE_TRY_ASSIGN(const auto annotations, reader.optional_object("annotations"));
  if (!annotations) return request;
  for (const auto& [key, value] : annotations->value().items()) {
    PODLANE_TRY_ASSIGN(std::string text, annotations->string(key));
    request.annotations.emplace_back(key, std::move(text));
  }
  return request;
}

Result<LanePlan> read_plan(const json::Reader& reader) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
  LanePlan plan;
  PODLANE_TRY_ASSIGN(plan.pool, non_empty(reader, "pool"));
  PODLANE_TRY_ASSIGN(const auto index, reader.integer("index", 0, kMax32));
  plan.index = static_cast<std::uint32_t>(index);
  PODLANE_TRY_ASSIGN(plan.device, non_empty(reader, "device"));
  PODLANE_TRY_ASSIGN(const std::string kind, reader.string("kind"));
  PODLANE_TRY_ASSIGN(plan.kind, parse_kind(kind));
  PODLANE_TRY_ASSIGN(const auto path, reader.optional_string("path"));
  if (path) {
    PODLANE_TRY_ASSIGN(plan.path, parse_path(*path));
  }
  PODLANE_TRY_ASSIGN(const std::string mode, reader.string("mode"));
  PODLANE_TRY_ASSIGN(plan.mode, parse_mode(mode));
  PODLANE_TRY_ASSIGN(const auto mtu, reader.integer("mtu", 68, 65535));
  plan.mtu = static_cast<std::uint32_t>(mtu);
  PODLANE_TRY_ASSIGN(const auto veth, reader.optional_object("veth"));
  if (veth) {
    constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();
    PODLANE_TRY_ASSIGN(const auto host, veth->integer("host", 1, kMaxIndex));
    PODLANE_TRY_ASSIGN(const auto pod, veth->integer("pod", 1, kMaxIndex));
    plan.veth = {.host = IfIndex(static_cast<int>(host)), .pod = IfIndex(static_cast<int>(pod))};
  }
  PODLANE_TRY_ASSIGN(plan.subnets, reader.optional_strings("subnets"));
  PODLANE_TRY_ASSIGN(plan.gateways, reader.optional_strings("gateways"));
  PODLANE_TRY_ASSIGN(const auto ipam, reader.optional_object("ipam"));
  if (ipam) plan.ipam = ipam->value();
  PODLANE_TRY_ASSIGN(plan.fixed_addresses, reader.optional_strings("fixedAddresses"));
  PODLANE_TRY_ASSIGN(const auto socket_path, reader.optional_string("socketPath"));
  plan.socket_path = socket_path.value_or("");
  PODLANE_TRY_ASSIGN(plan.pci_id, reader.optional_string("pciId"));
  PODLANE_TRY_ASSIGN(const auto probed, reader.optional_boolean("probed"));
  plan.probed = probed.value_or(false);
  return plan;
}

json::Value plan_to_json(const LanePlan& plan) {
  json::Value value{
      {"pool", plan.pool}, {"index", plan.index}, {"device", plan.device}, {"kind", to_string(plan.kind)}};
  if (plan.path) value["path"] = to_string(*plan.path);
  value["mode"] = to_string(plan.mode);
  value["mtu"] = plan.mtu;
  if (plan.veth.host.value != 0) value["veth"] = {{"host", plan.veth.host.value}, {"pod", plan.veth.pod.value}};
  value["subnets"] = plan.subnets;
  value["gateways"] = plan.gateways;
  if (plan.ipam) value["ipam"] = *plan.ipam;
  value["fixedAddresses"] = plan.fixed_addresses;
  value["socketPath"] = plan.socket_path;
  if (plan.pci_id) value["pciId"] = *plan.pci_id;
  value["probed"] = plan.probed;
  return value;
}

Result<ControlRefusal> read_refusal(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const std::string code, reader.string("code"));
  PODLANE_TRY_ASSIGN(std::string message, reader.string("message"));
  for (const auto& [value, name] : kCodes) {
    if (name == code) return ControlRefusal{.code = value, .message = std::move(message)};
  }
  // A code of a later minor version still refuses; its words are kept.
  return ControlRefusal{.code = ControlCode::kInternal, .message = code + ": " + message};
}

constexpr json::Limits kLimits{.max_bytes = kControlMessageMaxBytes, .max_depth = 64};

}  // namespace

std::string_view to_string(ControlCode code) {
  for (const auto& [value, name] : kCodes) {
    if (value == code) return name;
  }
  return "internal";
}

std::string encode(const ControlRequest& request) {
  return json::dump(std::visit(RequestEncoder{}, request));
}

Result<ControlRequest> decode_control_request(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text, kLimits));
  PODLANE_TRY_ASSIGN(const json::Reader reader, json::Reader::open(value, ""));
  PODLANE_TRY(reader.integer("version", kControlVersion, kControlVersion));
  PODLANE_TRY_ASSIGN(const auto op,
                     reader.optional_choice("op", {"attach", "commit", "detach", "check", "attachments", "status"}));
  if (op == "attach") return read_attach(reader);
  if (op == "commit" || op == "check") {
    PODLANE_TRY_ASSIGN(Attachment attachment, read_attachment(reader));
    PODLANE_TRY_ASSIGN(std::vector<LaneMade> lanes, read_lanes_made(reader));
    if (op == "commit") return CommitRequest{.attachment = std::move(attachment), .lanes = std::move(lanes)};
    return CheckRequest{.attachment = std::move(attachment), .lanes = std::move(lanes)};
  }
  if (op == "detach") {
    PODLANE_TRY_ASSIGN(Attachment attachment, read_attachment(reader));
    return DetachRequest{.attachment = std::move(attachment)};
  }
  if (op == "attachments") {
    PODLANE_TRY_ASSIGN(std::string network, non_empty(reader, "network"));
    return AttachmentsRequest{.network = std::move(network)};
  }
  if (op == "status") return StatusRequest{};
  return fail(Errc::kInvalid, "op is missing; it must be one of attach, commit, detach, check, attachments, status");
}

std::string encode(const ControlAnswer& answer) {
  if (answer.refusal) {
    return json::dump({{"ok", false}, {"code", to_string(answer.refusal->code)}, {"message", answer.refusal->message}});
  }
  json::Value value{{"ok", true}};
  if (!answer.lanes.empty()) {
    json::Value lanes = json::Value::array();
    for (const LanePlan& plan : answer.lanes) lanes.push_back(plan_to_json(plan));
    value["lanes"] = std::move(lanes);
  }
  if (!answer.attachments.empty()) {
    json::Value list = json::Value::array();
    for (const Attachment& attachment : answer.attachments) {
      list.push_back({{"containerId", attachment.container_id}, {"ifname", attachment.ifname}});
    }
    value["attachments"] = std::move(list);
  }
  return json::dump(value);
}

Result<ControlAnswer> decode_control_answer(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text, kLimits));
  PODLANE_TRY_ASSIGN(const json::Reader reader, json::Reader::open(value, ""));
  PODLANE_TRY_ASSIGN(const auto ok, reader.optional_boolean("ok"));
  if (!ok) return fail(Errc::kInvalid, "ok is missing; it must be true or false");
  ControlAnswer answer;
  if (!*ok) {
    PODLANE_TRY_ASSIGN(answer.refusal, read_refusal(reader));
    return answer;
  }
  PODLANE_TRY_ASSIGN(const auto lanes, reader.optional_objects("lanes"));
  for (const json::Reader& lane : lanes) {
    PODLANE_TRY_ASSIGN(LanePlan plan, read_plan(lane));
    answer.lanes.push_back(std::move(plan));
  }
  PODLANE_TRY_ASSIGN(const auto attachments, reader.optional_objects("attachments"));
  for (const json::Reader& object : attachments) {
    Attachment attachment;  // The network is the one that was asked for.
    PODLANE_TRY_ASSIGN(attachment.container_id, non_empty(object, "containerId"));
    PODLANE_TRY_ASSIGN(attachment.ifname, non_empty(object, "ifname"));
    answer.attachments.push_back(std::move(attachment));
  }
  return answer;
}

}  // namespace podlane::lane
