#include "lib/lane/handover_msg.hpp"

#include <arpa/inet.h>

#include <limits>

#include "lib/json/json.hpp"

// Unknown keys are left alone: a later minor change may add some. Everything that is read is checked for type and range,
// because both ends run with another's data.

namespace podlane::lane {

namespace {

using json::Reader;
using json::Value;

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr std::size_t kMaxCounters = 64;
constexpr std::size_t kMaxWordBytes = 64;
constexpr std::size_t kMaxClientBytes = 128;

std::string_view to_string(HandoverStyle style) { return style == HandoverStyle::kFinished ? "finished" : "unbound"; }

Value umem_object(const UmemShape& shape) {
  return {{"frames", shape.frames},
          {"frameSize", shape.frame_size_bytes},
          {"hugePages", lane::to_string(shape.huge_pages)}};
}

Value neighbor_object(const Neighbor& neighbor) {
  Value object{{"ip", neighbor.ip}, {"mac", nullptr}};
  if (neighbor.mac) object["mac"] = *neighbor.mac;
  return object;
}

Value xsk_object(const XskDescription& xsk) {
  return {{"netdev", xsk.netdev},
          {"netdevIfindex", xsk.netdev_ifindex},
          {"queue", xsk.queue},
          {"rxSize", xsk.rx_size},
          {"txSize", xsk.tx_size},
          {"fillSize", xsk.fill_size},
          {"completionSize", xsk.completion_size},
          {"frames", xsk.umem.frames},
          {"frameSize", xsk.umem.frame_size_bytes},
          {"hugePages", lane::to_string(xsk.umem.huge_pages)},
          {"headroom", xsk.headroom_bytes}};
}

struct Encoder {
  Value operator()(const Hello& m) const {
    return {{"type", "hello"}, {"version", m.version}, {"client", m.client}, {"vnetHdr", m.vnet_hdr}, {"resume", m.resume}};
  }
  Value operator()(const Offer& m) const {
    Value object{{"type", "offer"},
                 {"version", m.version},
                 {"kind", lane::to_string(m.kind)},
                 {"handover", to_string(m.style)}};
    if (m.umem) object["umem"] = umem_object(*m.umem);
    return object;
  }
  Value operator()(const UmemMessage&) const { return {{"type", "umem"}}; }
  Value operator()(const Ready&) const { return {{"type", "ready"}}; }
  Value operator()(const LaneDescription& m) const {
    Value object{{"type", "lane"}, {"pool", m.pool}, {"index", m.index}, {"device", m.device},
                 {"kind", lane::to_string(m.kind)}};
    if (m.path) object["path"] = lane::to_string(*m.path);
    object["mode"] = lane::to_string(m.mode);
    object["ifname"] = m.ifname;
    object["ifindex"] = m.ifindex;
    object["mtu"] = m.mtu;
    if (!m.mac.empty()) object["mac"] = m.mac;
    object["addresses"] = m.addresses;
    object["gateways"] = m.gateways;
    object["subnets"] = m.subnets;
    object["neighbors"] = Value::array();
    for (const Neighbor& neighbor : m.neighbors) object["neighbors"].push_back(neighbor_object(neighbor));
    if (m.xsk) {
      object["xsk"] = xsk_object(*m.xsk);
      object["inForce"] = {{"zeroCopy", m.in_force.zero_copy},
                           {"xdp", m.in_force.native_xdp ? "native" : "generic"},
                           {"busyPoll", m.in_force.busy_poll}};
    }
    object["fds"] = m.fds;
    return object;
  }
  Value operator()(const Ack&) const { return {{"type", "ack"}}; }
  Value operator()(const Resumed&) const { return {{"type", "resumed"}}; }
  Value operator()(const Resolve& m) const { return {{"type", "resolve"}, {"ip", m.ip}}; }
  Value operator()(const NeighborUpdate& m) const {
    Value object{{"type", "neighbor"}};
    object.update(neighbor_object(m.neighbor));
    return object;
  }
  Value operator()(const Stats& m) const {
    Value counters = Value::object();
    for (const auto& [name, value] : m.counters) counters[name] = value;
    return {{"type", "stats"}, {"counters", std::move(counters)}};
  }
  Value operator()(const HandoverRefusal& m) const {
    return {{"type", "error"}, {"code", m.code}, {"message", m.message}};
  }
};

std::unexpected<Error> wrong(const Reader& reader, std::string_view key, std::string_view got, std::string_view wanted) {
  return fail(Errc::kInvalid, reader.path_of(key) + " '" + std::string(got.substr(0, kMaxWordBytes)) + "' must be " +
                                  std::string(wanted));
}

bool is_ip(const std::string& text) {
  in6_addr scratch{};
  return ::inet_pton(AF_INET, text.c_str(), &scratch) == 1 || ::inet_pton(AF_INET6, text.c_str(), &scratch) == 1;
}

bool is_mac(std::string_view text) {
  if (text.size() != 17) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (i % 3 == 2 ? c != ':' : !hex) return false;
  }
  return true;
}

bool is_counter_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxWordBytes || text[0] < 'a' || text[0] > 'z') return false;
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

Result<std::string> read_ip(const Reader& reader) {
  PODLANE_TRY_ASSIGN(std::string ip, reader.string("ip"));
  // A NUL inside would end the text early for inet_pton.
  if (ip.size() > 45 || ip.find('\0') != std::string::npos || !is_ip(ip)) {
    return wrong(reader, "ip", ip, "an IPv4 or IPv6 address");
  }
  return ip;
}

Result<std::uint32_t> read_u32(const Reader& reader, std::string_view key, std::int64_t low, std::int64_t high) {
  PODLANE_TRY_ASSIGN(const std::int64_t value, reader.integer(key, low, high));
  return static_cast<std::uint32_t>(value);
}

Result<Neighbor> read_neighbor(const Reader& reader) {
  Neighbor neighbor;
  PODLANE_TRY_ASSIGN(neighbor.ip, read_ip(reader));
  PODLANE_TRY_ASSIGN(neighbor.mac, reader.optional_string("mac"));
  if (neighbor.mac && !is_mac(*neighbor.mac)) {
    return wrong(reader, "mac", *neighbor.mac, "six hexadecimal bytes as 02:00:00:00:00:01, or null");
  }
  return neighbor;
}

Result<UmemShape> read_umem(const Reader& reader) {
  UmemShape shape;
  PODLANE_TRY_ASSIGN(shape.frames, read_u32(reader, "frames", 1, 1 << 24));
  PODLANE_TRY_ASSIGN(shape.frame_size_bytes, read_u32(reader, "frameSize", 2048, 4096));
  PODLANE_TRY_ASSIGN(const auto huge_pages, reader.optional_choice("hugePages", {"none", "2Mi", "1Gi"}));
  if (huge_pages) {
    PODLANE_TRY_ASSIGN(shape.huge_pages, parse_huge_pages(*huge_pages));
  }
  return shape;
}

Result<XskDescription> read_xsk(const Reader& reader) {
  XskDescription xsk;
  PODLANE_TRY_ASSIGN(xsk.netdev, reader.string("netdev"));
  PODLANE_TRY_ASSIGN(const std::int64_t ifindex, reader.integer("netdevIfindex", 1, kMaxInt));
  xsk.netdev_ifindex = static_cast<int>(ifindex);
  PODLANE_TRY_ASSIGN(xsk.queue, read_u32(reader, "queue", 0, kMaxInt));
  for (const auto& [key, size] : {std::pair("rxSize", &xsk.rx_size), std::pair("txSize", &xsk.tx_size),
                                  std::pair("fillSize", &xsk.fill_size),
                                  std::pair("completionSize", &xsk.completion_size)}) {
    PODLANE_TRY_ASSIGN(*size, read_u32(reader, key, 1, 1 << 24));
    if ((*size & (*size - 1)) != 0) return wrong(reader, key, std::to_string(*size), "a power of two");
  }
  PODLANE_TRY_ASSIGN(xsk.umem, read_umem(reader));
  PODLANE_TRY_ASSIGN(xsk.headroom_bytes, read_u32(reader, "headroom", 0, 4096));
  return xsk;
}

Result<HandoverMessage> read_hello(const Reader& reader) {
  Hello hello;
  PODLANE_TRY_ASSIGN(const std::int64_t version, reader.integer("version", 0, kMaxInt));
  hello.version = static_cast<int>(version);
  // Of another version nothing but the number can be relied on; the server answers it in words.
  if (hello.version != kHandoverVersion) return hello;
  PODLANE_TRY_ASSIGN(const auto client, reader.optional_string("client"));
  if (client && client->size() > kMaxClientBytes) {
    return wrong(reader, "client", *client, "at most " + std::to_string(kMaxClientBytes) + " bytes");
  }
  hello.client = client.value_or("");
  PODLANE_TRY_ASSIGN(const auto vnet_hdr, reader.optional_boolean("vnetHdr"));
  PODLANE_TRY_ASSIGN(const auto resume, reader.optional_boolean("resume"));
  hello.vnet_hdr = vnet_hdr.value_or(true);
  hello.resume = resume.value_or(false);
  return hello;
}

Result<HandoverMessage> read_offer(const Reader& reader) {
  Offer offer;
  PODLANE_TRY_ASSIGN(const std::int64_t version, reader.integer("version", 0, kMaxInt));
  offer.version = static_cast<int>(version);
  PODLANE_TRY_ASSIGN(const std::string kind, reader.string("kind"));
  PODLANE_TRY_ASSIGN(offer.kind, parse_kind(kind));
  PODLANE_TRY_ASSIGN(const auto style, reader.optional_choice("handover", {"finished", "unbound"}));
  offer.style = style.value_or("finished") == "finished" ? HandoverStyle::kFinished : HandoverStyle::kUnbound;
  PODLANE_TRY_ASSIGN(const auto umem, reader.optional_object("umem"));
  if (umem) {
    PODLANE_TRY_ASSIGN(offer.umem, read_umem(*umem));
  }
  if (offer.umem.has_value() == (offer.kind == Kind::kTun)) {
    return fail(Errc::kInvalid, "offer: umem must be there for every kind but tun");
  }
  return offer;
}

Result<HandoverMessage> read_lane(const Reader& reader) {
  LaneDescription lane;
  PODLANE_TRY_ASSIGN(lane.pool, reader.string("pool"));
  PODLANE_TRY_ASSIGN(lane.index, read_u32(reader, "index", 0, kMaxInt));
  PODLANE_TRY_ASSIGN(lane.device, reader.string("device"));
  PODLANE_TRY_ASSIGN(const std::string kind, reader.string("kind"));
  PODLANE_TRY_ASSIGN(lane.kind, parse_kind(kind));
  PODLANE_TRY_ASSIGN(const auto path, reader.optional_string("path"));
  if (path) {
    PODLANE_TRY_ASSIGN(lane.path, parse_path(*path));
  }
  PODLANE_TRY_ASSIGN(const std::string mode, reader.string("mode"));
  PODLANE_TRY_ASSIGN(lane.mode, parse_mode(mode));
  PODLANE_TRY_ASSIGN(lane.ifname, reader.string("ifname"));
  PODLANE_TRY_ASSIGN(const std::int64_t ifindex, reader.integer("ifindex", 0, kMaxInt));
  lane.ifindex = static_cast<int>(ifindex);
  PODLANE_TRY_ASSIGN(lane.mtu, read_u32(reader, "mtu", 68, 65535));
  PODLANE_TRY_ASSIGN(const auto mac, reader.optional_string("mac"));
  lane.mac = mac.value_or("");
  if (!lane.mac.empty() && !is_mac(lane.mac)) return wrong(reader, "mac", lane.mac, "six hexadecimal bytes");
  PODLANE_TRY_ASSIGN(lane.addresses, reader.optional_strings("addresses"));
  PODLANE_TRY_ASSIGN(lane.gateways, reader.optional_strings("gateways"));
  PODLANE_TRY_ASSIGN(lane.subnets, reader.optional_strings("subnets"));
  PODLANE_TRY_ASSIGN(const auto neighbors, reader.optional_objects("neighbors"));
  for (const Reader& entry : neighbors) {
    PODLANE_TRY_ASSIGN(Neighbor neighbor, read_neighbor(entry));
    lane.neighbors.push_back(std::move(neighbor));
  }
  PODLANE_TRY_ASSIGN(const auto xsk, reader.optional_object("xsk"));
  if (xsk) {
    PODLANE_TRY_ASSIGN(lane.xsk, read_xsk(*xsk));
  }
  PODLANE_TRY_ASSIGN(const auto in_force, reader.optional_object("inForce"));
  if (in_force) {
    PODLANE_TRY_ASSIGN(const auto zero_copy, in_force->optional_boolean("zeroCopy"));
    PODLANE_TRY_ASSIGN(const auto xdp, in_force->optional_choice("xdp", {"native", "generic"}));
    PODLANE_TRY_ASSIGN(const auto busy_poll, in_force->optional_boolean("busyPoll"));
    lane.in_force = {.zero_copy = zero_copy.value_or(false),
                     .native_xdp = xdp.value_or("generic") == "native",
                     .busy_poll = busy_poll.value_or(false)};
  }
  PODLANE_TRY_ASSIGN(lane.fds, reader.optional_strings("fds"));
  if (lane.fds.size() > kHandoverMaxFds) {
    return fail(Errc::kInvalid, "fds names " + std::to_string(lane.fds.size()) + " descriptors, at most " +
                                    std::to_string(kHandoverMaxFds) + " can come");
  }
  return lane;
}

Result<HandoverMessage> read_stats(const Reader& reader) {
  Stats stats;
  PODLANE_TRY_ASSIGN(const auto counters, reader.optional_object("counters"));
  if (!counters) return fail(Errc::kInvalid, "counters is missing; it must be an object of name and number");
  if (counters->value().size() > kMaxCounters) {
    return fail(Errc::kInvalid, "counters has " + std::to_string(counters->value().size()) + " entries, at most " +
                                    std::to_string(kMaxCounters) + " are taken");
  }
  for (const auto& [name, value] : counters->value().items()) {
    if (!is_counter_name(name)) return wrong(*counters, name, name, "a name of a-z, 0-9 and _, at most 64 bytes");
    // get<unsigned> of a negative number would wrap.
    if (!value.is_number_unsigned()) return wrong(*counters, name, json::dump(value), "a whole number from 0");
    stats.counters.emplace_back(name, value.get<std::uint64_t>());
  }
  return stats;
}

Result<HandoverMessage> read_error(const Reader& reader) {
  HandoverRefusal refusal;
  PODLANE_TRY_ASSIGN(refusal.code, reader.string("code"));
  PODLANE_TRY_ASSIGN(const auto message, reader.optional_string("message"));
  refusal.message = message.value_or("");
  return refusal;
}

Result<HandoverMessage> read_resolve(const Reader& reader) {
  PODLANE_TRY_ASSIGN(std::string ip, read_ip(reader));
  return Resolve{.ip = std::move(ip)};
}

Result<HandoverMessage> read_update(const Reader& reader) {
  PODLANE_TRY_ASSIGN(Neighbor neighbor, read_neighbor(reader));
  return NeighborUpdate{.neighbor = std::move(neighbor)};
}

template <typename Message>
Result<HandoverMessage> read_empty(const Reader&) {
  return Message{};
}

struct MessageType {
  std::string_view type;
  Result<HandoverMessage> (*read)(const Reader&);
};
constexpr MessageType kTypes[] = {
    {"hello", read_hello},         {"offer", read_offer},     {"umem", read_empty<UmemMessage>},
    {"ready", read_empty<Ready>},  {"lane", read_lane},       {"ack", read_empty<Ack>},
    {"resumed", read_empty<Resumed>}, {"resolve", read_resolve}, {"neighbor", read_update},
    {"stats", read_stats},         {"error", read_error},
};
static_assert(std::size(kTypes) == std::variant_size_v<HandoverMessage>);

}  // namespace

std::string encode(const HandoverMessage& message) { return json::dump(std::visit(Encoder{}, message)); }

Result<HandoverMessage> decode_handover(std::string_view text) {
  PODLANE_TRY_ASSIGN(const Value value, json::parse(text, {.max_bytes = kHandoverMessageMaxBytes, .max_depth = 8}));
  PODLANE_TRY_ASSIGN(const Reader reader, Reader::open(value, ""));
  PODLANE_TRY_ASSIGN(const std::string type, reader.string("type"));
  for (const MessageType& entry : kTypes) {
    if (entry.type == type) return entry.read(reader);
  }
  return wrong(reader, "type", type, "one of docs/handover-protocol.md");
}

}  // namespace podlane::lane
