// Frames on their way through both kinds of lanes, over a real (veth) NIC with native XDP.
#include <gtest/gtest.h>

#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

using std::chrono::seconds;

TEST(QueueLane, GetsItsFramesAndItsArpIsAnswered) {
  Node node;
  RawXsk socket;
  socket.set_up(node.nic().value, 0);
  bpf::Steering& steering = node.steering();
  ASSERT_TRUE(steering.set_socket(LaneSlot(3), socket.fd()));
  for (const char* address : {"10.9.0.5", "fd00:9::5"}) {
    const lane_entry lane{.slot = 3, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0};
    ASSERT_TRUE(steering.set_lane(node.nic(), ip(address), lane));
    SCOPED_TRACE(address);
    ASSERT_TRUE(node.send_from_far(address, "hello lane"));
    const auto frames = collect(socket, "hello lane");
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].substr(0, 6), mac_bytes(node.nic_mac()));
    EXPECT_EQ(node.far_neighbor(address), dp::to_string(node.nic_mac()));
  }
  const auto counts = *steering.counters(LaneSlot(3));
  EXPECT_GE(counts[LANE_RX_FRAMES], 2U);
  EXPECT_GE(counts[LANE_ARP_ANSWERED], 1U);
  EXPECT_GE(counts[LANE_NS_ANSWERED], 1U);
  ASSERT_TRUE(steering.clear_counters(LaneSlot(3)));
  EXPECT_EQ(*steering.counters(LaneSlot(3)), (std::array<std::uint64_t, LANE_COUNTER_COUNT>{}));
}

TEST(QueueLane, DropsAndCountsWhenNobodyServesIt) {
  Node node;
  bpf::Steering& steering = node.steering();
  node.host().ip("addr add 10.9.0.5/24 dev nic0");  // Were it passed up, the host would hear it.
  ASSERT_TRUE(steering.set_lane(node.nic(), ip("10.9.0.5"),
                                {.slot = 4, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0}));
  UdpEar ear(node.host(), 4001);
  ASSERT_TRUE(node.send_from_far("10.9.0.5", "into the void"));
  EXPECT_TRUE(eventually(seconds(2), [&] { return (*steering.counters(LaneSlot(4)))[LANE_RX_NO_SOCKET] == 1; }));
  EXPECT_EQ(ear.hear(), "");
  ASSERT_TRUE(steering.clear_lane(node.nic(), ip("10.9.0.5")));
  ASSERT_TRUE(steering.clear_lane(node.nic(), ip("10.9.0.5"))) << "clearing twice is success";
  ASSERT_TRUE(node.send_from_far("10.9.0.5", "to the host"));
  EXPECT_TRUE(eventually(seconds(2), [&] { return ear.hear() == "to the host"; }));
  EXPECT_GE(steering.counters(node.nic())->passed, 1U);
}

TEST(VethLane, ReceivesAndSends) {
  Node node;
  const auto pod = node.add_veth_pod(5, {"10.9.0.6", "fd00:9::6"});
  UdpEar ear(node.far(), 4002);
  for (const char* address : {"10.9.0.6", "fd00:9::6"}) {
    SCOPED_TRACE(address);
    ASSERT_TRUE(node.send_from_far(address, "hello pod"));
    EXPECT_EQ(collect(*pod->socket, "hello pod").size(), 1U);
    EXPECT_EQ(node.far_neighbor(address), dp::to_string(node.nic_mac()));
  }
  pod->socket->send(ethernet(node.far_mac(), node.nic_mac(), 0x0800,
                             ipv4(ip("10.9.0.6"), ip("10.9.0.99"), 17, udp_text("hello far", 4002))));
  EXPECT_TRUE(eventually(seconds(2), [&] { return ear.hear() == "hello far"; }));
  const auto counts = *node.steering().counters(pod->slot);
  EXPECT_GE(counts[LANE_RX_TO_VETH], 2U);
  EXPECT_EQ(counts[LANE_RX_TO_VETH], counts[LANE_RX_FRAMES]);
  EXPECT_EQ(counts[LANE_TX_FRAMES], 1U);
  EXPECT_EQ(counts[LANE_TX_BAD_SOURCE], 0U);
}

TEST(VethLane, CannotSendUnderAForeignAddress) {
  Node node;
  const auto pod = node.add_veth_pod(5, {"10.9.0.6"});
  UdpEar ear(node.far(), 4002);
  const auto send_as = [&](const char* source, const char* text) {
    pod->socket->send(ethernet(node.far_mac(), node.nic_mac(), 0x0800,
                               ipv4(ip(source), ip("10.9.0.99"), 17, udp_text(text, 4002))));
  };
  send_as("10.9.0.7", "forged");
  send_as("10.9.0.6", "honest");
  std::string heard;
  EXPECT_TRUE(eventually(seconds(2), [&] { return !(heard = ear.hear()).empty(); }));
  EXPECT_EQ(heard, "honest");
  EXPECT_EQ((*node.steering().counters(pod->slot))[LANE_TX_BAD_SOURCE], 1U);
}

TEST(VethLane, ReachesItsNeighbourWithoutTheWire) {
  Node node;
  const auto one = node.add_veth_pod(5, {"10.9.0.6"}), other = node.add_veth_pod(6, {"10.9.0.7"});
  ASSERT_TRUE(node.steering().set_lane(node.nic(), ip("10.9.0.8"),
                                       {.slot = 7, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0}));
  const auto to = [&](const char* destination, const char* text) {
    one->socket->send(ethernet(node.nic_mac(), node.nic_mac(), 0x0800,
                               ipv4(ip("10.9.0.6"), ip(destination), 17, udp_text(text))));
  };
  to("10.9.0.7", "good morning");
  const auto frames = collect(*other->socket, "good morning");
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].substr(0, 12), mac_bytes(node.nic_mac()) + mac_bytes(node.nic_mac()));
  EXPECT_EQ((*node.steering().counters(other->slot))[LANE_RX_TO_VETH], 0U);
  to("10.9.0.8", "to a queue lane");
  EXPECT_TRUE(eventually(seconds(2), [&] {
    return (*node.steering().counters(one->slot))[LANE_TX_SAME_NODE_QUEUE] == 1;
  }));
}

}  // namespace
}  // namespace podlane::test
