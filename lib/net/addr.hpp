// IP addresses and prefixes as values. No I/O; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane::net {

enum class Family : std::uint8_t { kIpv4, kIpv6 };

inline constexpr int bits_of(Family family) {
  return family == Family::kIpv4 ? 32 : 128;
}

// Bytes in network order; an IPv4 address uses the first four, the rest is zero.
struct IpAddress {
  Family family = Family::kIpv4;
  std::array<std::uint8_t, 16> bytes{};

  std::size_t size() const { return family == Family::kIpv4 ? 4 : 16; }
  std::string to_string() const;
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;
};

// An address with its prefix length; host bits may be set.
struct IpPrefix {
  IpAddress address;
  int length = 0;

  Family family() const { return address.family; }
  IpPrefix network() const;  // Host bits cleared.
  bool contains(const IpAddress& other) const;
  std::string to_string() const;  // "10.9.0.5/24"
  friend auto operator<=>(const IpPrefix&, const IpPrefix&) = default;
};

Result<IpAddress> parse_ip(std::string_view text);        // "10.9.0.1", "fd00::1"; no brackets, no zone.
Result<IpPrefix> parse_ip_prefix(std::string_view text);  // "10.9.0.1/24"
inline IpPrefix host_prefix(const IpAddress& address) {
  return {address, bits_of(address.family)};
}

}  // namespace podlane::net
