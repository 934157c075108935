// lane_steer: packet in, verdict, packet out and counters, by the kernel's program test-run.
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <sys/socket.h>

#include <functional>

#include "tests/bpf/bench.hpp"

namespace podlane::test {
namespace {

constexpr std::uint32_t kQueueSlot = 11, kVethSlot = 12, kUnservedSlot = 13;
constexpr std::uint32_t kLaneQueue = 1;

struct Addresses {
  Ip queue4 = ip("10.9.0.5"), queue6 = ip("fd00:9::5");
  Ip veth4 = ip("10.9.0.6"), veth6 = ip("fd00:9::6");
  Ip unserved4 = ip("10.9.0.7");
  Ip peer4 = ip("10.9.0.99"), peer6 = ip("fd00:9::99");
  Ip host4 = ip("10.9.0.1"), host6 = ip("fd00:9::1");
  Ip any6 = ip("::"), all_nodes = ip("ff02::1"), group5 = ip("ff02::1:ff00:5"), group1 = ip("ff02::1:ff00:1");
};

class LaneSteer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    bench_ = new Bench();
    bench_->host().ip("link add vl0 type veth peer name vp0");
    bench_->host().ip("link set vl0 up");
    bench_->host().ip("link set vp0 up");
    const auto veth = static_cast<__u32>(bench_->device("vl0").value);
    const Addresses a;
    const lane_entry queue{.slot = kQueueSlot, .kind = LANE_KIND_QUEUE, .rx_queue = kLaneQueue, .veth_ifindex = 0};
    const lane_entry unserved{.slot = kUnservedSlot, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0};
    const lane_entry veth_lane{.slot = kVethSlot, .kind = LANE_KIND_VETH, .rx_queue = 0, .veth_ifindex = veth};
    for (const auto& [address, entry] : {std::pair(a.queue4, queue), std::pair(a.queue6, queue),
                                         std::pair(a.veth4, veth_lane), std::pair(a.veth6, veth_lane),
                                         std::pair(a.unserved4, unserved)}) {
      ASSERT_TRUE(bench_->steering().set_lane(bench_->nic(), address, entry));
    }
    // An unbound socket with a receive ring is enough for the map, and the test-run never delivers to it.
    socket_ = new UniqueFd(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    const int entries = 64;
    ASSERT_EQ(::setsockopt(socket_->get(), SOL_XDP, XDP_RX_RING, &entries, sizeof(entries)), 0);
    ASSERT_TRUE(bench_->steering().set_socket(LaneSlot(kQueueSlot), socket_->get()));
    program_ = new UniqueFd(bench_->lane_steer());
  }
  static void TearDownTestSuite() {
    delete program_;
    delete socket_;
    delete bench_;
  }

  struct Counts {
    std::array<std::array<std::uint64_t, LANE_COUNTER_COUNT>, 3> lanes;
    nic_counters nic;
  };
  static Counts counts() {
    Counts all{};
    for (std::uint32_t i = 0; i < 3; ++i) all.lanes[i] = *bench_->steering().counters(LaneSlot(kQueueSlot + i));
    all.nic = *bench_->steering().counters(bench_->nic());
    return all;
  }

  static inline Bench* bench_ = nullptr;
  static inline UniqueFd* socket_ = nullptr;
  static inline UniqueFd* program_ = nullptr;
};

// What must have been counted, once, and nothing else.
struct Counted {
  std::uint32_t slot = 0;  // 0: the NIC's.
  int counter = 0;         // enum lane_counter; for the NIC 0 passed, 1 malformed.
};
constexpr Counted kPassed{0, 0}, kMalformed{0, 1};

struct Case {
  const char* name;
  Bytes packet;
  std::uint32_t rx_queue;
  std::uint32_t verdict;
  Counted counted;
  std::optional<Bytes> out;  // Absent: unchanged.
};

std::vector<Case> cases(const Mac& nic) {
  const Addresses a;
  const Bytes to_queue4 = ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.queue4, 17, udp()));
  const Bytes to_queue6 = ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.queue6, 17, udp()));
  const Mac none{};
  const Mac group5{0x33, 0x33, 0xff, 0, 0, 5}, all_nodes{0x33, 0x33, 0, 0, 0, 1};
  const auto solicit = [&](const Ip& from, const Ip& to, const Ip& target, std::uint8_t option) {
    return ethernet(group5, kPeerMac, 0x86dd,
                    ipv6(from, to, 58, nd(135, 0, from, to, target, option, kPeerMac), 255));
  };
  const auto advert = [&](const Mac& to_mac, const Ip& to, const Ip& target, std::uint8_t flags) {
    return ethernet(to_mac, nic, 0x86dd, ipv6(target, to, 58, nd(136, flags, target, to, target, 2, nic), 255));
  };
  const auto ask = [&](const Mac& from, const Ip& sender, const Ip& target) {
    return ethernet(kBroadcastMac, from, 0x0806, arp(1, from, sender, none, target));
  };
  const auto vlan = [&](const Bytes& frame) { return frame.substr(0, 12) + Bytes("\x81\0\0\x05", 4) + frame.substr(12); };
  const Ip zero4 = ip("0.0.0.0");
  return {
      {"IPv4 to a queue lane", to_queue4, kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"IPv6 to a queue lane", to_queue6, kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"IPv4 with options", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.queue4, 17, udp(), 0, Bytes(8, '\1'))),
       kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"IPv4 first fragment", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.queue4, 17, udp(), 0x2000)), kLaneQueue,
       XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"IPv4 last fragment", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.queue4, 17, Bytes(7, 'y'), 0x0003)),
       kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"IPv6 fragment", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.queue6, 44, Bytes("\x11\0\0\0\0\0\0\1", 8))),
       kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"ICMPv6 echo to a lane", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.queue6, 58, Bytes("\x80\0\0\0\0\0\0\0", 8))),
       kLaneQueue, XDP_REDIRECT, {kQueueSlot, LANE_RX_FRAMES}, {}},
      {"wrong queue, IPv4", to_queue4, 0, XDP_DROP, {kQueueSlot, LANE_RX_WRONG_QUEUE}, {}},
      {"wrong queue, IPv6", to_queue6, 0, XDP_DROP, {kQueueSlot, LANE_RX_WRONG_QUEUE}, {}},
      {"no socket", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.unserved4, 6, udp())), 0, XDP_DROP,
       {kUnservedSlot, LANE_RX_NO_SOCKET}, {}},
      {"IPv4 to a veth lane", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.veth4, 17, udp())), 0, XDP_REDIRECT,
       {kVethSlot, LANE_RX_TO_VETH}, {}},
      {"IPv6 to a veth lane, any queue", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.veth6, 17, udp())), 1,
       XDP_REDIRECT, {kVethSlot, LANE_RX_TO_VETH}, {}},
      {"IPv4 to the host", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.host4, 17, udp())), 0, XDP_PASS, kPassed, {}},
      {"IPv6 to the host", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.host6, 17, udp())), 1, XDP_PASS, kPassed, {}},
      {"IPv4 from a lane's address to the host", ethernet(nic, kPeerMac, 0x0800, ipv4(a.queue4, a.host4, 17, udp())), 0,
       XDP_PASS, kPassed, {}},
      {"VLAN tag before a lane's address", vlan(to_queue4), kLaneQueue, XDP_PASS, kPassed, {}},
      {"another ethertype", ethernet(nic, kPeerMac, 0x88cc, Bytes(50, '\2')), 0, XDP_PASS, kPassed, {}},
      {"ARP request for a lane", ask(kPeerMac, a.peer4, a.queue4), 0, XDP_TX, {kQueueSlot, LANE_ARP_ANSWERED},
       ethernet(kPeerMac, nic, 0x0806, arp(2, nic, a.queue4, kPeerMac, a.peer4))},
      {"ARP request, unicast and padded",
       ethernet(nic, kPeerMac, 0x0806, arp(1, kPeerMac, a.peer4, nic, a.veth4) + Bytes(18, '\0')), 1, XDP_TX,
       {kVethSlot, LANE_ARP_ANSWERED},
       ethernet(kPeerMac, nic, 0x0806, arp(2, nic, a.veth4, kPeerMac, a.peer4) + Bytes(18, '\0'))},
      {"ARP probe for a lane", ask(kPeerMac, zero4, a.unserved4), 0, XDP_TX, {kUnservedSlot, LANE_ARP_ANSWERED},
       ethernet(kPeerMac, nic, 0x0806, arp(2, nic, a.unserved4, kPeerMac, zero4))},
      {"ARP request for the host", ask(kPeerMac, a.peer4, a.host4), 0, XDP_PASS, kPassed, {}},
      {"ARP announcement of a lane's address", ask(kPeerMac, a.queue4, a.queue4), 0, XDP_PASS, kPassed, {}},
      {"our own announcement come back", ask(nic, a.queue4, a.queue4), 0, XDP_PASS, kPassed, {}},
      {"our own request come back", ask(nic, a.queue4, a.veth4), 0, XDP_PASS, kPassed, {}},
      {"ARP request with a group sender", ask(kBroadcastMac, a.peer4, a.queue4), 0, XDP_PASS, kPassed, {}},
      {"ARP reply to a lane's address", ethernet(nic, kPeerMac, 0x0806, arp(2, kPeerMac, a.peer4, nic, a.queue4)), 0,
       XDP_PASS, kPassed, {}},
      {"solicitation for a lane", solicit(a.peer6, a.group5, a.queue6, 1), 0, XDP_TX, {kQueueSlot, LANE_NS_ANSWERED},
       advert(kPeerMac, a.peer6, a.queue6, 0x60)},
      {"solicitation, unicast, without option", solicit(a.peer6, a.queue6, a.queue6, 0), 1, XDP_TX,
       {kQueueSlot, LANE_NS_ANSWERED}, advert(kPeerMac, a.peer6, a.queue6, 0x60)},
      {"duplicate address detection", solicit(a.any6, a.group5, a.queue6, 0), 0, XDP_TX, {kQueueSlot, LANE_NS_ANSWERED},
       advert(all_nodes, a.all_nodes, a.queue6, 0x20)},
      {"duplicate address detection, unicast", solicit(a.any6, a.queue6, a.queue6, 0), 0, XDP_PASS, kPassed, {}},
      {"solicitation for the host", solicit(a.peer6, a.group1, a.host6, 1), 0, XDP_PASS, kPassed, {}},
      {"solicitation that was forwarded",
       ethernet(nic, kPeerMac, 0x86dd,
                ipv6(a.peer6, a.queue6, 58, nd(135, 0, a.peer6, a.queue6, a.queue6, 1, kPeerMac), 254)),
       0, XDP_PASS, kPassed, {}},
      {"solicitation with a code",
       ethernet(nic, kPeerMac, 0x86dd,
                ipv6(a.peer6, a.queue6, 58, nd(135, 0, a.peer6, a.queue6, a.queue6, 1, kPeerMac, 1), 255)),
       0, XDP_PASS, kPassed, {}},
      {"our own solicitation come back",
       ethernet(group5, nic, 0x86dd, ipv6(a.any6, a.group5, 58, nd(135, 0, a.any6, a.group5, a.queue6, 0, nic), 255)),
       0, XDP_PASS, kPassed, {}},
      {"advertisement to a lane's address",
       ethernet(nic, kPeerMac, 0x86dd,
                ipv6(a.peer6, a.queue6, 58, nd(136, 0x60, a.peer6, a.queue6, a.peer6, 2, kPeerMac), 255)),
       0, XDP_PASS, kPassed, {}},
      {"Ethernet header alone", ethernet(nic, kPeerMac, 0x0800, {}), 0, XDP_PASS, kMalformed, {}},
  };
}

class LaneSteerAnswers : public LaneSteer, public ::testing::WithParamInterface<bool> {};

// On a veth the answers leave by a redirect, on every other device by XDP_TX; the rest is the same.
TEST_P(LaneSteerAnswers, GivesTheVerdictOfTheTable) {
  bench_->answer_by_redirect(GetParam());
  std::vector<Case> rows = cases(bench_->nic_mac());
  for (Case& row : rows) {
    SCOPED_TRACE(row.name);
    if (GetParam() && row.verdict == XDP_TX) row.verdict = XDP_REDIRECT;
    const Counts before = counts();
    const auto outcome = bench_->run_xdp(program_->get(), row.packet, row.rx_queue);
    ASSERT_TRUE(outcome) << "the kernel refused the run: " << errno;
    EXPECT_EQ(outcome->verdict, row.verdict);
    EXPECT_EQ(outcome->packet, row.out.value_or(row.packet));
    Counts want = before;
    if (row.counted.slot == 0) {
      (row.counted.counter == 0 ? want.nic.passed : want.nic.malformed) += 1;
    } else {
      want.lanes[row.counted.slot - kQueueSlot][static_cast<std::size_t>(row.counted.counter)] += 1;
    }
    const Counts after = counts();
    EXPECT_EQ(after.lanes, want.lanes);
    EXPECT_EQ(after.nic.passed, want.nic.passed);
    EXPECT_EQ(after.nic.malformed, want.nic.malformed);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, LaneSteerAnswers, ::testing::Bool(), [](const auto& named) {
  return named.param ? "ByRedirect" : "ByTx";
});

// Cut at every length: what lacks a header it needs is passed untouched and counted, the rest behaves as when whole.
TEST_F(LaneSteer, PassesWhatIsCutShort) {
  bench_->answer_by_redirect(false);
  const Addresses a;
  const Mac nic = bench_->nic_mac();
  struct Row {
    const char* name;
    Bytes packet;
    std::size_t needs;
    std::uint32_t verdict;
  };
  const Mac group5{0x33, 0x33, 0xff, 0, 0, 5};
  const Row rows[] = {
      {"IPv4", ethernet(nic, kPeerMac, 0x0800, ipv4(a.peer4, a.queue4, 17, udp())), 34, XDP_REDIRECT},
      {"IPv6", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.queue6, 17, udp())), 54, XDP_REDIRECT},
      {"ICMPv6", ethernet(nic, kPeerMac, 0x86dd, ipv6(a.peer6, a.queue6, 58, Bytes("\x80\0\0\0\0\0\0\0", 8))), 55,
       XDP_REDIRECT},
      {"ARP", ethernet(kBroadcastMac, kPeerMac, 0x0806, arp(1, kPeerMac, a.peer4, Mac{}, a.queue4)), 42, XDP_TX},
      {"solicitation",
       ethernet(group5, kPeerMac, 0x86dd,
                ipv6(a.peer6, a.group5, 58, nd(135, 0, a.peer6, a.group5, a.queue6, 1, kPeerMac), 255)),
       78, XDP_TX},
  };
  for (const Row& row : rows) {
    for (std::size_t length = 14; length <= row.packet.size(); ++length) {
      SCOPED_TRACE(std::string(row.name) + " of " + std::to_string(length) + " bytes");
      const nic_counters before = *bench_->steering().counters(bench_->nic());
      const auto outcome = bench_->run_xdp(program_->get(), row.packet.substr(0, length), kLaneQueue);
      ASSERT_TRUE(outcome);
      const bool whole = length >= row.needs;
      EXPECT_EQ(outcome->verdict, whole ? row.verdict : static_cast<std::uint32_t>(XDP_PASS));
      if (!whole) {
        EXPECT_EQ(outcome->packet, row.packet.substr(0, length));
      }
      EXPECT_EQ(bench_->steering().counters(bench_->nic())->malformed, before.malformed + (whole ? 0 : 1));
    }
  }
}

TEST_F(LaneSteer, LeavesAloneWhatIsALanesOnAnotherNic) {
  const Addresses a;
  ASSERT_TRUE(bench_->steering().clear_lane(bench_->nic(), a.unserved4));
  const Bytes packet = ethernet(bench_->nic_mac(), kPeerMac, 0x0800, ipv4(a.peer4, a.unserved4, 17, udp()));
  const auto outcome = bench_->run_xdp(program_->get(), packet, 0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->verdict, static_cast<std::uint32_t>(XDP_PASS));
  const lane_entry elsewhere{.slot = kUnservedSlot, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0};
  ASSERT_TRUE(bench_->steering().set_lane(IfIndex(bench_->nic().value + 1000), a.unserved4, elsewhere));
  EXPECT_EQ(bench_->run_xdp(program_->get(), packet, 0)->verdict, static_cast<std::uint32_t>(XDP_PASS));
  ASSERT_TRUE(bench_->steering().set_lane(bench_->nic(), a.unserved4, elsewhere));
}

TEST_F(LaneSteer, CostsTheVerifierLittle) {
  const std::uint32_t instructions = Bench::verified_instructions(program_->get());
  std::printf("lane_steer: %u instructions verified\n", instructions);
  RecordProperty("verified_instructions", static_cast<int>(instructions));
  EXPECT_GT(instructions, 0U);
  EXPECT_LT(instructions, 10000U);
}

}  // namespace
}  // namespace podlane::test
