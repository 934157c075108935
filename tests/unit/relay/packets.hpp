// Packets for the unit tests, and an independent check of their checksums (byte by byte, RFC 1071).
#pragma once

#include <cstdint>
#include <vector>

namespace podlane::test {

using Bytes = std::vector<std::uint8_t>;

inline void put_be16(Bytes& packet, std::size_t at, std::uint32_t value) {
  packet[at] = static_cast<std::uint8_t>(value >> 8);
  packet[at + 1] = static_cast<std::uint8_t>(value);
}
inline std::uint32_t get_be16(const Bytes& packet, std::size_t at) { return packet[at] << 8 | packet[at + 1]; }

inline std::uint32_t plain_sum(const std::uint8_t* bytes, std::size_t length, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < length; ++i) {
    sum += i % 2 == 0 ? static_cast<std::uint32_t>(bytes[i]) << 8 : bytes[i];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// Sum over pseudo header and L4: 0xffff when the checksum is right.
inline std::uint32_t l4_sum(const Bytes& packet, std::size_t l4, std::uint8_t protocol) {
  const bool is_v4 = packet[0] >> 4 == 4;
  std::uint32_t sum = is_v4 ? plain_sum(&packet[12], 8) : plain_sum(&packet[8], 32);
  const std::size_t length = packet.size() - l4;
  const std::uint8_t tail[4] = {static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length), 0, protocol};
  return plain_sum(&packet[l4], length, plain_sum(tail, 4, sum));
}

// TCP or UDP over IPv4 or IPv6, payload counting up; the checksum field holds the pseudo header's sum, as a sender leaves
// it that counts on its device.
inline Bytes make_packet(bool is_v4, std::uint8_t protocol, std::size_t payload) {
  const std::size_t ip = is_v4 ? 20 : 40, l4 = protocol == 6 ? 20 : 8;
  Bytes packet(ip + l4 + payload);
  packet[0] = is_v4 ? 0x45 : 0x60;
  if (is_v4) {
    put_be16(packet, 2, static_cast<std::uint32_t>(packet.size()));
    put_be16(packet, 4, 0xfffe);
    packet[8] = 64;
    packet[9] = protocol;
    for (std::size_t i = 12; i < 20; ++i) packet[i] = static_cast<std::uint8_t>(10 + i);
  } else {
    put_be16(packet, 4, static_cast<std::uint32_t>(packet.size() - 40));
    packet[6] = protocol;
    packet[7] = 64;
    for (std::size_t i = 8; i < 40; ++i) packet[i] = static_cast<std::uint8_t>(200 + i);
  }
  for (std::size_t i = ip; i < packet.size(); ++i) packet[i] = static_cast<std::uint8_t>(i * 7);
  if (protocol == 6) {
    packet[ip + 12] = 5 << 4;
    packet[ip + 13] = 0x80 | 0x10 | 0x08 | 0x01;  // CWR, ACK, PSH, FIN
    for (std::size_t i = 4; i < 8; ++i) packet[ip + i] = 0xff;
  } else {
    put_be16(packet, ip + 4, static_cast<std::uint32_t>(8 + payload));
  }
  const std::size_t field = ip + (protocol == 6 ? 16 : 6);
  put_be16(packet, field, 0);
  const std::size_t length = packet.size() - ip;
  const std::uint8_t tail[4] = {static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length), 0, protocol};
  put_be16(packet, field, plain_sum(tail, 4, is_v4 ? plain_sum(&packet[12], 8) : plain_sum(&packet[8], 32)));
  return packet;
}

}  // namespace podlane::test
