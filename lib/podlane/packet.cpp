#include "lib/podlane/packet.hpp"

#include <cstring>

#include "lib/podlane/checksum.hpp"

namespace podlane {

namespace {

constexpr std::size_t kIpv4HeaderMin = 20;
constexpr std::size_t kIpv6Header = 40;

std::uint16_t read_be16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

IpFault parse_v4(std::span<const std::uint8_t> packet, IpView& view) {
  if (packet.size() < kIpv4HeaderMin) return IpFault::kMalformed;
  view.is_v4 = true;
  view.header_bytes = static_cast<std::uint16_t>((packet[0] & 0x0f) * 4);
  view.total_bytes = read_be16(&packet[2]);
  if (view.header_bytes < kIpv4HeaderMin || view.total_bytes < view.header_bytes || view.total_bytes > packet.size()) {
    return IpFault::kMalformed;
  }
  view.protocol = packet[9];
  view.is_fragment = (read_be16(&packet[6]) & 0x3fff) != 0;  // More-fragments flag or an offset.
  return IpFault::kNone;
}

IpFault parse_v6(std::span<const std::uint8_t> packet, IpView& view) {
  if (packet.size() < kIpv6Header) return IpFault::kMalformed;
  view.is_v4 = false;
  view.header_bytes = kIpv6Header;
  view.total_bytes = static_cast<std::uint32_t>(kIpv6Header) + read_be16(&packet[4]);
  if (view.total_bytes > packet.size()) return IpFault::kMalformed;
  view.protocol = packet[6];
  view.is_fragment = false;
  return IpFault::kNone;
}

}  // namespace

IpKey ip_key_v4(const std::uint8_t* address) {
  std::array<std::uint8_t, 16> bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(&bytes[12], address, 4);
  return ip_key_v6(bytes.data());
}

IpKey ip_key_v6(const std::uint8_t* address) {
  IpKey key;
  std::memcpy(&key.high, address, 8);
  std::memcpy(&key.low, address + 8, 8);
  return key;
}

std::array<std::uint8_t, 16> ip_key_bytes(const IpKey& key) {
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &key.high, 8);
  std::memcpy(bytes.data() + 8, &key.low, 8);
  return bytes;
}

IpFault parse_ip_packet(std::span<const std::uint8_t> packet, IpView& view) {
  if (packet.empty()) return IpFault::kNotIp;
  switch (packet[0] >> 4) {
    case 4: return parse_v4(packet, view);
    case 6: return parse_v6(packet, view);
    default: return IpFault::kNotIp;
  }
}

IpKey destination_of(const std::uint8_t* packet, const IpView& view) {
  return view.is_v4 ? ip_key_v4(packet + 16) : ip_key_v6(packet + 24);
}

std::uint64_t pseudo_header_sum(const std::uint8_t* packet, const IpView& view, std::uint8_t protocol,
                                std::uint32_t l4_bytes) {
  // Addresses, then length and protocol as big-endian words, added in the machine's order as checksum.hpp wants it.
  const std::uint8_t tail[8] = {static_cast<std::uint8_t>(l4_bytes >> 24), static_cast<std::uint8_t>(l4_bytes >> 16),
                                static_cast<std::uint8_t>(l4_bytes >> 8),  static_cast<std::uint8_t>(l4_bytes),
                                0,  0, 0,  protocol};
  std::uint64_t sum = view.is_v4 ? checksum_add(0, packet + 12, 8) : checksum_add(0, packet + 8, 32);
  return checksum_add(sum, tail, sizeof(tail));
}

std::optional<L4Checksum> find_partial_checksum(const std::uint8_t* packet, const IpView& view) {
  if (view.is_fragment) return std::nullopt;
  const std::uint32_t l4_bytes = view.total_bytes - view.header_bytes;
  L4Checksum field{view.header_bytes, 0};
  if (view.protocol == kProtocolUdp && l4_bytes >= 8) field.offset = 6;
  else if (view.protocol == kProtocolTcp && l4_bytes >= 20) field.offset = 16;
  else return std::nullopt;
  std::uint16_t stored;
  std::memcpy(&stored, packet + field.start + field.offset, 2);
  if (stored == 0) return std::nullopt;  // UDP over IPv4 without a checksum.
  if (stored != checksum_fold(pseudo_header_sum(packet, view, view.protocol, l4_bytes))) return std::nullopt;
  return field;
}

bool complete_checksum(std::span<std::uint8_t> packet, std::uint16_t start, std::uint16_t offset) {
  const std::size_t field = std::size_t{start} + offset;
  if (field + 2 > packet.size()) return false;
  const std::uint64_t sum = checksum_add(0, packet.data() + start, packet.size() - start);
  std::uint16_t checksum = static_cast<std::uint16_t>(~checksum_fold(sum));
  if (checksum == 0) checksum = 0xffff;  // 0 would mean "none" in UDP; for TCP both mean the same.
  std::memcpy(packet.data() + field, &checksum, 2);
  return true;
}

}  // namespace podlane
