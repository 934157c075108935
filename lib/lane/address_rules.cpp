#include "lib/lane/address_rules.hpp"

#include <algorithm>
#include <span>

namespace podlane::lane {

using net::Family;

namespace {

bool all_zero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool is_broadcast(const net::IpPrefix& prefix) {
  for (int bit = prefix.length; bit < net::bits_of(prefix.family()); ++bit) {
    if ((prefix.address.bytes[static_cast<std::size_t>(bit) / 8] & (0x80U >> (bit % 8))) == 0) return false;
  }
  return true;
}

std::string_view why_not_unicast(const net::IpAddress& address) {
  const std::span<const std::uint8_t> bytes(address.bytes.data(), address.size());
  if (all_zero(bytes)) return "the unspecified address";
  if (address.family == Family::kIpv4) {
    if (bytes[0] == 127) return "a loopback address";
    if (bytes[0] >= 224 && bytes[0] < 240) return "a multicast address";
    if (bytes[0] >= 240 || bytes[0] == 0) return "a reserved address";
    return {};
  }
  if (bytes[0] == 0xff) return "a multicast address";
  if (!all_zero(bytes.first(10))) return {};
  // lane_abi.h keys IPv4 lanes as mapped addresses, so that a mapped one would shadow another lane's.
  if (bytes[10] == 0xff && bytes[11] == 0xff) return "an IPv4 address in IPv6 form (write it as IPv4)";
  if (all_zero(bytes.first(15)) && bytes[15] == 1) return "a loopback address";
  return {};
}

}  // namespace

bool has_host_bits(const net::IpPrefix& prefix) {
  return prefix.network() != prefix;
}

std::string_view why_not_a_host(const net::IpPrefix& prefix) {
  if (const std::string_view why = why_not_unicast(prefix.address); !why.empty()) return why;
  // A point-to-point prefix has neither network address nor broadcast (RFC 3021, RFC 6164).
  if (prefix.length + 2 > net::bits_of(prefix.family())) return {};
  if (!has_host_bits(prefix)) return "the network address of its prefix";
  if (prefix.family() == Family::kIpv4 && is_broadcast(prefix)) return "the broadcast address of its prefix";
  return {};
}

std::optional<std::uint32_t> parse_decimal(std::string_view text) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text[0] == '0')) return {};
  std::uint32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number;
}

}  // namespace podlane::lane
