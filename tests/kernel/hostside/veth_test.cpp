// The lane's veth pair itself, and what checksums do on its way.
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/net/ethtool.hpp"
#include "lib/net/veth_pair.hpp"
#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

using net::Offload;
using std::chrono::seconds;

TEST(MakeVethLane, GivesAPlainPairWithOneQueueAndNoAddress) {
  Node node;
  ScratchNetns pod("plhp");
  const std::string name = random_name("plv");
  const auto lane = dp::make_veth_lane(pod.fd(), name, "lane0v", "feed-7", LaneSlot(77));
  ASSERT_TRUE(lane) << lane.error().message();
  const auto closed = dp::check_veth_lane_is_open(lane->host_end, 1400);
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message().find("its host end is down"), std::string::npos) << closed.error().message();
  for (int round = 0; round < 2; ++round) must(net::open_veth_pair({lane->host_end, lane->pod_end}, pod.fd(), 1400));
  must(dp::check_veth_lane_is_open(lane->host_end, 1400));
  EXPECT_FALSE(dp::check_veth_lane_is_open(lane->host_end, 1401));
  const auto check = [](IfIndex index) {
    auto netlink = must(net::RtNetlink::open());
    const net::Link link = must(netlink.link_by_index(index));
    EXPECT_EQ(link.kind, "veth");
    EXPECT_EQ(link.mtu, 1400U);
    EXPECT_EQ(link.rx_queues, 1U);
    EXPECT_EQ(link.tx_queues, 1U);
    EXPECT_TRUE(link.up);
    EXPECT_TRUE(link.no_address_generation);
    EXPECT_TRUE(must(netlink.addresses(index)).empty());
    for (const Offload offload : {Offload::kTxChecksum, Offload::kTso, Offload::kGso}) {
      EXPECT_FALSE(must(net::offload_in_force(link.name, offload)));
    }
  };
  check(lane->host_end);
  EXPECT_EQ(lane->pod_end.value & (LANE_SLOTS - 1), 77);
  EXPECT_TRUE((lane->pod_end.value & LANE_IFINDEX_POD) != 0 && (lane->host_end.value & LANE_IFINDEX_HOST) != 0);
  pod.inside([&] {
    check(lane->pod_end);
    EXPECT_TRUE(must(net::offload_in_force("lane0v", Offload::kGro)));
  });
  const std::vector<std::pair<IfIndex, std::string>> ours = {{lane->host_end, "feed-7"}};
  EXPECT_EQ(must(dp::our_veths()), ours);

  const auto twice = dp::make_veth_lane(pod.fd(), name, "lane1v", "feed-8", LaneSlot(78));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), Errc::kExists) << twice.error().message();
  const auto taken = dp::make_veth_lane(pod.fd(), random_name("plv"), "lane0v", "feed-8", LaneSlot(78));
  EXPECT_FALSE(taken);
  EXPECT_EQ(must(dp::our_veths()), ours) << "a failed attempt leaves nothing";

  ASSERT_TRUE(dp::delete_link(lane->host_end));
  ASSERT_TRUE(dp::delete_link(lane->host_end)) << "gone already is success";
  EXPECT_TRUE(must(dp::our_veths()).empty());
}

TEST(MakeVethLane, WorksWithAnMtuThatIpv6DoesNotLike) {
  Node node;
  ScratchNetns pod("plhp");
  const auto lane = dp::make_veth_lane(pod.fd(), random_name("plv"), "lane0v", "feed-7", LaneSlot(7));
  ASSERT_TRUE(lane) << lane.error().message();
  must(net::open_veth_pair({lane->host_end, lane->pod_end}, pod.fd(), 1000));
  must(dp::check_veth_lane_is_open(lane->host_end, 1000));
}

// What moves the memory of IPv6 to whoever opens: nothing of it is there before.
TEST(MakeVethLane, HasNoIpv6StateBeforeItIsOpened) {
  Node node;
  ScratchNetns pod("plhp");
  const auto lane = must(dp::make_veth_lane(pod.fd(), random_name("plv"), "lane0v", "feed-7", LaneSlot(7)));
  const auto has_ipv6 = [&] {
    bool there = false;
    pod.inside([&] { there = ::access("/proc/thread-self/net/dev_snmp6/lane0v", F_OK) == 0; });
    return there;
  };
  EXPECT_FALSE(has_ipv6());
  must(net::open_veth_pair({lane.host_end, lane.pod_end}, pod.fd(), 1400));
  EXPECT_TRUE(has_ipv6());
}

TEST(AttachVethPodEnd, RefusesAnInterfaceNumberThatDoesNotHoldTheSlot) {
  Node node;
  ScratchNetns pod("plhp");
  const auto lane = must(dp::make_veth_lane(pod.fd(), random_name("plv"), "lane0v", "feed-7", LaneSlot(7)));
  EXPECT_TRUE(node.steering().attach_veth_pod_end(pod.fd(), lane.pod_end, LaneSlot(7)));
  for (const auto& [end, slot] : {std::pair(lane.pod_end, LaneSlot(8)), std::pair(IfIndex(7), LaneSlot(7)),
                                  std::pair(lane.pod_end, LaneSlot(LANE_SLOTS + 7))}) {
    const auto refused = node.steering().attach_veth_pod_end(pod.fd(), end, slot);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::kInvalid) << refused.error().message();
  }
}

TEST(LaneMtu, FitsNicFrameAndPage) {
  struct Row {
    const char* name;
    std::uint32_t nic, frame, want;
  };
  for (const Row& row : {Row{"plain", 1500, 2048, 1500}, Row{"a jumbo NIC, 2 KiB frames", 9000, 2048, 1714},
                         Row{"a jumbo NIC, 4 KiB frames", 9000, 4096, 3506}, Row{"a small NIC", 1280, 4096, 1280}}) {
    EXPECT_EQ(dp::lane_mtu(row.nic, row.frame), row.want) << row.name;
  }
  // Both sides of the limit on this kernel.
  Node node;
  const auto pod = node.add_veth_pod(5, {});
  auto netlink = must(net::RtNetlink::open());
  net::LinkChange change;
  change.mtu = dp::lane_mtu(9000, 4096);
  EXPECT_TRUE(netlink.set_link(pod->lane.host_end, change));
}

TEST(NicFacts, TellsWhatTheNicIs) {
  Node node;
  const auto facts = dp::nic_facts("nic0", "/sys");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->name, "nic0");
  EXPECT_EQ(facts->mtu, 1500U);
  EXPECT_EQ(facts->rx_queues, 1U);
  EXPECT_TRUE(facts->up);
  EXPECT_EQ(facts->pci_id, "");
  EXPECT_NE(node.host().ip("link show nic0").find(dp::to_string(facts->mac)), std::string::npos);
  EXPECT_EQ(dp::parse_mac(dp::to_string(facts->mac)), facts->mac);
  EXPECT_EQ(dp::parse_mac("02:00:00:00:00"), std::nullopt);
  EXPECT_EQ(dp::nic_facts("nobody", "/sys").error().code(), Errc::kNotFound);
  EXPECT_EQ(dp::nic_facts("lo", "/sys").has_value(), true) << "lo has a MAC of zeroes: the inventory refuses it";
}

// The sum over pseudo header and UDP datagram of an IPv4 frame: 0xffff when right.
std::uint32_t udp_sum(const std::string& frame) {
  const std::string datagram = frame.substr(34);
  std::string all = frame.substr(26, 8) + std::string("\0\x11", 2);
  all.push_back(static_cast<char>(datagram.size() >> 8));
  all.push_back(static_cast<char>(datagram.size()));
  all += datagram;
  if (all.size() % 2 != 0) all.push_back('\0');
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    sum += static_cast<std::uint32_t>(static_cast<std::uint8_t>(all[i]) << 8 | static_cast<std::uint8_t>(all[i + 1]));
  }
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return sum;
}

std::string cut_to_ip(const std::string& frame) {
  const auto length =
      static_cast<std::size_t>(static_cast<std::uint8_t>(frame[16]) << 8 | static_cast<std::uint8_t>(frame[17]));
  return frame.substr(0, 14 + length);
}

// XDP cannot see that a checksum is still to be done: what a sender with offload leaves open arrives open.
TEST(Checksums, ArriveWholeOnlyFromASenderWithoutOffload) {
  Node node;
  const auto pod = node.add_veth_pod(5, {"10.9.0.6"});
  for (const bool offload : {false, true}) {
    must_run("ip netns exec " + node.far().name() + " ethtool -K far0 tx " + (offload ? "on" : "off"));
    ASSERT_TRUE(node.send_from_far("10.9.0.6", "sum it up"));
    const auto frames = collect(*pod->socket, "sum it up");
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(udp_sum(cut_to_ip(frames[0])) == 0xffff, !offload) << "offload " << offload;
  }
}

// The other way: what the pod's kernel itself sends out of the pod's end is whole when it reaches the wire.
TEST(Checksums, LeaveThePodWhole) {
  Node node;
  const auto pod = node.add_veth_pod(5, {"10.9.0.6"});
  pod->netns.ip("addr add 10.9.0.6/24 dev lane0v");
  pod->netns.ip("neigh add 10.9.0.99 lladdr " + dp::to_string(node.far_mac()) + " dev lane0v");
  UniqueFd ear;
  node.far().inside([&] {
    ear.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_IP)));
    ASSERT_TRUE(ear.valid());
  });
  pod->netns.inside([&] {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(4002);
    to.sin_addr.s_addr = htonl(0x0a090063);
    ASSERT_GT(::sendto(socket.get(), "by the kernel", 13, 0, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  });
  std::string frame(2048, '\0');
  ASSERT_TRUE(eventually(seconds(2), [&] {
    const ssize_t n = ::recv(ear.get(), frame.data(), frame.size(), 0);
    return n > 0 && frame.find("by the kernel") != std::string::npos;
  }));
  EXPECT_EQ(udp_sum(cut_to_ip(frame)), 0xffffU);
  EXPECT_EQ(frame.substr(6, 6), mac_bytes(node.nic_mac()));
}

}  // namespace
}  // namespace podlane::test
