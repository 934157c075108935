#include <algorithm>
#include <cstdio>

#include "deviceplugin/lanes/host_side.hpp"

namespace podlane::dp {

namespace {

constexpr std::uint32_t kEthernetHeaderBytes = 14;
// What AF_XDP takes off a frame before the packet: XDP's own headroom (net/xdp/xsk.c, xsk_rcv_check) and the headroom
// that a UMEM may ask for, at most 64 bytes with us.
constexpr std::uint32_t kXdpHeadroomBytes = 256;
constexpr std::uint32_t kUmemHeadroomBytes = 64;
// Native XDP without fragments holds a frame in one page, with its headroom and the skb_shared_info at the end. veth
// refuses 3507 where a page has 4096 bytes (drivers/net/veth.c, veth_xdp_set; seen on 6.18).
constexpr std::uint32_t kSinglePageMtu = 3506;

}  // namespace

std::string to_string(const MacAddress& mac) {
  char text[18];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return text;
}

std::optional<MacAddress> parse_mac(const std::string& text) {
  MacAddress mac{};
  int used = 0;
  const int read = std::sscanf(text.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%n", &mac[0], &mac[1], &mac[2], &mac[3],
                               &mac[4], &mac[5], &used);
  if (read != 6 || static_cast<std::size_t>(used) != text.size()) return std::nullopt;
  return mac;
}

std::uint32_t lane_mtu(std::uint32_t nic_mtu, std::uint32_t frame_size_bytes) {
  constexpr std::uint32_t kOverhead = kXdpHeadroomBytes + kUmemHeadroomBytes + kEthernetHeaderBytes;
  const std::uint32_t frame_mtu = frame_size_bytes > kOverhead ? frame_size_bytes - kOverhead : 0;
  return std::min({nic_mtu, frame_mtu, kSinglePageMtu});
}

}  // namespace podlane::dp
