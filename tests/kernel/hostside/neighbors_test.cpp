// Next hops: found, followed, lost, given back.
#include "deviceplugin/lanes/neighbors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

using std::chrono::seconds;

class Changes {
 public:
  dp::Neighbors::Callback callback() {
    return [this](IfIndex nic, const lane::Neighbor& neighbor) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(std::to_string(nic.value) + " " + neighbor.ip + " " + neighbor.mac.value_or("-"));
    };
  }
  bool has(IfIndex nic, const std::string& ip, const std::string& mac) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(seen_, std::to_string(nic.value) + " " + ip + " " + mac) > 0;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> seen_;
};

std::string shown(const Node& node, const std::string& address) {
  return node.host().ip("neigh show " + address + " dev nic0");
}

// Short times, so that the kernel looks again soon.
void hurry(const Node& node, const char* family) {
  for (const auto& [key, value] : {std::pair("base_reachable_time_ms", "400"), std::pair("delay_first_probe_time", "1"),
                                   std::pair("retrans_time_ms", "100")}) {
    must_run("ip netns exec " + node.host().name() + " sysctl -qw net." + family + ".neigh.nic0." + key + "=" + value);
  }
}

struct Situation {  // One row.
  const char* name;
  const char* neighbor;
  const char* lane;
  bool host_has_address;
};

class NeighborsIn : public ::testing::TestWithParam<Situation> {};

TEST_P(NeighborsIn, FindsFollowsLosesAndGivesBack) {
  const Situation& situation = GetParam();
  const bool ipv4 = std::string(situation.neighbor).find(':') == std::string::npos;
  Node node;
  hurry(node, ipv4 ? "ipv4" : "ipv6");
  node.host().ip("-6 addr flush dev nic0");
  if (situation.host_has_address) node.host().ip(ipv4 ? "addr add 10.9.0.1/24 dev nic0" : "addr add fd00:9::1/64 dev nic0 nodad");
  if (!situation.host_has_address) {
    // A host that answers only its own subnet, as many do.
    must_run("ip netns exec " + node.far().name() + " sysctl -qw net.ipv4.conf.far0.rp_filter=1");
  }
  (void)node.steering();
  must(node.steering().set_lane(node.nic(), ip(situation.lane),
                                {.slot = 3, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0}));
  Changes changes;
  auto neighbors = must(dp::Neighbors::start(changes.callback()));
  neighbors->watch(node.nic(), situation.neighbor, situation.lane);
  neighbors->watch(node.nic(), situation.neighbor, situation.lane);
  const std::string mac = dp::to_string(node.far_mac());
  EXPECT_TRUE(eventually(seconds(5), [&] { return changes.has(node.nic(), situation.neighbor, mac); })) << shown(node, situation.neighbor);
  EXPECT_EQ(neighbors->current(node.nic(), situation.neighbor).mac, mac);
  EXPECT_NE(shown(node, situation.neighbor).find("managed"), std::string::npos) << shown(node, situation.neighbor);

  node.far().ip("link set far0 address 02:00:00:00:00:42");
  EXPECT_TRUE(eventually(seconds(15), [&] { return changes.has(node.nic(), situation.neighbor, "02:00:00:00:00:42"); })) << shown(node, situation.neighbor);
  EXPECT_EQ(neighbors->current(node.nic(), situation.neighbor).mac, "02:00:00:00:00:42");

  node.far().ip("addr del " + std::string(situation.neighbor) + (ipv4 ? "/24" : "/64") + " dev far0");
  EXPECT_TRUE(eventually(seconds(15), [&] { return changes.has(node.nic(), situation.neighbor, "-"); })) << shown(node, situation.neighbor);
  EXPECT_TRUE(eventually(seconds(15), [&] { return !neighbors->current(node.nic(), situation.neighbor).mac; }));

  neighbors->unwatch(node.nic(), situation.neighbor);
  EXPECT_NE(shown(node, situation.neighbor), "") << "one watch is left";
  neighbors->unwatch(node.nic(), situation.neighbor);
  EXPECT_TRUE(eventually(seconds(2), [&] { return shown(node, situation.neighbor).empty(); })) << shown(node, situation.neighbor);
  neighbors->unwatch(node.nic(), situation.neighbor);
}

INSTANTIATE_TEST_SUITE_P(
    All, NeighborsIn,
    ::testing::Values(Situation{"Ipv4OfTheHostsSubnet", "10.9.0.99", "10.9.0.5", true},
                      Situation{"Ipv4OfNoSubnetOfTheHost", "10.9.0.99", "10.9.0.5", false},
                      Situation{"Ipv6OfTheHostsSubnet", "fd00:9::99", "fd00:9::5", true},
                      Situation{"Ipv6WithoutAnyAddress", "fd00:9::99", "fd00:9::5", false}),
    [](const auto& named) { return named.param.name; });

TEST(Neighbors, LeavesTheOperatorsEntryAlone) {
  Node node;
  node.host().ip("neigh add 10.9.0.99 lladdr 02:00:00:00:00:66 nud permanent dev nic0");
  Changes changes;
  auto neighbors = must(dp::Neighbors::start(changes.callback()));
  neighbors->watch(node.nic(), "10.9.0.99", "10.9.0.5");
  EXPECT_TRUE(eventually(seconds(2), [&] { return changes.has(node.nic(), "10.9.0.99", "02:00:00:00:00:66"); }));
  neighbors->unwatch(node.nic(), "10.9.0.99");
  neighbors.reset();
  EXPECT_NE(shown(node, "10.9.0.99").find("PERMANENT"), std::string::npos) << shown(node, "10.9.0.99");
}

TEST(Neighbors, TakesBackWhatAnEarlierLifeLeft) {
  Node node;
  node.host().ip("addr add 10.9.0.1/24 dev nic0");
  node.host().ip("neigh add 10.9.0.98 lladdr 02:00:00:00:00:98 nud reachable dev nic0");
  Changes changes;
  auto neighbors = must(dp::Neighbors::start(changes.callback()));
  neighbors->watch(node.nic(), "10.9.0.99", "10.9.0.5");
  EXPECT_TRUE(eventually(seconds(2), [&] { return neighbors->current(node.nic(), "10.9.0.99").mac.has_value(); }));
  neighbors.reset();
  EXPECT_NE(shown(node, "10.9.0.99"), "") << "a watch that was not taken back keeps its entry";
  neighbors = must(dp::Neighbors::start(changes.callback()));
  EXPECT_EQ(shown(node, "10.9.0.99").find("managed"), std::string::npos);
  EXPECT_NE(shown(node, "10.9.0.98"), "") << "the entries of others stay";
}

TEST(Neighbors, ComesBackAfterTheLinkWasDown) {
  Node node;
  node.host().ip("addr add 10.9.0.1/24 dev nic0");
  Changes changes;
  auto neighbors = must(dp::Neighbors::start(changes.callback()));
  neighbors->watch(node.nic(), "10.9.0.99", "10.9.0.5");
  const auto known = [&] { return neighbors->current(node.nic(), "10.9.0.99").mac.has_value(); };
  EXPECT_TRUE(eventually(seconds(2), known));
  node.host().ip("link set nic0 down");
  EXPECT_TRUE(eventually(seconds(2), [&] { return !known(); }));
  node.host().ip("link set nic0 up");
  EXPECT_TRUE(eventually(seconds(5), known)) << shown(node, "10.9.0.99");
}

TEST(Neighbors, IgnoresWhatIsNoAddress) {
  Node node;
  Changes changes;
  auto neighbors = must(dp::Neighbors::start(changes.callback()));
  neighbors->watch(node.nic(), "nonsense", "10.9.0.5");
  EXPECT_EQ(neighbors->current(node.nic(), "nonsense").mac, std::nullopt);
  neighbors->unwatch(node.nic(), "nonsense");
}

}  // namespace
}  // namespace podlane::test
