#include "lib/podlane/packet.hpp"

#include <gtest/gtest.h>

#include "lib/podlane/checksum.hpp"
#include "tests/unit/relay/packets.hpp"

namespace podlane::test {
namespace {

TEST(ParseIp, FindsEachFault) {
  const Bytes v4 = make_packet(true, 17, 10), v6 = make_packet(false, 17, 10);
  const auto changed = [](Bytes packet, std::size_t at, std::uint8_t value) {
    packet[at] = value;
    return packet;
  };
  struct Row {
    const char* name;
    Bytes packet;
    IpFault fault;
  };
  const Row rows[] = {
      {"IPv4", v4, IpFault::kNone},
      {"IPv6", v6, IpFault::kNone},
      {"nothing", {}, IpFault::kNotIp},
      {"version 0", changed(v4, 0, 0x05), IpFault::kNotIp},
      {"version 15", changed(v4, 0, 0xf5), IpFault::kNotIp},
      {"IPv4 header of 16 bytes", changed(v4, 0, 0x44), IpFault::kMalformed},
      {"IPv4 header longer than the packet", changed(v4, 0, 0x4f), IpFault::kMalformed},
      {"IPv4 total longer than the packet", changed(v4, 3, 200), IpFault::kMalformed},
      {"IPv4 total shorter than the header", changed(v4, 3, 19), IpFault::kMalformed},
      {"IPv4 of 19 bytes", Bytes(v4.begin(), v4.begin() + 19), IpFault::kMalformed},
      {"IPv6 of 39 bytes", Bytes(v6.begin(), v6.begin() + 39), IpFault::kMalformed},
      {"IPv6 longer than the packet", changed(v6, 5, 200), IpFault::kMalformed},
      {"IPv4 with padding behind", [&] { Bytes p = v4; p.resize(60); return p; }(), IpFault::kNone},
  };
  for (const Row& row : rows) {
    IpView view;
    EXPECT_EQ(parse_ip_packet(row.packet, view), row.fault) << row.name;
    if (row.fault == IpFault::kNone) {
      EXPECT_LE(view.total_bytes, row.packet.size()) << row.name;
    }
  }
}

TEST(Checksum, AgreesWithThePlainSumAtEveryLength) {
  Bytes bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const std::uint16_t fast = checksum_fold(checksum_add(0, bytes.data(), length));
    const std::uint32_t swapped = static_cast<std::uint32_t>(fast >> 8 | (fast & 0xff) << 8);
    EXPECT_EQ(swapped % 0xffff, plain_sum(bytes.data(), length) % 0xffff) << length;
  }
}

TEST(Checksum, IsCompletedAndRecognisedWhereItIsPartial) {
  for (const bool is_v4 : {true, false}) {
    for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
      for (const std::size_t payload : {0UL, 1UL, 64UL, 1401UL}) {
        Bytes packet = make_packet(is_v4, protocol, payload);
        IpView view;
        ASSERT_EQ(parse_ip_packet(packet, view), IpFault::kNone);
        const auto partial = find_partial_checksum(packet.data(), view);
        ASSERT_TRUE(partial.has_value());
        ASSERT_TRUE(complete_checksum(packet, partial->start, partial->offset));
        EXPECT_EQ(l4_sum(packet, partial->start, protocol), 0xffffU) << is_v4 << int{protocol} << " " << payload;
        EXPECT_FALSE(find_partial_checksum(packet.data(), view).has_value());
      }
    }
  }
}

TEST(Checksum, StaysWithinThePacket) {
  Bytes packet = make_packet(true, 17, 0);
  EXPECT_FALSE(complete_checksum(packet, 20, 7));
  EXPECT_FALSE(complete_checksum(packet, 65535, 65535));
  EXPECT_TRUE(complete_checksum(packet, 20, 6));
}

}  // namespace
}  // namespace podlane::test
