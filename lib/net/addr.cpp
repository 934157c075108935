#include "lib/net/addr.hpp"

#include <arpa/inet.h>

#include <charconv>

namespace podlane::net {

namespace {

int af_of(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}

}  // namespace

std::string IpAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(af_of(family), bytes.data(), text, sizeof(text));
  return text;
}

IpPrefix IpPrefix::network() const {
  IpPrefix cleared = *this;
  for (std::size_t i = 0; i < cleared.address.size(); ++i) {
    const int kept = length - static_cast<int>(i) * 8;  // Bits of this byte that belong to the network.
    if (kept >= 8) continue;
    cleared.address.bytes[i] &= static_cast<std::uint8_t>(kept <= 0 ? 0 : 0xff << (8 - kept));
  }
  return cleared;
}

bool IpPrefix::contains(const IpAddress& other) const {
  return other.family == family() && IpPrefix{other, length}.network() == network();
}

std::string IpPrefix::to_string() const {
  return address.to_string() + "/" + std::to_string(length);
}

Result<IpAddress> parse_ip(std::string_view text) {
  const std::string copy(text);
  IpAddress address;
  address.family = text.find(':') == std::string_view::npos ? Family::kIpv4 : Family::kIpv6;
  if (copy.find('\0') != std::string::npos ||
      ::inet_pton(af_of(address.family), copy.c_str(), address.bytes.data()) != 1) {
    return fail(Errc::kInvalid, "'" + copy + "' is not an IP address such as 10.9.0.5 or fd00::5");
  }
  return address;
}

Result<IpPrefix> parse_ip_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return fail(Errc::kInvalid,
                "'" + std::string(text) + "' must be an address with its prefix length, such as 10.9.0.5/24");
  }
  IpPrefix prefix;
  PODLANE_TRY_ASSIGN(prefix.address, parse_ip(text.substr(0, slash)));
  const std::string_view length = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), prefix.length);
  if (error != std::errc() || end != length.data() + length.size() || length.front() == '-' || prefix.length < 0 ||
      prefix.length > bits_of(prefix.family())) {
    return fail(Errc::kInvalid, "'" + std::string(text) + "': prefix length '" + std::string(length) +
                                    "' must be a number from 0 to " + std::to_string(bits_of(prefix.family())));
  }
  return prefix;
}

}  // namespace podlane::net
