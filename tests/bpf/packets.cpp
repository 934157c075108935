#include "tests/bpf/packets.hpp"

#include <arpa/inet.h>

#include <cstring>
#include <stdexcept>

namespace podlane::test {

namespace {

void put16(Bytes& bytes, std::uint32_t value) {
  bytes.push_back(static_cast<char>(value >> 8));
  bytes.push_back(static_cast<char>(value));
}

std::uint16_t checksum(const Bytes& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    sum += i % 2 == 0 ? static_cast<std::uint32_t>(byte) << 8 : byte;
  }
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

Ip ip(const std::string& text) {
  Ip address{};
  if (text.find(':') != std::string::npos) {
    if (::inet_pton(AF_INET6, text.c_str(), address.data()) != 1) throw std::runtime_error(text);
    return address;
  }
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + 12) != 1) throw std::runtime_error(text);
  return address;
}

Bytes mac_bytes(const Mac& mac) { return Bytes(reinterpret_cast<const char*>(mac.data()), mac.size()); }

Bytes ip_bytes(const Ip& address) {
  const Bytes all(reinterpret_cast<const char*>(address.data()), address.size());
  const Bytes mapped = Bytes(10, '\0') + "\xff\xff";
  return all.starts_with(mapped) ? all.substr(12) : all;
}

Bytes ethernet(const Mac& to, const Mac& from, std::uint16_t type, const Bytes& payload) {
  Bytes frame = mac_bytes(to) + mac_bytes(from);
  put16(frame, type);
  return frame + payload;
}

Bytes ipv4(const Ip& from, const Ip& to, std::uint8_t protocol, const Bytes& payload, std::uint16_t fragment,
           const Bytes& options) {
  Bytes header;
  header.push_back(static_cast<char>(0x40 | (5 + options.size() / 4)));
  header.push_back(0);
  put16(header, static_cast<std::uint32_t>(20 + options.size() + payload.size()));
  put16(header, 7);
  put16(header, fragment);
  header.push_back(64);
  header.push_back(static_cast<char>(protocol));
  put16(header, 0);
  header += ip_bytes(from) + ip_bytes(to) + options;
  const std::uint16_t sum = checksum(header);
  header[10] = static_cast<char>(sum >> 8);
  header[11] = static_cast<char>(sum);
  return header + payload;
}

Bytes ipv6(const Ip& from, const Ip& to, std::uint8_t next, const Bytes& payload, std::uint8_t hops) {
  Bytes header("\x60\0\0\0", 4);
  put16(header, static_cast<std::uint32_t>(payload.size()));
  header.push_back(static_cast<char>(next));
  header.push_back(static_cast<char>(hops));
  return header + ip_bytes(from) + ip_bytes(to) + payload;
}

Bytes udp(std::size_t payload_bytes) {
  Bytes header;
  put16(header, 4000);
  put16(header, 4001);
  put16(header, static_cast<std::uint32_t>(8 + payload_bytes));
  put16(header, 0);
  return header + Bytes(payload_bytes, 'x');
}

Bytes arp(std::uint16_t operation, const Mac& sender_mac, const Ip& sender, const Mac& target_mac, const Ip& target) {
  Bytes message("\0\x01\x08\0\x06\x04", 6);
  put16(message, operation);
  return message + mac_bytes(sender_mac) + ip_bytes(sender) + mac_bytes(target_mac) + ip_bytes(target);
}

Bytes nd(std::uint8_t type, std::uint8_t flags, const Ip& from, const Ip& to, const Ip& target, std::uint8_t option,
         const Mac& option_mac, std::uint8_t code) {
  Bytes message;
  message.push_back(static_cast<char>(type));
  message.push_back(static_cast<char>(code));
  put16(message, 0);
  message.push_back(static_cast<char>(flags));
  message.append(3, '\0');
  message += ip_bytes(target);
  if (option != 0) {
    message.push_back(static_cast<char>(option));
    message.push_back(1);
    message += mac_bytes(option_mac);
  }
  Bytes pseudo = ip_bytes(from) + ip_bytes(to);
  put16(pseudo, 0);
  put16(pseudo, static_cast<std::uint32_t>(message.size()));
  put16(pseudo, 0);
  put16(pseudo, 58);
  const std::uint16_t sum = checksum(pseudo + message);
  message[2] = static_cast<char>(sum >> 8);
  message[3] = static_cast<char>(sum);
  return message;
}

}  // namespace podlane::test
