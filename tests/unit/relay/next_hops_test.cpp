#include "lib/podlane/next_hops.hpp"

#include <gtest/gtest.h>

namespace podlane {
namespace {

IpKey key(const std::string& text) { return ip_key_of(*net::parse_ip(text)); }

lane::LaneDescription lane_description() {
  lane::LaneDescription description;
  description.addresses = {"10.9.0.5/24", "fd09::5/64"};
  description.subnets = {"10.9.0.0/24", "10.8.0.0/16", "fd09::/64"};
  description.gateways = {"10.9.0.1", "fd09::1"};
  description.neighbors = {{"10.9.0.1", "02:00:00:00:00:01"}, {"fd09::1", "02:00:00:00:00:06"}};
  return description;
}

TEST(NextHops, ChoosesByDestination) {
  auto hops = NextHops::create(lane_description());
  ASSERT_TRUE(hops.has_value());
  struct Row {
    const char* destination;
    HopState state;
    MacAddress mac;
  };
  const Row rows[] = {
      {"10.9.0.1", HopState::kKnown, {2, 0, 0, 0, 0, 1}},
      {"192.0.2.1", HopState::kKnown, {2, 0, 0, 0, 0, 1}},
      {"2001:db8::1", HopState::kKnown, {2, 0, 0, 0, 0, 6}},
      {"239.129.2.3", HopState::kKnown, {0x01, 0x00, 0x5e, 0x01, 2, 3}},
      {"ff02::1:ff00:5", HopState::kKnown, {0x33, 0x33, 0xff, 0, 0, 5}},
      {"10.9.0.255", HopState::kKnown, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
      {"255.255.255.255", HopState::kKnown, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
      {"10.9.0.7", HopState::kAsk, {}},
      {"10.9.0.7", HopState::kWaiting, {}},
      {"10.8.200.1", HopState::kAsk, {}},
      {"fe80::7", HopState::kAsk, {}},
  };
  for (const Row& row : rows) {
    const Hop hop = hops->find(key(row.destination), std::string(row.destination).find(':') == std::string::npos);
    EXPECT_EQ(hop.state, row.state) << row.destination;
    EXPECT_EQ(hop.mac, row.mac) << row.destination;
    if (hop.state == HopState::kAsk) {
      EXPECT_EQ(to_string(hop.next_hop), row.destination);
    }
  }
}

TEST(NextHops, HasNoRouteWithoutGateway) {
  lane::LaneDescription description = lane_description();
  description.gateways = {"10.9.0.1"};
  auto hops = NextHops::create(description);
  ASSERT_TRUE(hops.has_value());
  EXPECT_EQ(hops->find(key("2001:db8::1"), false).state, HopState::kNoRoute);
  EXPECT_EQ(hops->find(key("192.0.2.1"), true).state, HopState::kKnown);
}

TEST(NextHops, FollowsNewsAndForgets) {
  auto hops = NextHops::create(lane_description());
  ASSERT_TRUE(hops.has_value());
  EXPECT_EQ(hops->find(key("192.0.2.1"), true).mac[5], 1);
  hops->learn(key("10.9.0.1"), {2, 0, 0, 0, 0, 9});
  EXPECT_EQ(hops->find(key("192.0.2.1"), true).mac[5], 9) << "the memo of the last flow must not live on";
  hops->forget(key("10.9.0.1"));
  EXPECT_EQ(hops->find(key("192.0.2.1"), true).state, HopState::kAsk);
}

TEST(NextHops, StaysBoundedUnderAScan) {
  auto hops = NextHops::create(lane_description());
  ASSERT_TRUE(hops.has_value());
  for (unsigned i = 0; i < 60000; ++i) {
    hops->find(key("10.8." + std::to_string(i / 250 % 250) + "." + std::to_string(i % 250 + 1)), true);
  }
  EXPECT_EQ(hops->find(key("192.0.2.1"), true).state, HopState::kKnown) << "a known next hop outlives waiting ones";
}

TEST(NextHops, RefusesNonsenseFromThePeer) {
  for (const auto& change : std::vector<void (*)(lane::LaneDescription&)>{
           [](lane::LaneDescription& d) { d.subnets = {"10.9.0.0"}; },
           [](lane::LaneDescription& d) { d.gateways = {"gateway"}; },
           [](lane::LaneDescription& d) { d.neighbors = {{"10.9.0.1", "02:00:00:00:00"}}; },
           [](lane::LaneDescription& d) { d.neighbors = {{"x", "02:00:00:00:00:01"}}; }}) {
    lane::LaneDescription description = lane_description();
    change(description);
    EXPECT_FALSE(NextHops::create(description).has_value());
  }
  for (const char* text : {"", "02:00:00:00:00:0", "02-00-00-00-00-01", "02:00:00:00:00:0g", "02:00:00:00:00:001"}) {
    EXPECT_FALSE(parse_mac(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace podlane
