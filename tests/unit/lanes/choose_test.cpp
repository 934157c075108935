// Annotations joined with what the kubelet lists.
#include <gtest/gtest.h>

#include "deviceplugin/lanes/choose.hpp"
#include "deviceplugin/lanes/naming.hpp"

namespace podlane::dp {
namespace {

Config config_of() {
  Config config;
  config.pools = {{.name = "feed", .kind = lane::Kind::kVeth, .netdevs = {"nic0"}, .lanes = 12},
                  {.name = "vpn", .kind = lane::Kind::kTun, .lanes = 2}};
  config.pools[0].default_mode = lane::Mode::kSpinning;
  for (PoolConfig& pool : config.pools) pool.subnets = {"10.9.0.0/24", "fd00::/64"};
  return config;
}

lane::PodLanes parse(const lane::Annotations& annotations) {
  const auto lanes = lane::parse_annotations(annotations, {});
  EXPECT_TRUE(lanes) << lanes.error().message();
  return lanes ? *lanes : lane::PodLanes();
}

const lane::PodName kPod{"default", "p1", ""};

TEST(ChooseLanes, GivesDevicesInTheOrderOfTheirNumbersWithTheirAddresses) {
  const auto wanted = parse({{"podlane.io/lanes", "feed=2"}, {"podlane.io/addresses.feed", "10.9.0.5/24,10.9.0.6/24"}});
  // One entry per id, as kubelet 1.36 lists them.
  const auto chosen = choose_lanes(wanted, config_of(),
                                   {{"default", "p1", "app", "feed", {"feed-10"}},
                                    {"default", "p1", "app", "feed", {"feed-2"}},
                                    {"other", "p1", "app", "feed", {"feed-3"}},
                                    {"default", "p2", "app", "feed", {"feed-4"}}},
                                   kPod);
  ASSERT_TRUE(chosen) << chosen.error().message();
  ASSERT_EQ(chosen->size(), 2U);
  EXPECT_EQ((*chosen)[0].device, "feed-2");
  EXPECT_EQ((*chosen)[0].fixed_addresses, std::vector<std::string>{"10.9.0.5/24"});
  EXPECT_EQ((*chosen)[1].device, "feed-10");
  EXPECT_EQ((*chosen)[1].mode, lane::Mode::kSpinning);
  EXPECT_EQ((*chosen)[1].path, lane::Path::kRelay);
}

TEST(ChooseLanes, HolderMustBeOneContainerAndTheOneThatUsesTheLane) {
  const std::vector<PodDevices> two = {{"default", "p1", "a", "feed", {"feed-0"}}, {"default", "p1", "b", "feed", {"feed-1"}}};
  const auto split = choose_lanes(parse({{"podlane.io/lanes", "feed=2"}}), config_of(), two, kPod);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code(), Errc::kDenied);
  const std::vector<PodDevices> one = {{"default", "p1", "podlane-relay", "feed", {"feed-0"}},
                                       {"default", "p1", "engine", "", {}},
                                       {"default", "p2", "other", "", {}}};
  const lane::Annotations relay = {{"podlane.io/lanes", "feed"}, {"podlane.io/container", "engine"}};
  EXPECT_TRUE(choose_lanes(parse(relay), config_of(), one, kPod));
  lane::Annotations direct = relay;
  direct.emplace_back("podlane.io/path", "direct");
  EXPECT_FALSE(choose_lanes(parse(direct), config_of(), one, kPod));
}

TEST(ChooseLanes, NamedContainerMustBeOneOfThePod) {
  const std::vector<PodDevices> listing = {{"default", "p1", "podlane-relay", "feed", {"feed-0"}},
                                           {"default", "p1", "engine", "", {}},
                                           {"default", "p2", "nosuch", "", {}}};
  const auto chosen =
      choose_lanes(parse({{"podlane.io/lanes", "feed"}, {"podlane.io/container", "nosuch"}}), config_of(), listing, kPod);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code(), Errc::kDenied);
  EXPECT_NE(chosen.error().message().find("'nosuch' must be one of the pod's containers: 'podlane-relay', 'engine'"),
            std::string::npos)
      << chosen.error().message();
}

TEST(ChooseLanes, MissingAndTooManyAreNotFound) {
  const auto wanted = parse({{"podlane.io/lanes", "feed"}});
  const auto none = choose_lanes(wanted, config_of(), {}, kPod);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::kNotFound);
  EXPECT_NE(none.error().message().find("podlane.io/feed"), std::string::npos);
  const auto many = choose_lanes(wanted, config_of(), {{"default", "p1", "a", "feed", {"feed-0", "feed-1"}}}, kPod);
  EXPECT_FALSE(many);
  const auto tun = choose_lanes(parse({{"podlane.io/lanes", "vpn"}}), config_of(), {{"default", "p1", "a", "vpn", {"vpn-0"}}}, kPod);
  ASSERT_TRUE(tun);
  EXPECT_FALSE(tun->front().path.has_value());
}

TEST(CheckInSubnets, TakesBothFamiliesAndNamesTheSubnets) {
  const Config config = config_of();
  EXPECT_TRUE(check_in_subnets(config.pools[0], {"10.9.0.5/24", "fd00::5/64"}));
  const auto outside = check_in_subnets(config.pools[0], {"10.8.0.5/24"});
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message().find("10.9.0.0/24, fd00::/64"), std::string::npos);
  EXPECT_FALSE(check_in_subnets(config.pools[0], {"10.9.0.5/16"}));  // Its on-link route would reach past the subnet.
}

TEST(Naming, OfVariablesDevicesAndDirectories) {
  EXPECT_EQ(lanes_variable("market-data2"), "PODLANE_LANES_MARKET_DATA2");
  EXPECT_EQ(resource_name("feed"), "podlane.io/feed");
  const auto name = random_directory_name();
  ASSERT_TRUE(name);
  EXPECT_EQ(name->size(), 32U);
  EXPECT_NE(*name, *random_directory_name());
  EXPECT_LE(veth_host_name(LaneSlot(4095))->size(), 15U);
  std::vector<std::string> ids = {"a-10", "a-9", "a-0"};
  sort_device_ids(ids);
  EXPECT_EQ(ids, (std::vector<std::string>{"a-0", "a-9", "a-10"}));
}

TEST(ChooseLanes, RefusesAPoolOfOnloadInWords) {
  Config config = config_of();
  config.pools.push_back({.name = "accel", .kind = lane::Kind::kOnload, .lanes = 2});
  const auto refused = choose_lanes(parse({{"podlane.io/lanes", "accel"}}), config, {}, kPod);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kDenied);
  for (const char* part : {"podlane.io/lanes", "'accel'", "kind onload", "podlane.io/accel", "resources"}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
}

}  // namespace
}  // namespace podlane::dp
