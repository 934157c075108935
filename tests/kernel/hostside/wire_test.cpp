// Announcements, probes and multicast groups, seen from the far end of the wire.
#include <gtest/gtest.h>

#include "deviceplugin/lanes/arp_ndp.hpp"
#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReadClaim, ReadsWhatIsBuiltAndNothingThatIsCut) {
  const dp::MacAddress mac{0x02, 0, 0, 0, 0, 0x11};
  const auto v4 = must(net::parse_ip("10.9.0.5")), v6 = must(net::parse_ip("fd00:9::5"));
  const auto asker4 = must(net::parse_ip("10.9.0.6")), asker6 = must(net::parse_ip("fd00:9::6"));
  struct Row {
    const char* name;
    dp::Frame frame;
    net::IpAddress address;
    bool only_asks;
    std::size_t needs;
  };
  for (const Row& row : {Row{"announced 4", dp::announcement(mac, v4), v4, false, 42},
                         Row{"announced 6", dp::announcement(mac, v6), v6, false, 78},
                         Row{"asked 4", dp::arp_request(mac, asker4, v4), asker4, false, 42},
                         Row{"asked 6", dp::neighbor_solicitation(mac, asker6, v6), asker6, false, 78},
                         Row{"probe 4", dp::arp_request(mac, std::nullopt, v4), v4, true, 42},
                         Row{"probe 6", dp::neighbor_solicitation(mac, std::nullopt, v6), v6, true, 78}}) {
    for (std::size_t length = 0; length <= row.frame.size(); ++length) {
      SCOPED_TRACE(std::string(row.name) + " of " + std::to_string(length) + " bytes");
      const std::vector<std::uint8_t> bytes(row.frame.begin(), row.frame.begin() + static_cast<std::ptrdiff_t>(length));
      const auto claim = dp::read_claim(bytes);
      ASSERT_EQ(claim.has_value(), length >= row.needs);
      if (!claim) continue;
      EXPECT_EQ(claim->address, row.address);
      EXPECT_EQ(claim->mac, mac);
      EXPECT_EQ(claim->only_asks, row.only_asks);
    }
  }
}

TEST(Announce, ChangesWhatTheFarEndBelieves) {
  Node node;
  for (const char* address : {"10.9.0.5", "fd00:9::5"}) {
    node.far().ip("neigh add " + std::string(address) + " lladdr 02:00:00:00:00:77 nud reachable dev far0");
    SCOPED_TRACE(address);
    // The kernel protects a fresh entry for a second from a second opinion (locktime, net/ipv4/arp.c), but not from
    // this.
    const auto announced =
        dp::announce(node.nic(), node.nic_mac(), {std::string(address) + (address[0] == 'f' ? "/64" : "/24")});
    ASSERT_TRUE(announced) << announced.error().message();
    EXPECT_TRUE(eventually(seconds(2), [&] { return node.far_neighbor(address) == dp::to_string(node.nic_mac()); }))
        << node.far_neighbor(address);
  }
  EXPECT_FALSE(dp::announce(node.nic(), node.nic_mac(), {"10.9.0.500"}));
  EXPECT_FALSE(dp::announce(IfIndex(99999), node.nic_mac(), {"10.9.0.5/24"}));
}

TEST(ProbeTaken, FindsWhoHoldsTheAddress) {
  Node node;
  node.host().ip("addr add 10.9.0.50/24 dev nic0");
  struct Row {
    const char* address;
    bool taken;
  };
  for (const Row& row : {Row{"10.9.0.99/24", true}, Row{"10.9.0.77/24", false}, Row{"fd00:9::99/64", true},
                         Row{"fd00:9::77/64", false}, Row{"10.9.0.50/24", true}, Row{"10.9.0.99", true}}) {
    SCOPED_TRACE(row.address);
    const auto start = std::chrono::steady_clock::now();
    const auto taken = dp::probe_taken(node.nic(), node.nic_mac(), row.address, milliseconds(300));
    ASSERT_TRUE(taken) << taken.error().message();
    EXPECT_EQ(*taken, row.taken);
    EXPECT_LT(std::chrono::steady_clock::now() - start, patient(seconds(2)));
  }
}

TEST(ProbeTaken, WorksBehindTheSteeringProgram) {
  Node node;
  (void)node.steering();
  EXPECT_TRUE(*dp::probe_taken(node.nic(), node.nic_mac(), "10.9.0.99/24", milliseconds(300)));
  EXPECT_TRUE(*dp::probe_taken(node.nic(), node.nic_mac(), "fd00:9::99/64", milliseconds(300)));
  EXPECT_FALSE(*dp::probe_taken(node.nic(), node.nic_mac(), "10.9.0.77/24", milliseconds(300)));
}

TEST(SolicitedNode, IsJoinedAndLeftOnTheNic) {
  Node node;
  const auto joined = [&] {
    return node.host().ip("maddr show dev nic0").find("33:33:ff:00:12:34") != std::string::npos;
  };
  ASSERT_FALSE(joined());
  ASSERT_TRUE(dp::join_solicited_node(node.nic(), "fd00:9::1234/64"));
  ASSERT_TRUE(dp::join_solicited_node(node.nic(), "fd00:9::1234")) << "joining twice is success";
  EXPECT_TRUE(joined());
  ASSERT_TRUE(dp::leave_solicited_node(node.nic(), "fd00:9::1234"));
  EXPECT_FALSE(joined());
  EXPECT_TRUE(dp::leave_solicited_node(node.nic(), "fd00:9::1234")) << "left already is success";
  EXPECT_EQ(dp::join_solicited_node(node.nic(), "10.9.0.5").error().code(), Errc::kInvalid);
}

}  // namespace
}  // namespace podlane::test
