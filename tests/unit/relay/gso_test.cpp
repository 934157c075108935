#include "lib/podlane/gso.hpp"

#include <gtest/gtest.h>

#include "lib/podlane/checksum.hpp"
#include "tests/unit/relay/packets.hpp"

namespace podlane::test {
namespace {

VnetHeader vnet_of(bool is_v4, std::uint8_t protocol, std::uint16_t gso_size) {
  VnetHeader vnet;
  vnet.flags = kVnetNeedsChecksum;
  vnet.gso_type = protocol == 17 ? 5 : is_v4 ? 1 : 4;
  vnet.gso_size = gso_size;
  vnet.csum_start = is_v4 ? 20 : 40;
  vnet.csum_offset = protocol == 17 ? 6 : 16;
  return vnet;
}

TEST(Gso, CutsIntoPacketsThatAWireWouldCarry) {
  struct Row {
    const char* name;
    bool is_v4;
    std::uint8_t protocol;
    std::size_t payload;
    std::uint16_t gso_size;
    std::uint32_t packets;
  };
  const Row rows[] = {
      {"one byte over", true, 6, 1461, 1460, 2},     {"exactly two", true, 6, 2920, 1460, 2},
      {"64 KiB TCP", true, 6, 65000, 1448, 45},      {"64 KiB TCP of IPv6", false, 6, 65000, 1428, 46},
      {"UDP", true, 17, 5000, 1472, 4},              {"UDP of IPv6, odd size", false, 17, 4001, 999, 5},
      {"fits in one", true, 17, 10, 1472, 1},        {"one byte each", true, 17, 70, 1, 70},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Bytes whole = make_packet(row.is_v4, row.protocol, row.payload);
    const auto cut = plan_gso(whole, vnet_of(row.is_v4, row.protocol, row.gso_size));
    ASSERT_TRUE(cut.has_value());
    ASSERT_EQ(cut->packets, row.packets);
    const std::size_t ip = row.is_v4 ? 20 : 40;
    std::size_t at = cut->header_bytes;
    for (std::uint32_t i = 0; i < cut->packets; ++i) {
      Bytes packet(gso_packet_bytes(*cut, i));
      write_gso_packet(*cut, whole, i, packet.data());
      const bool last = i + 1 == cut->packets;
      IpView view;
      ASSERT_EQ(parse_ip_packet(packet, view), IpFault::kNone);
      EXPECT_EQ(view.total_bytes, packet.size());
      if (row.is_v4) {
        EXPECT_EQ(plain_sum(packet.data(), 20), 0xffffU);
        EXPECT_EQ(get_be16(packet, 4), (0xfffeU + i) & 0xffff);  // Wraps.
      }
      EXPECT_EQ(l4_sum(packet, ip, row.protocol), 0xffffU);
      if (row.protocol == 6) {
        EXPECT_EQ(get_be16(packet, ip + 6), (0xffffU + i * row.gso_size) & 0xffff);  // Low half of the sequence number.
        EXPECT_EQ((packet[ip + 13] & 0x09) != 0, last) << "PSH and FIN belong to the last";
        EXPECT_EQ((packet[ip + 13] & 0x80) != 0, i == 0) << "CWR is said once";
      } else {
        EXPECT_EQ(get_be16(packet, ip + 4), packet.size() - ip);
      }
      EXPECT_TRUE(std::equal(packet.begin() + cut->header_bytes, packet.end(), whole.begin() + static_cast<long>(at)));
      at += packet.size() - cut->header_bytes;
    }
    EXPECT_EQ(at, whole.size());
  }
}

TEST(Gso, RefusesWhatDoesNotFitTogether) {
  const Bytes tcp = make_packet(true, 6, 3000);
  const VnetHeader good = vnet_of(true, 6, 1460);
  struct Row {
    const char* name;
    VnetHeader vnet;
    Bytes packet;
  };
  const auto with = [&](auto change) {
    VnetHeader vnet = good;
    change(vnet);
    return vnet;
  };
  const Row rows[] = {
      {"size 0", with([](VnetHeader& v) { v.gso_size = 0; }), tcp},
      {"no checksum start", with([](VnetHeader& v) { v.flags = 0; }), tcp},
      {"L4 within IP", with([](VnetHeader& v) { v.csum_start = 19; }), tcp},
      {"L4 behind the packet", with([](VnetHeader& v) { v.csum_start = 65535; }), tcp},
      {"other family", with([](VnetHeader& v) { v.gso_type = 4; }), tcp},
      {"UFO, never asked for", with([](VnetHeader& v) { v.gso_type = 3; }), tcp},
      {"only headers", good, make_packet(true, 6, 0)},
      {"cut short", good, Bytes(tcp.begin(), tcp.end() - 1)},
      {"TCP header of 16 bytes", good, [&] { Bytes p = tcp; p[32] = 4 << 4; return p; }()},
      {"a fragment", good, [&] { Bytes p = tcp; p[6] = 0x20; return p; }()},
  };
  for (const Row& row : rows) EXPECT_FALSE(plan_gso(row.packet, row.vnet).has_value()) << row.name;
}

}  // namespace
}  // namespace podlane::test
