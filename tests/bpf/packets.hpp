// Packets as bytes, built field by field and independent of the product's own builder. Test code.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace podlane::test {

using Bytes = std::string;
using Mac = std::array<std::uint8_t, 6>;
using Ip = std::array<std::uint8_t, 16>;  // As the lane map has them: IPv4 mapped.

inline constexpr Mac kPeerMac = {0x02, 0, 0, 0, 0, 0x99};
inline constexpr Mac kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

Ip ip(const std::string& text);
Bytes mac_bytes(const Mac& mac);
Bytes ip_bytes(const Ip& ip);  // 4 or 16.

Bytes ethernet(const Mac& to, const Mac& from, std::uint16_t type, const Bytes& payload);
Bytes ipv4(const Ip& from, const Ip& to, std::uint8_t protocol, const Bytes& payload, std::uint16_t fragment = 0,
           const Bytes& options = {});
Bytes ipv6(const Ip& from, const Ip& to, std::uint8_t next, const Bytes& payload, std::uint8_t hops = 64);
Bytes udp(std::size_t payload_bytes = 20);
Bytes arp(std::uint16_t operation, const Mac& sender_mac, const Ip& sender, const Mac& target_mac, const Ip& target);
// type 135 or 136. option: 0, 1 (source) or 2 (target), with option_mac. The checksum is right for from and to.
Bytes nd(std::uint8_t type, std::uint8_t flags, const Ip& from, const Ip& to, const Ip& target, std::uint8_t option,
         const Mac& option_mac, std::uint8_t code = 0);

}  // namespace podlane::test
