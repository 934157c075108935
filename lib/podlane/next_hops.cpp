#include "lib/podlane/next_hops.hpp"

#include <cstring>

#include "lib/net/addr.hpp"

namespace podlane {

namespace {

IpKey mask_of(int length, bool is_v4) {
  std::array<std::uint8_t, 16> bytes{};
  const int bits = is_v4 ? 96 + length : length;
  for (int i = 0; i < bits; ++i) bytes[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(0x80 >> (i % 8));
  return ip_key_v6(bytes.data());
}

IpKey masked(const IpKey& key, const IpKey& mask) { return {key.high & mask.high, key.low & mask.low}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

IpKey ip_key_of(const net::IpAddress& address) {
  return address.family == net::Family::kIpv4 ? ip_key_v4(address.bytes.data()) : ip_key_v6(address.bytes.data());
}

std::string to_string(const IpKey& key) {
  const auto bytes = ip_key_bytes(key);
  net::IpAddress address{net::Family::kIpv6, bytes};
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(bytes.data(), kMapped.data(), kMapped.size()) == 0) {
    address = {net::Family::kIpv4, {}};
    std::memcpy(address.bytes.data(), &bytes[12], 4);
  }
  return address.to_string();
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  MacAddress mac{};
  if (text.size() != 17) return std::nullopt;
  for (std::size_t i = 0; i < 6; ++i) {
    const int high = hex_digit(text[i * 3]), low = hex_digit(text[i * 3 + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[i * 3 + 2] != ':')) return std::nullopt;
    mac[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return mac;
}

Result<NextHops> NextHops::create(const lane::LaneDescription& description) {
  NextHops hops;
  const auto add_subnet = [&](const std::string& text) -> Result<void> {
    PODLANE_TRY_ASSIGN(const net::IpPrefix prefix, net::parse_ip_prefix(text));
    const bool is_v4 = prefix.address.family == net::Family::kIpv4;
    const IpKey mask = mask_of(prefix.length, is_v4);
    const IpKey network = masked(ip_key_of(prefix.address), mask);
    hops.subnets_.push_back({network, mask, is_v4});
    if (is_v4 && prefix.length <= 30) {
      hops.broadcasts_.push_back({network.high | ~mask.high, network.low | ~mask.low});
    }
    return {};
  };
  for (const std::string& subnet : description.subnets) PODLANE_TRY(add_subnet(subnet));
  for (const std::string& address : description.addresses) PODLANE_TRY(add_subnet(address));
  PODLANE_TRY(add_subnet("fe80::/10"));
  for (const std::string& text : description.gateways) {
    const auto address = net::parse_ip(text);
    if (!address) return fail(Errc::kProtocol, "gateway '" + text + "' is not an IP address");
    auto& gateway = address->family == net::Family::kIpv4 ? hops.gateway_v4_ : hops.gateway_v6_;
    if (!gateway) gateway = ip_key_of(*address);
  }
  for (const lane::Neighbor& neighbor : description.neighbors) {
    const auto address = net::parse_ip(neighbor.ip);
    if (!address) return fail(Errc::kProtocol, "neighbor '" + neighbor.ip + "' is not an IP address");
    if (!neighbor.mac) continue;
    const auto mac = parse_mac(*neighbor.mac);
    if (!mac) return fail(Errc::kProtocol, "neighbor " + neighbor.ip + ": '" + *neighbor.mac + "' is not a MAC address");
    hops.learn(ip_key_of(*address), *mac);
  }
  return hops;
}

Hop NextHops::find(const IpKey& destination, bool is_v4) {
  if (memo_valid_ && destination == memo_destination_) [[likely]] return {HopState::kKnown, memo_mac_, {}};
  Hop hop;
  if (const auto mac = computed_mac(destination, is_v4)) {
    hop = {HopState::kKnown, *mac, {}};
  } else {
    const auto next_hop = next_hop_of(destination, is_v4);
    if (!next_hop) return hop;
    const Entry* entry = entry_of(*next_hop);
    if (entry == nullptr) {
      make_entry(*next_hop).state = EntryState::kWaiting;
      return {HopState::kAsk, {}, *next_hop};
    }
    if (entry->state == EntryState::kWaiting) return {HopState::kWaiting, {}, {}};
    hop = {HopState::kKnown, entry->mac, {}};
  }
  memo_destination_ = destination;
  memo_mac_ = hop.mac;
  memo_valid_ = true;
  return hop;
}

void NextHops::learn(const IpKey& ip, const MacAddress& mac) {
  memo_valid_ = false;
  Entry* entry = entry_of(ip);
  if (entry == nullptr) entry = &make_entry(ip);
  entry->mac = mac;
  entry->state = EntryState::kKnown;
}

void NextHops::forget(const IpKey& ip) {
  memo_valid_ = false;
  if (Entry* entry = entry_of(ip)) entry->state = EntryState::kEmpty;
}

std::optional<IpKey> NextHops::next_hop_of(const IpKey& destination, bool is_v4) const {
  for (const Subnet& subnet : subnets_) {
    if (subnet.is_v4 == is_v4 && masked(destination, subnet.mask) == subnet.network) return destination;
  }
  return is_v4 ? gateway_v4_ : gateway_v6_;
}

// RFC 1112 6.4 and RFC 2464 7.
std::optional<MacAddress> NextHops::computed_mac(const IpKey& destination, bool is_v4) const {
  const auto bytes = ip_key_bytes(destination);
  if (!is_v4) {
    if (bytes[0] != 0xff) return std::nullopt;
    return MacAddress{0x33, 0x33, bytes[12], bytes[13], bytes[14], bytes[15]};
  }
  if ((bytes[12] & 0xf0) == 0xe0) {
    return MacAddress{0x01, 0x00, 0x5e, static_cast<std::uint8_t>(bytes[13] & 0x7f), bytes[14], bytes[15]};
  }
  constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  if (bytes[12] == 255 && bytes[13] == 255 && bytes[14] == 255 && bytes[15] == 255) return kBroadcast;
  for (const IpKey& broadcast : broadcasts_) {
    if (destination == broadcast) return kBroadcast;
  }
  return std::nullopt;
}

NextHops::Entry* NextHops::entry_of(const IpKey& ip) {
  const std::uint64_t hash = (ip.high ^ ip.low) * 0x9e3779b97f4a7c15ULL;
  for (Entry& entry : sets_[hash >> 58]) {
    if (entry.state != EntryState::kEmpty && entry.ip == ip) return &entry;
  }
  return nullptr;
}

// Takes an empty place, else one that only waits, else the next in turn: a scan of the subnet by the pod costs the pod.
NextHops::Entry& NextHops::make_entry(const IpKey& ip) {
  const std::uint64_t hash = (ip.high ^ ip.low) * 0x9e3779b97f4a7c15ULL;
  auto& set = sets_[hash >> 58];
  Entry* victim = nullptr;
  for (Entry& entry : set) {
    if (entry.state == EntryState::kEmpty) {
      victim = &entry;
      break;
    }
    if (entry.state == EntryState::kWaiting) victim = &entry;
  }
  if (victim == nullptr) victim = &set[next_victim_++ % kWays];
  memo_valid_ = false;
  *victim = Entry{ip, EntryState::kEmpty, {}};
  return *victim;
}

static_assert(NextHops::kSets == 64, "the sets are chosen by the upper six bits of the hash");

}  // namespace podlane
