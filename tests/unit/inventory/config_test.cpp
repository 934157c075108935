#include "deviceplugin/inventory/config.hpp"

#include <gtest/gtest.h>

#include "bpf/abi/lane_abi.h"

namespace podlane::dp {
namespace {

constexpr const char* kQueue = R"({"name": "feed", "lane": "queue", "devices": {"names": ["ens1f0"]}, "trusted": true,
  "subnets": ["10.9.0.0/24"]})";
constexpr const char* kVeth = R"({"name": "side", "lane": "veth", "devices": {"names": ["ens1f0"]}, "lanes": 8,
  "subnets": ["10.9.1.0/24"]})";
constexpr const char* kOnload = R"({"name": "accel", "lane": "onload", "lanes": 4})";
constexpr const char* kTun = R"({"name": "vpn", "lane": "tun", "lanes": 16})";

// One pool of the sample with some keys set; a null takes the key away.
std::string pool_with(const char* sample, const char* changes) {
  json::Value pool = json::Value::parse(sample);
  const json::Value changed = json::Value::parse(changes);
  for (const auto& [key, value] : changed.items()) {
    if (value.is_null()) pool.erase(key);
    else pool[key] = value;
  }
  json::Value config;
  config["pools"] = json::Value::array({pool});
  return config.dump();
}

void expect_names(const Result<Config>& result, const std::vector<std::string>& parts) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Errc::kInvalid);
  for (const std::string& part : parts) {
    EXPECT_NE(result.error().message().find(part), std::string::npos)
        << part << " is not in: " << result.error().message();
  }
}

TEST(Config, DesignsExampleIsReadWithQueuesOfOne) {
  const auto config = parse_config(R"({ "pools": [
    { "name": "feed", "lane": "queue", "devices": { "names": ["ens1f0"] }, "queues": "0", "trusted": true,
      "subnets": ["10.9.0.0/24"], "gateway": "10.9.0.1",
      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.9.0.0/24" }]] },
      "frames": 4096, "frameSize": 2048, "ringSize": 2048,
      "zeroCopy": "prefer", "hugePages": "2Mi", "relayCpus": { "spinning": 1, "interrupt": "250m" } },
    { "name": "vpn", "lane": "tun", "lanes": 16, "subnets": ["10.8.0.0/24"],
      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.8.0.0/24" }]] } } ] })");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  ASSERT_EQ(config->pools.size(), 2U);
  const PoolConfig& feed = config->pools[0];
  EXPECT_EQ(feed.name, "feed");
  EXPECT_EQ(feed.kind, lane::Kind::kQueue);
  EXPECT_EQ(feed.netdevs, std::vector<std::string>{"ens1f0"});
  EXPECT_TRUE(feed.trusted);
  EXPECT_EQ(feed.gateways, std::vector<std::string>{"10.9.0.1"});
  EXPECT_EQ(feed.huge_pages, lane::HugePages::k2Mi);
  ASSERT_TRUE(feed.ipam.has_value());
  EXPECT_EQ((*feed.ipam)["ranges"][0][0]["subnet"], "10.9.0.0/24");
  EXPECT_EQ(config->pools[1].lanes, 16U);
  EXPECT_EQ(config->pools[1].kind, lane::Kind::kTun);
}

TEST(Config, DefaultsAreThoseOfTheDocumentation) {
  const auto config = parse_config(pool_with(kVeth, "{}"));
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const PoolConfig& pool = config->pools[0];
  EXPECT_EQ(pool.frames, 4096U);
  EXPECT_EQ(pool.frame_size_bytes, 2048U);
  EXPECT_EQ(pool.ring_size, 2048U);
  EXPECT_EQ(pool.zero_copy, ZeroCopy::kPrefer);
  EXPECT_EQ(pool.huge_pages, lane::HugePages::kNone);
  EXPECT_EQ(pool.handover, HandoverChoice::kAuto);
  EXPECT_EQ(pool.default_mode, lane::Mode::kInterrupt);
  EXPECT_FALSE(pool.trusted);
  EXPECT_FALSE(pool.ipam.has_value());
}

TEST(Config, EmptyIsValid) {
  for (const char* text : {"{}", R"({"pools": []})", R"({"pools": null})"}) {
    EXPECT_TRUE(parse_config(text).has_value()) << text;
  }
}

TEST(Config, WhatIsNoConfigurationIsRefused) {
  for (const char* text : {"", "[]", "{", "null", "pools:\n- name: feed", R"({"pools": {}})", R"({"pools": [1]})"}) {
    EXPECT_FALSE(parse_config(text).has_value()) << text;
  }
  expect_names(parse_config(R"({"pool": []})"), {"'pool'", "'pools'"});
}

struct Row {
  const char* name;
  const char* sample;
  const char* changes;
  std::vector<std::string> message_names;  // Empty: accepted.
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto result = parse_config(pool_with(row.sample, row.changes));
    if (row.message_names.empty()) {
      EXPECT_TRUE(result.has_value()) << (result ? std::string() : result.error().message());
    } else {
      expect_names(result, row.message_names);
    }
  }
}

TEST(Config, NamesKindsAndDevices) {
  check({
      {"name missing", kVeth, R"({"name": null})", {"pools[0].name", "missing"}},
      {"name in capitals", kVeth, R"({"name": "Side"})", {"pools[0].name", "'Side'", "lower case"}},
      {"name of 48", kVeth, R"({"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})", {}},
      {"name of 49", kVeth, R"({"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})", {"48"}},
      {"name a number", kVeth, R"({"name": 5})", {"pools[0].name", "5", "string"}},
      {"kind missing", kVeth, R"({"lane": null})", {"pools[0].lane"}},
      {"kind device", kVeth, R"({"lane": "device"})", {"pools[0].lane", "device", "not built yet"}},
      {"kind unknown", kVeth, R"({"lane": "vf"})", {"pools[0].lane", "vf", "queue, veth, tun, onload"}},
      {"unknown key", kVeth, R"({"ringsize": 2048})", {"'pools[0].ringsize'", "'ringSize'"}},
      {"far key", kVeth, R"({"colour": 1})", {"'pools[0].colour'"}},
      {"devices missing", kVeth, R"({"devices": null})", {"pools[0].devices", "names"}},
      {"devices a list", kVeth, R"({"devices": ["eth0"]})", {"pools[0].devices"}},
      {"no names", kQueue, R"({"devices": {"names": []}})", {"pools[0].devices.names"}},
      {"selector", kQueue, R"({"devices": {"drivers": ["ice"]}})", {"pools[0].devices.drivers", "not built yet"}},
      {"two NICs for veth", kVeth, R"({"devices": {"names": ["a", "b"]}})", {"pools[0].devices.names", "one"}},
      {"two NICs for queue", kQueue, R"({"devices": {"names": ["a", "b"]}})", {}},
      {"a NIC twice", kQueue, R"({"devices": {"names": ["a", "a"]}})", {"pools[0].devices.names", "'a' twice"}},
      {"15 characters", kQueue, R"({"devices": {"names": ["abcdefghijklmno"]}})", {}},
      {"16 characters", kQueue, R"({"devices": {"names": ["abcdefghijklmnop"]}})", {"abcdefghijklmnop", "15"}},
      {"slash", kQueue, R"({"devices": {"names": ["../x"]}})", {"../x"}},
      {"devices for tun", kTun, R"({"devices": {"names": ["a"]}})", {"pools[0].devices", "tun"}},
      {"queue 0", kQueue, R"({"queues": "0"})", {}},
      {"many queues", kQueue, R"({"queues": "4-15"})", {"pools[0].queues", "4-15", "not built yet"}},
      {"queues a number", kQueue, R"({"queues": 0})", {"pools[0].queues"}},
      {"queues for veth", kVeth, R"({"queues": "0"})", {"pools[0].queues", "veth"}},
      {"lanes missing", kTun, R"({"lanes": null})", {"pools[0].lanes", "1024"}},
      {"no lane", kTun, R"({"lanes": 0})", {"pools[0].lanes", "0", "1024"}},
      {"1024 lanes", kTun, R"({"lanes": 1024})", {}},
      {"1025 lanes", kTun, R"({"lanes": 1025})", {"pools[0].lanes", "1025", "1024"}},
      {"lanes a fraction", kTun, R"({"lanes": 1.5})", {"pools[0].lanes", "1.5"}},
      {"lanes for queue", kQueue, R"({"lanes": 4})", {"pools[0].lanes", "one lane per device"}},
      {"not trusted", kQueue, R"({"trusted": false})", {"pools[0].trusted", "false", "true"}},
      {"trusted missing", kQueue, R"({"trusted": null})", {"pools[0].trusted", "true"}},
      {"trusted a word", kQueue, R"({"trusted": "yes"})", {"pools[0].trusted", "yes"}},
  });
}

TEST(Config, Addresses) {
  check({
      {"no subnets", kVeth, R"({"subnets": null})", {"pools[0].subnets"}},
      {"tun without subnets", kTun, "{}", {}},
      {"host bits", kVeth, R"({"subnets": ["10.9.1.5/24"]})", {"pools[0].subnets[0]", "10.9.1.5/24", "10.9.1.0/24"}},
      {"no prefix", kVeth, R"({"subnets": ["10.9.1.0"]})", {"pools[0].subnets[0]", "10.9.1.0", "prefix"}},
      {"everything", kVeth, R"({"subnets": ["0.0.0.0/0"]})", {"pools[0].subnets[0]", "0.0.0.0/0"}},
      {"second wrong", kVeth, R"({"subnets": ["10.9.1.0/24", "x"]})", {"pools[0].subnets[1]", "x"}},
      {"IPv6", kVeth, R"({"subnets": ["2001:db8::/64"], "gateway": "2001:db8::1"})", {}},
      {"gateway outside", kVeth, R"({"gateway": "10.8.0.1"})", {"pools[0].gateway", "10.8.0.1", "subnets"}},
      {"gateway with prefix", kVeth, R"({"gateway": "10.9.1.1/24"})", {"pools[0].gateway", "10.9.1.1/24"}},
      {"gateway is the network", kVeth, R"({"gateway": "10.9.1.0"})", {"pools[0].gateway", "network"}},
      {"gateways of both families",
       kVeth,
       R"({"subnets": ["10.9.1.0/24", "2001:db8::/64"], "gateways": ["10.9.1.1", "2001:db8::1"]})",
       {}},
      {"two gateways of one family", kVeth, R"({"gateways": ["10.9.1.1", "10.9.1.2"]})", {"gateways", "family"}},
      {"gateway and gateways", kVeth, R"({"gateway": "10.9.1.1", "gateways": ["10.9.1.1"]})", {"exclude"}},
      {"gateway of a tun without subnets", kTun, R"({"gateway": "10.9.1.1"})", {"pools[0].gateway", "subnets"}},
      {"ipam without type", kVeth, R"({"ipam": {}})", {"pools[0].ipam.type"}},
      {"ipam a word", kVeth, R"({"ipam": "host-local"})", {"pools[0].ipam"}},
      {"ipam a path", kVeth, R"({"ipam": {"type": "../sh"}})", {"pools[0].ipam.type", "../sh"}},
      {"ipam's own keys are its own", kVeth, R"({"ipam": {"type": "x", "anything": [1]}})", {}},
  });
}

TEST(Config, MemoryAndWays) {
  check({
      {"smallest", kVeth, R"({"frames": 128, "ringSize": 64})", {}},
      {"largest", kVeth, R"({"frames": 262144, "ringSize": 65536, "frameSize": 4096})", {}},
      {"frames not a power", kVeth, R"({"frames": 5000})", {"pools[0].frames", "5000", "power of two"}},
      {"frames too few", kVeth, R"({"frames": 64})", {"pools[0].frames", "64", "128"}},
      {"frames too many", kVeth, R"({"frames": 524288})", {"pools[0].frames", "524288", "262144"}},
      {"frame size", kVeth, R"({"frameSize": 1024})", {"pools[0].frameSize", "1024", "2048"}},
      {"frame size between", kVeth, R"({"frameSize": 3000})", {"pools[0].frameSize", "3000", "power of two"}},
      {"ring too small", kVeth, R"({"ringSize": 32})", {"pools[0].ringSize", "32", "64"}},
      {"ring too big for the frames", kVeth, R"({"ringSize": 4096})", {"pools[0].ringSize", "4096", "twice"}},
      {"frames too few for the ring", kVeth, R"({"frames": 1024})", {"pools[0].frames", "1024", "twice"}},
      {"frames negative", kVeth, R"({"frames": -4096})", {"pools[0].frames", "-4096"}},
      {"frames enormous", kVeth, R"({"frames": 18446744073709551615})", {"pools[0].frames"}},
      {"frames for tun", kTun, R"({"frames": 4096})", {"pools[0].frames", "tun"}},
      {"huge pages", kVeth, R"({"hugePages": "1Gi"})", {}},
      {"huge pages wrong", kVeth, R"({"hugePages": "2M"})", {"pools[0].hugePages", "2M", "none, 2Mi, 1Gi"}},
      {"zero copy off", kVeth, R"({"zeroCopy": "off"})", {}},
      {"zero copy on veth", kVeth, R"({"zeroCopy": "require"})", {"pools[0].zeroCopy", "require", "veth"}},
      {"zero copy on queue", kQueue, R"({"zeroCopy": "require"})", {}},
      {"zero copy wrong", kQueue, R"({"zeroCopy": true})", {"pools[0].zeroCopy", "require, prefer, off"}},
      {"unbound on veth", kVeth, R"({"handover": "unbound"})", {}},
      {"unbound on queue", kQueue, R"({"handover": "unbound"})", {"pools[0].handover", "unbound", "auto"}},
      {"mode", kVeth, R"({"mode": "spinning"})", {}},
      {"mode adaptive", kVeth, R"({"mode": "adaptive"})", {"pools[0].mode", "adaptive", "not built yet"}},
      {"mode wrong", kVeth, R"({"mode": "spin"})", {"pools[0].mode", "spin", "spinning, interrupt"}},
      {"relay CPUs", kVeth, R"({"relayCpus": {"spinning": 2, "interrupt": "0.5"}})", {}},
      {"relay CPUs unknown", kVeth, R"({"relayCpus": {"spining": 2}})", {"spining", "spinning"}},
      {"relay CPUs half a core", kVeth, R"({"relayCpus": {"spinning": "500m"}})", {"relayCpus.spinning", "whole"}},
      {"relay CPUs zero", kVeth, R"({"relayCpus": {"interrupt": 0}})", {"relayCpus.interrupt", "0"}},
      {"relay CPUs none", kVeth, R"({"relayCpus": {"interrupt": "0m"}})", {"relayCpus.interrupt", "0m"}},
      {"relay CPUs words", kVeth, R"({"relayCpus": {"interrupt": "m"}})", {"relayCpus.interrupt"}},
  });
}

TEST(Config, Onload) {
  check({
      {"shortest", kOnload, "{}", {}},
      {"all keys", kOnload, R"({"mode": "spinning", "interface": "eth0", "env": {"EF_NO_FAIL": 1}})", {}},
      {"lanes missing", kOnload, R"({"lanes": null})", {"pools[0].lanes", "1024"}},
      {"no lane", kOnload, R"({"lanes": 0})", {"pools[0].lanes", "0", "1024"}},
      {"devices", kOnload, R"({"devices": {"names": ["a"]}})", {"pools[0].devices", "onload"}},
      {"subnets", kOnload, R"({"subnets": ["10.9.0.0/24"]})", {"pools[0].subnets", "onload"}},
      {"env of a veth pool", kVeth, R"({"env": {}})", {"pools[0].env", "veth"}},
      {"interface of a tun pool", kTun, R"({"interface": "eth0"})", {"pools[0].interface", "tun"}},
      {"adaptive", kOnload, R"({"mode": "adaptive"})", {}},
      {"mode wrong", kOnload, R"({"mode": "spin"})", {"pools[0].mode", "spin", "spinning, interrupt, adaptive"}},
      {"interface wrong", kOnload, R"({"interface": "eth0/1"})", {"pools[0].interface", "eth0/1", "15"}},
      {"interface a list", kOnload, R"({"interface": ["eth0"]})", {"pools[0].interface"}},
      {"env a list", kOnload, R"({"env": ["EF_TCP=1"]})", {"pools[0].env"}},
      {"env not Onload's", kOnload, R"({"env": {"LD_PRELOAD": "x"}})", {"pools[0].env.LD_PRELOAD", "EF_"}},
      {"env a typo", kOnload, R"({"env": {"EF_POLL_USECS": 1}})", {"pools[0].env", "EF_POLL_USECS", "EF_POLL_USEC?"}},
      {"env no number", kOnload, R"({"env": {"EF_TCP": "on"}})", {"pools[0].env", "EF_TCP=on", "0 to 1"}},
      {"env a boolean", kOnload, R"({"env": {"EF_TCP": true}})", {"pools[0].env.EF_TCP", "true", "whole number"}},
      {"env out of range", kOnload, R"({"env": {"EF_UL_EPOLL": 4}})", {"pools[0].env", "EF_UL_EPOLL=4", "0 to 3"}},
      {"env against the mode",
       kOnload,
       R"({"mode": "interrupt", "env": {"EF_UDP_RECV_SPIN": 1}})",
       {"pools[0].env", "EF_UDP_RECV_SPIN=1", "interrupt", "V05"}},
      {"env that only warns", kOnload, R"({"env": {"EF_SLEEP_SPIN_USEC": 50}})", {}},
      {"env null", kOnload, R"({"env": null})", {}},
  });
  const auto config = parse_config(pool_with(kOnload, R"({"env": {"EF_POLL_USEC": 20, "EF_CTPIO_MODE": "ct"}})"));
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const PoolConfig& pool = config->pools[0];
  EXPECT_EQ(pool.default_mode, lane::Mode::kAdaptive);
  EXPECT_EQ(pool.lanes, 4U);
  EXPECT_TRUE(pool.netdevs.empty());
  EXPECT_EQ(pool.environment, (std::vector<std::pair<std::string, std::string>>{{"EF_POLL_USEC", "20"},
                                                                               {"EF_CTPIO_MODE", "ct"}}));
}

std::string pools(const std::vector<std::string>& list) {
  std::string text = "{\"pools\": [";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ",") + list[i];
  return text + "]}";
}

TEST(Config, PoolsAreCheckedTogether) {
  EXPECT_TRUE(parse_config(pools({kQueue, kVeth, kTun})).has_value());
  expect_names(parse_config(pools({kVeth, kVeth})), {"pools[1].name", "'side'", "pools[0]"});
  std::string other = kQueue;
  other.replace(other.find("feed"), 4, "more");
  expect_names(parse_config(pools({kQueue, other})), {"pools[1].devices.names", "'ens1f0'", "'feed'"});
  std::string onload = kOnload;
  onload.insert(onload.size() - 1, R"(, "interface": "ens1f0")");
  expect_names(parse_config(pools({onload, kQueue})), {"pools[0].interface", "'ens1f0'", "'feed'"});
  expect_names(parse_config(pools({kVeth, onload})), {"pools[1].interface", "'ens1f0'", "'side'"});
  EXPECT_TRUE(parse_config(pools({kOnload, kQueue, kVeth})).has_value());
  const auto tun = [](int i, int lanes) {
    return "{\"name\":\"p" + std::to_string(i) + "\",\"lane\":\"tun\",\"lanes\":" + std::to_string(lanes) + "}";
  };
  static_assert(LANE_SLOTS == 4096);
  EXPECT_TRUE(parse_config(pools({tun(0, 1024), tun(1, 1024), tun(2, 1024), tun(3, 1024)})).has_value());
  expect_names(parse_config(pools({tun(0, 1024), tun(1, 1024), tun(2, 1024), tun(3, 1024), tun(4, 1)})),
               {"4097", "4096"});
}

}  // namespace
}  // namespace podlane::dp
