// What an address on a lane may be; shared by annotations and the configuration. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/net/addr.hpp"

namespace podlane::lane {

bool has_host_bits(const net::IpPrefix& prefix);

// Can a host own this address? Empty: yes. Otherwise why not ("a multicast address", …).
std::string_view why_not_a_host(const net::IpPrefix& prefix);

// A decimal number without sign, blanks or leading zeros, at most 9 digits. Empty when it is not one.
std::optional<std::uint32_t> parse_decimal(std::string_view text);

}  // namespace podlane::lane
