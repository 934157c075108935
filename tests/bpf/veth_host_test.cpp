// veth_host: what a veth lane's pod may send, by the kernel's program test-run.
#include <gtest/gtest.h>
#include <linux/pkt_cls.h>

#include "tests/bpf/bench.hpp"

namespace podlane::test {
namespace {

constexpr std::uint32_t kOwnSlot = 21, kNeighborSlot = 22, kQueueSlot = 23;

struct Addresses {
  Ip own4 = ip("10.9.0.5"), own6 = ip("fd00:9::5");
  Ip neighbor4 = ip("10.9.0.6"), neighbor6 = ip("fd00:9::6");
  Ip queue4 = ip("10.9.0.7"), queue6 = ip("fd00:9::7");
  Ip peer4 = ip("10.9.0.99"), peer6 = ip("fd00:9::99");
  Ip any6 = ip("::"), all_nodes = ip("ff02::1"), group99 = ip("ff02::1:ff00:99"), link_local = ip("fe80::5");
};

class VethHost : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    bench_ = new Bench();
    for (const char* name : {"a", "b"}) {
      bench_->host().ip("link add vl" + std::string(name) + " type veth peer name vp" + name);
      bench_->host().ip("link set vl" + std::string(name) + " up");
    }
    own_ = bench_->device("vla");
    const auto own = static_cast<__u32>(own_.value), neighbor = static_cast<__u32>(bench_->device("vlb").value);
    const Addresses a;
    const auto set = [](const Ip& address, std::uint32_t slot, std::uint32_t kind, __u32 veth) {
      ASSERT_TRUE(bench_->steering().set_lane(
          bench_->nic(), address, {.slot = slot, .kind = kind, .rx_queue = 0, .veth_ifindex = veth}));
    };
    set(a.own4, kOwnSlot, LANE_KIND_VETH, own);
    set(a.own6, kOwnSlot, LANE_KIND_VETH, own);
    set(a.neighbor4, kNeighborSlot, LANE_KIND_VETH, neighbor);
    set(a.neighbor6, kNeighborSlot, LANE_KIND_VETH, neighbor);
    set(a.queue4, kQueueSlot, LANE_KIND_QUEUE, 0);
    set(a.queue6, kQueueSlot, LANE_KIND_QUEUE, 0);
    veth_entry entry{.slot = kOwnSlot, .nic_ifindex = static_cast<__u32>(bench_->nic().value), .nic_mac = {}, .pad = {}};
    std::copy(bench_->nic_mac().begin(), bench_->nic_mac().end(), entry.nic_mac);
    ASSERT_TRUE(bench_->steering().attach_veth_host_end(own_, entry));
    ASSERT_TRUE(bench_->steering().attach_veth_host_end(own_, entry)) << "attaching again replaces";
    program_ = new UniqueFd(bench_->veth_host(own_));
  }
  static void TearDownTestSuite() {
    delete program_;
    delete bench_;
  }

  static inline Bench* bench_ = nullptr;
  static inline UniqueFd* program_ = nullptr;
  static inline IfIndex own_;
};

struct Case {
  const char* name;
  Bytes packet;
  std::uint32_t verdict;
  int counter;
  Bytes out;  // Empty: dropped, does not matter.
};

std::vector<Case> cases(const Mac& nic) {
  const Addresses a;
  const Mac pod = {0x02, 0, 0, 0, 0, 0x55};
  const auto from_pod = [&](std::uint16_t type, const Bytes& payload) { return ethernet(kPeerMac, pod, type, payload); };
  const auto sent = [&](std::uint16_t type, const Bytes& payload) { return ethernet(kPeerMac, nic, type, payload); };
  const auto to_neighbor = [&](std::uint16_t type, const Bytes& payload) { return ethernet(nic, nic, type, payload); };
  const Mac none{};
  const Bytes good4 = ipv4(a.own4, a.peer4, 17, udp()), good6 = ipv6(a.own6, a.peer6, 17, udp());
  const Bytes hop_options("\x3a\0\x01\x04\0\0\0\0", 8);  // Next: ICMPv6; one PadN.
  const Bytes spoof = nd(136, 0x20, a.own6, a.all_nodes, a.peer6, 2, nic);
  const Bytes ok_advert = nd(136, 0x20, a.own6, a.all_nodes, a.own6, 2, nic);
  Bytes many = hop_options;
  for (int i = 0; i < 5; ++i) many = Bytes("\x3c\0\x01\x04\0\0\0\0", 8) + many;
  const auto redirect = static_cast<std::uint32_t>(TC_ACT_REDIRECT), shot = static_cast<std::uint32_t>(TC_ACT_SHOT);
  return {
      {"IPv4", from_pod(0x0800, good4), redirect, LANE_TX_FRAMES, sent(0x0800, good4)},
      {"IPv6", from_pod(0x86dd, good6), redirect, LANE_TX_FRAMES, sent(0x86dd, good6)},
      {"IPv4 fragment", from_pod(0x0800, ipv4(a.own4, a.peer4, 17, Bytes(3, 'z'), 0x0007)), redirect, LANE_TX_FRAMES,
       sent(0x0800, ipv4(a.own4, a.peer4, 17, Bytes(3, 'z'), 0x0007))},
      {"IPv4 multicast", from_pod(0x0800, ipv4(a.own4, ip("239.1.1.1"), 17, udp())), redirect, LANE_TX_FRAMES,
       sent(0x0800, ipv4(a.own4, ip("239.1.1.1"), 17, udp()))},
      {"IPv4 to a neighbour lane", from_pod(0x0800, ipv4(a.own4, a.neighbor4, 17, udp())), redirect, LANE_TX_FRAMES,
       to_neighbor(0x0800, ipv4(a.own4, a.neighbor4, 17, udp()))},
      {"IPv6 to a neighbour lane", from_pod(0x86dd, ipv6(a.own6, a.neighbor6, 17, udp())), redirect, LANE_TX_FRAMES,
       to_neighbor(0x86dd, ipv6(a.own6, a.neighbor6, 17, udp()))},
      {"IPv4 to a queue lane here", from_pod(0x0800, ipv4(a.own4, a.queue4, 17, udp())), shot, LANE_TX_SAME_NODE_QUEUE, {}},
      {"IPv6 to a queue lane here", from_pod(0x86dd, ipv6(a.own6, a.queue6, 17, udp())), shot, LANE_TX_SAME_NODE_QUEUE, {}},
      {"IPv4 from a neighbour lane's address", from_pod(0x0800, ipv4(a.neighbor4, a.peer4, 17, udp())), shot,
       LANE_TX_BAD_SOURCE, {}},
      {"IPv4 from a foreign address", from_pod(0x0800, ipv4(a.peer4, a.peer4, 17, udp())), shot, LANE_TX_BAD_SOURCE, {}},
      {"IPv4 from 0.0.0.0", from_pod(0x0800, ipv4(ip("0.0.0.0"), a.peer4, 17, udp())), shot, LANE_TX_BAD_SOURCE, {}},
      {"IPv6 from a neighbour lane's address", from_pod(0x86dd, ipv6(a.neighbor6, a.peer6, 17, udp())), shot,
       LANE_TX_BAD_SOURCE, {}},
      {"IPv6 from ::", from_pod(0x86dd, ipv6(a.any6, a.peer6, 17, udp())), shot, LANE_TX_BAD_SOURCE, {}},
      {"duplicate address detection",
       from_pod(0x86dd, ipv6(a.any6, a.group99, 58, nd(135, 0, a.any6, a.group99, a.own6, 0, pod), 255)), shot,
       LANE_TX_BAD_SOURCE, {}},
      {"the pod kernel's link-local chatter", from_pod(0x86dd, ipv6(a.link_local, ip("ff02::2"), 58, Bytes("\x85\0\0\0\0\0\0\0", 8), 255)),
       shot, LANE_TX_BAD_SOURCE, {}},
      {"solicitation", from_pod(0x86dd, ipv6(a.own6, a.group99, 58, nd(135, 0, a.own6, a.group99, a.peer6, 1, nic), 255)),
       redirect, LANE_TX_FRAMES,
       sent(0x86dd, ipv6(a.own6, a.group99, 58, nd(135, 0, a.own6, a.group99, a.peer6, 1, nic), 255))},
      {"advertisement of itself", from_pod(0x86dd, ipv6(a.own6, a.all_nodes, 58, ok_advert, 255)), redirect,
       LANE_TX_FRAMES, sent(0x86dd, ipv6(a.own6, a.all_nodes, 58, ok_advert, 255))},
      {"advertisement of somebody else", from_pod(0x86dd, ipv6(a.own6, a.all_nodes, 58, spoof, 255)), shot,
       LANE_TX_BAD_SOURCE, {}},
      {"advertisement of somebody else behind hop-by-hop options",
       from_pod(0x86dd, ipv6(a.own6, a.all_nodes, 0, hop_options + spoof, 255)), shot, LANE_TX_BAD_SOURCE, {}},
      {"advertisement of itself behind hop-by-hop options",
       from_pod(0x86dd, ipv6(a.own6, a.all_nodes, 0, hop_options + ok_advert, 255)), redirect, LANE_TX_FRAMES,
       sent(0x86dd, ipv6(a.own6, a.all_nodes, 0, hop_options + ok_advert, 255))},
      {"too many extension headers", from_pod(0x86dd, ipv6(a.own6, a.all_nodes, 60, many + spoof, 255)), shot,
       LANE_TX_BAD_SOURCE, {}},
      {"ARP request", from_pod(0x0806, arp(1, nic, a.own4, none, a.peer4)), redirect, LANE_TX_FRAMES,
       sent(0x0806, arp(1, nic, a.own4, none, a.peer4))},
      {"ARP with a foreign sender", from_pod(0x0806, arp(2, nic, a.peer4, kPeerMac, a.peer4)), shot, LANE_TX_BAD_SOURCE, {}},
      {"ARP probe", from_pod(0x0806, arp(1, nic, ip("0.0.0.0"), none, a.own4)), shot, LANE_TX_BAD_SOURCE, {}},
      {"ARP with a foreign MAC", from_pod(0x0806, arp(1, pod, a.own4, none, a.peer4)), shot, LANE_TX_BAD_SOURCE, {}},
      {"VLAN tag", from_pod(0x8100, Bytes("\0\x05\x08\0", 4) + good4), shot, LANE_TX_BAD_SOURCE, {}},
      {"another ethertype", from_pod(0x88cc, Bytes(60, 'q')), shot, LANE_TX_BAD_SOURCE, {}},
      {"IPv6 under IPv4's ethertype", from_pod(0x0800, good6), shot, LANE_TX_BAD_SOURCE, {}},
      {"IPv4 under IPv6's ethertype", from_pod(0x86dd, good4 + Bytes(40, '\0')), shot, LANE_TX_BAD_SOURCE, {}},
  };
}

TEST_F(VethHost, GivesTheVerdictOfTheTable) {
  for (const Case& row : cases(bench_->nic_mac())) {
    SCOPED_TRACE(row.name);
    const auto before = *bench_->steering().counters(LaneSlot(kOwnSlot));
    const auto outcome = bench_->run_tc(program_->get(), row.packet, own_);
    ASSERT_TRUE(outcome) << "the kernel refused the run: " << errno;
    EXPECT_EQ(outcome->verdict, row.verdict);
    if (!row.out.empty()) {
      EXPECT_EQ(outcome->packet, row.out);
    }
    auto want = before;
    want[static_cast<std::size_t>(row.counter)] += 1;
    EXPECT_EQ(*bench_->steering().counters(LaneSlot(kOwnSlot)), want);
  }
}

// The kernel itself refuses test runs of some short packets; what it runs must be dropped until the headers are whole.
TEST_F(VethHost, DropsWhatIsCutShort) {
  const Addresses a;
  const Mac nic = bench_->nic_mac();
  struct Row {
    const char* name;
    Bytes packet;
    std::size_t needs;
  };
  const Row rows[] = {
      {"IPv4", ethernet(kPeerMac, nic, 0x0800, ipv4(a.own4, a.peer4, 17, udp())), 34},
      {"IPv6", ethernet(kPeerMac, nic, 0x86dd, ipv6(a.own6, a.peer6, 17, udp())), 54},
      {"ARP", ethernet(kPeerMac, nic, 0x0806, arp(1, nic, a.own4, Mac{}, a.peer4)), 42},
      {"advertisement",
       ethernet(kPeerMac, nic, 0x86dd,
                ipv6(a.own6, a.all_nodes, 58, nd(136, 0x20, a.own6, a.all_nodes, a.own6, 2, nic), 255)),
       78},
  };
  for (const Row& row : rows) {
    std::size_t ran = 0;
    for (std::size_t length = 14; length <= row.packet.size(); ++length) {
      SCOPED_TRACE(std::string(row.name) + " of " + std::to_string(length) + " bytes");
      const auto outcome = bench_->run_tc(program_->get(), row.packet.substr(0, length), own_);
      if (!outcome) continue;
      ++ran;
      EXPECT_EQ(outcome->verdict, static_cast<std::uint32_t>(length < row.needs ? TC_ACT_SHOT : TC_ACT_REDIRECT));
    }
    EXPECT_GT(ran, row.packet.size() - row.needs) << row.name;
  }
}

TEST_F(VethHost, DropsWhatItDoesNotKnow) {
  const Addresses a;
  const Bytes packet = ethernet(kPeerMac, kPeerMac, 0x0800, ipv4(a.own4, a.peer4, 17, udp()));
  const auto outcome = bench_->run_tc(program_->get(), packet, bench_->device("vlb"));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->verdict, static_cast<std::uint32_t>(TC_ACT_SHOT));
}

TEST_F(VethHost, CostsTheVerifierLittle) {
  const std::uint32_t instructions = Bench::verified_instructions(program_->get());
  std::printf("veth_host: %u instructions verified\n", instructions);
  RecordProperty("verified_instructions", static_cast<int>(instructions));
  EXPECT_GT(instructions, 0U);
  EXPECT_LT(instructions, 20000U);
}

}  // namespace
}  // namespace podlane::test
