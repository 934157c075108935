#include "deviceplugin/lanes/arp_ndp.hpp"

#include <algorithm>
#include <cstring>

namespace podlane::dp {

namespace {

constexpr std::uint16_t kEthertypeArp = 0x0806;
constexpr std::uint16_t kEthertypeIpv6 = 0x86dd;
constexpr std::uint16_t kArpRequest = 1;
constexpr std::uint16_t kArpReply = 2;
constexpr std::uint8_t kIcmpv6 = 58;
constexpr std::uint8_t kNeighborSolicitation = 135;
constexpr std::uint8_t kNeighborAdvertisement = 136;
constexpr std::uint8_t kOptionSourceMac = 1;
constexpr std::uint8_t kOptionTargetMac = 2;
constexpr MacAddress kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr MacAddress kAllNodesMac = {0x33, 0x33, 0, 0, 0, 1};
constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kArpBytes = kEthernetBytes + 28;
constexpr std::size_t kNdBytes = kEthernetBytes + 40 + 24;

void put16(Frame& frame, std::uint16_t value) {
  frame.push_back(static_cast<char>(value >> 8));
  frame.push_back(static_cast<char>(value & 0xff));
}

template <typename Bytes>
void put(Frame& frame, const Bytes& bytes, std::size_t size) {
  frame.append(reinterpret_cast<const char*>(bytes.data()), size);
}

Frame ethernet(const MacAddress& to, const MacAddress& from, std::uint16_t ethertype) {
  Frame frame;
  put(frame, to, to.size());
  put(frame, from, from.size());
  put16(frame, ethertype);
  return frame;
}

net::IpAddress ipv6(std::initializer_list<std::uint8_t> first, std::initializer_list<std::uint8_t> last) {
  net::IpAddress address{.family = net::Family::kIpv6, .bytes = {}};
  std::copy(first.begin(), first.end(), address.bytes.begin());
  std::copy(last.begin(), last.end(), address.bytes.end() - static_cast<std::ptrdiff_t>(last.size()));
  return address;
}

net::IpAddress solicited_node(const net::IpAddress& address) {  // RFC 4291, 2.7.1
  return ipv6({0xff, 0x02}, {1, 0xff, address.bytes[13], address.bytes[14], address.bytes[15]});
}

// RFC 8200, 8.1: over both addresses, length, next header and the message, whose checksum field is still zero.
std::uint16_t icmpv6_checksum(const net::IpAddress& from, const net::IpAddress& to, const Frame& message) {
  Frame all;
  put(all, from.bytes, 16);
  put(all, to.bytes, 16);
  put16(all, 0);
  put16(all, static_cast<std::uint16_t>(message.size()));
  put16(all, 0);
  put16(all, kIcmpv6);
  all += message;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    sum += static_cast<std::uint32_t>(static_cast<std::uint8_t>(all[i]) << 8 | static_cast<std::uint8_t>(all[i + 1]));
  }
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

struct NdMessage {
  std::uint8_t type;
  std::uint8_t flags;  // The first byte of the flags word.
  net::IpAddress target;
  std::uint8_t option;  // 0: none.
};

Frame nd_frame(const MacAddress& to_mac, const net::IpAddress& to, const MacAddress& mac, const net::IpAddress& from,
               const NdMessage& nd) {
  Frame message;
  message.push_back(static_cast<char>(nd.type));
  message.push_back(0);
  put16(message, 0);
  message.push_back(static_cast<char>(nd.flags));
  message.append(3, '\0');
  put(message, nd.target.bytes, 16);
  if (nd.option != 0) {
    message.push_back(static_cast<char>(nd.option));
    message.push_back(1);
    put(message, mac, mac.size());
  }
  const std::uint16_t checksum = icmpv6_checksum(from, to, message);
  message[2] = static_cast<char>(checksum >> 8);
  message[3] = static_cast<char>(checksum & 0xff);

  Frame frame = ethernet(to_mac, mac, kEthertypeIpv6);
  frame.push_back(0x60);
  frame.append(3, '\0');
  put16(frame, static_cast<std::uint16_t>(message.size()));
  frame.push_back(static_cast<char>(kIcmpv6));
  frame.push_back(static_cast<char>(255));
  put(frame, from.bytes, 16);
  put(frame, to.bytes, 16);
  return frame + message;
}

template <typename Array>
void copy_out(std::span<const std::uint8_t> frame, std::size_t at, Array& to, std::size_t size) {
  std::memcpy(to.data(), frame.data() + at, size);
}

std::optional<NeighborClaim> read_arp(std::span<const std::uint8_t> frame) {
  static constexpr std::uint8_t kIpv4OverEthernet[] = {0, 1, 8, 0, 6, 4, 0};
  if (frame.size() < kArpBytes) return std::nullopt;
  if (std::memcmp(frame.data() + kEthernetBytes, kIpv4OverEthernet, sizeof(kIpv4OverEthernet)) != 0) return std::nullopt;
  const std::uint8_t operation = frame[kEthernetBytes + 7];
  if (operation != kArpRequest && operation != kArpReply) return std::nullopt;
  NeighborClaim claim;
  copy_out(frame, kEthernetBytes + 8, claim.mac, 6);
  copy_out(frame, kEthernetBytes + 14, claim.address.bytes, 4);
  if (claim.address != net::IpAddress{}) return claim;
  if (operation != kArpRequest) return std::nullopt;
  copy_out(frame, kEthernetBytes + 24, claim.address.bytes, 4);
  claim.only_asks = true;
  return claim;
}

std::optional<NeighborClaim> read_nd(std::span<const std::uint8_t> frame) {
  constexpr std::size_t kIp = kEthernetBytes, kMessage = kIp + 40;
  if (frame.size() < kNdBytes || frame[kIp + 6] != kIcmpv6 || frame[kIp + 7] != 255) return std::nullopt;
  const std::uint8_t type = frame[kMessage];
  if (type != kNeighborSolicitation && type != kNeighborAdvertisement) return std::nullopt;
  NeighborClaim claim{.address = {.family = net::Family::kIpv6, .bytes = {}}};
  copy_out(frame, 6, claim.mac, 6);  // Where there is no option, who sent it is who has it.
  const std::uint8_t option = type == kNeighborAdvertisement ? kOptionTargetMac : kOptionSourceMac;
  if (frame.size() >= kNdBytes + 8 && frame[kNdBytes] == option && frame[kNdBytes + 1] == 1) {
    copy_out(frame, kNdBytes + 2, claim.mac, 6);
  }
  if (type == kNeighborAdvertisement) {
    copy_out(frame, kMessage + 8, claim.address.bytes, 16);
    return claim;
  }
  copy_out(frame, kIp + 8, claim.address.bytes, 16);
  if (claim.address.bytes != std::array<std::uint8_t, 16>{}) return claim;
  copy_out(frame, kMessage + 8, claim.address.bytes, 16);
  claim.only_asks = true;
  return claim;
}

}  // namespace

Frame arp_request(const MacAddress& mac, const std::optional<net::IpAddress>& sender, const net::IpAddress& target) {
  Frame frame = ethernet(kBroadcast, mac, kEthertypeArp);
  put16(frame, 1);
  put16(frame, 0x0800);
  frame.push_back(6);
  frame.push_back(4);
  put16(frame, kArpRequest);
  put(frame, mac, mac.size());
  put(frame, sender.value_or(net::IpAddress{}).bytes, 4);
  frame.append(6, '\0');
  put(frame, target.bytes, 4);
  return frame;
}

Frame neighbor_solicitation(const MacAddress& mac, const std::optional<net::IpAddress>& sender,
                            const net::IpAddress& target) {
  // A question from :: must carry no source address option (RFC 4861, 4.3).
  const net::IpAddress from = sender.value_or(ipv6({}, {}));
  return nd_frame(solicited_node_mac(target), solicited_node(target), mac, from,
                  {.type = kNeighborSolicitation,
                   .flags = 0,
                   .target = target,
                   .option = sender ? kOptionSourceMac : std::uint8_t{0}});
}

Frame announcement(const MacAddress& mac, const net::IpAddress& address) {
  if (address.family == net::Family::kIpv4) return arp_request(mac, address, address);
  constexpr std::uint8_t kOverride = 0x20;
  return nd_frame(kAllNodesMac, ipv6({0xff, 0x02}, {1}), mac, address,
                  {.type = kNeighborAdvertisement, .flags = kOverride, .target = address, .option = kOptionTargetMac});
}

MacAddress solicited_node_mac(const net::IpAddress& address) {
  return {0x33, 0x33, 0xff, address.bytes[13], address.bytes[14], address.bytes[15]};
}

std::optional<NeighborClaim> read_claim(std::span<const std::uint8_t> frame) {
  if (frame.size() < kEthernetBytes) return std::nullopt;
  switch (frame[12] << 8 | frame[13]) {
    case kEthertypeArp: return read_arp(frame);
    case kEthertypeIpv6: return read_nd(frame);
    default: return std::nullopt;
  }
}

}  // namespace podlane::dp
