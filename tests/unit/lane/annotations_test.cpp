// The grammar of the pod annotations: the shared table of cases, then what the table does not reach.
#include "lib/lane/annotations.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "lib/base/file.hpp"
#include "lib/json/json.hpp"

namespace podlane::lane {
namespace {

std::string source() {
  return std::getenv("PODLANE_SOURCE");
}
std::string copy_of_cases() {
  return source() + "/tests/unit/lane/annotations_cases.json";
}
std::string shared_cases() {
  return source() + "/../shared/cases/annotations.json";
}

json::Value read_json(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return {};
  const auto value = json::parse(*text);
  return value ? *value : json::Value();
}

AnnotationContext context_of(const json::Value& pod) {
  AnnotationContext context{.refuse_status = true};
  if (pod.contains("containers")) context.containers = pod["containers"].get<std::vector<std::string>>();
  if (pod.contains("kinds")) {
    for (const auto& [pool, kind] : pod["kinds"].items()) {
      context.kinds[pool] = kind == "tun" ? Kind::kTun : kind == "queue" ? Kind::kQueue : Kind::kVeth;
    }
  }
  return context;
}

TEST(Annotations, SharedCasesHold) {
  const json::Value cases = read_json(std::filesystem::exists(shared_cases()) ? shared_cases() : copy_of_cases());
  ASSERT_GT(cases.size(), 50U);
  for (const json::Value& row : cases) {
    SCOPED_TRACE(row.dump());
    const json::Value pod = row.value("pod", json::Value::object());
    Annotations annotations{{row["key"], row["value"]}};
    if (row["key"] != "podlane.io/lanes") annotations.emplace_back("podlane.io/lanes", pod.value("lanes", "feed"));
    const auto result = parse_annotations(annotations, context_of(pod));
    EXPECT_EQ(result.has_value(), row["ok"].get<bool>()) << (result ? std::string() : result.error().message());
    if (result) continue;
    EXPECT_EQ(result.error().code(), Errc::kInvalid);
    for (const json::Value& part : row.value("message_names", json::Value::array())) {
      EXPECT_NE(result.error().message().find(part.get<std::string>()), std::string::npos)
          << part << " is not in: " << result.error().message();
    }
  }
}

TEST(Annotations, CopyOfTheSharedCasesIsCurrent) {
  if (!std::filesystem::exists(shared_cases())) return;  // A clone without the shared folder has the copy alone.
  EXPECT_EQ(read_json(shared_cases()), read_json(copy_of_cases()));
}

struct Row {
  const char* name;
  Annotations annotations;
  std::vector<std::string> message_names;  // Empty: accepted.
};

void check(const std::vector<Row>& rows, const AnnotationContext& context) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto result = parse_annotations(row.annotations, context);
    EXPECT_EQ(result.has_value(), row.message_names.empty()) << (result ? std::string() : result.error().message());
    for (const std::string& part : row.message_names) {
      if (result) break;
      EXPECT_NE(result.error().message().find(part), std::string::npos)
          << part << " is not in: " << result.error().message();
    }
  }
}

TEST(Annotations, LimitsAndNeighboursOfTheGrammar) {
  const auto with = [](std::string key, std::string value, std::string lanes = "feed") {
    return Annotations{{"podlane.io/lanes", std::move(lanes)}, {"podlane.io/" + key, std::move(value)}};
  };
  const auto lanes = [](std::string value) { return Annotations{{"podlane.io/lanes", std::move(value)}}; };
  const std::string name48(48, 'a');
  check(
      {
          {"nothing of ours", {{"example.org/lanes", "??"}}, {}},
          {"no annotations", {}, {}},
          {"64 lanes", lanes("feed=64"), {}},
          {"48 characters", lanes(name48), {}},
          {"one character", lanes("a"), {}},
          {"leading dash", lanes("-a"), {"'-a'", "lower case"}},
          {"trailing dash", lanes("a-"), {"'a-'"}},
          {"dot in a pool", lanes("a.b"), {"'a.b'"}},
          {"empty item", lanes("feed,"), {"nothing"}},
          {"count with a sign", lanes("feed=+1"), {"'+1'"}},
          {"count with leading zero", lanes("feed=01"), {"'01'"}},
          {"count empty", lanes("feed="), {"''", "feed"}},
          {"count too long for a number", lanes("feed=99999999999999999999"), {"64"}},
          {"blank inside a name", lanes("fe ed"), {"'fe ed'"}},
          {"newline at the end", lanes("feed\n"), {"feed"}},
          {"setting without lanes", {{"podlane.io/mode", "spinning"}}, {"podlane.io/mode", "podlane.io/lanes"}},
          {"onload needs no lanes", {{"podlane.io/onload", "spinning"}, {"podlane.io/container", "a"}}, {}},
          {"pool-wide key with suffix", with("container.feed", "a"), {"'podlane.io/container.feed'", "whole pod"}},
          {"suffix empty", with("mode.", "spinning"), {"'podlane.io/mode.'"}},
          {"far from any key", with("zzzzzz", "1"), {"'podlane.io/zzzzzz'", "lanes, container"}},
          {"bare prefix", with("", "1"), {"'podlane.io/'"}},
          {"blank in a mode", with("mode", "spinning "), {"'spinning '"}},
          {"overruled value is still read",
           {{"podlane.io/lanes", "feed"}, {"podlane.io/mode", "spin"}, {"podlane.io/mode.feed", "spinning"}},
           {"'spin'"}},
          {"broadcast", with("addresses", "10.9.0.255/24"), {"'10.9.0.255/24'", "broadcast"}},
          {"/32", with("addresses", "10.9.0.5/32"), {}},
          {"/31 has no network address", with("addresses", "10.9.0.4/31"), {}},
          {"/33", with("addresses", "10.9.0.4/33"), {"'10.9.0.4/33'", "32"}},
          {"/0", with("addresses", "10.9.0.4/0"), {"'10.9.0.4/0'"}},
          {"multicast", with("addresses", "239.1.1.1/24"), {"multicast"}},
          {"loopback", with("addresses", "127.0.0.1/8"), {"loopback"}},
          {"IPv6 in brackets", with("addresses", "[2001:db8::5]/64"), {"'[2001:db8::5]/64'"}},
          {"mapped", with("addresses", "::ffff:10.9.0.5/128"), {"IPv4"}},
          {"two of one family", with("addresses", "10.9.0.5/24|10.9.0.6/24"), {"one family"}},
          {"three", with("addresses", "10.9.0.5/24|2001:db8::5/64|2001:db8::6/64"), {"2001:db8::6/64"}},
          {"same address for two lanes", with("addresses", "10.9.0.5/24,10.9.0.5/24", "feed=2"), {"twice"}},
          {"over all pools", with("addresses", "10.9.0.5/24,10.9.0.6/24", "feed,orders"), {}},
          {"too few over all pools", with("addresses", "10.9.0.5/24", "feed,orders"), {"1", "2"}},
          {"pod-wide addresses that no lane takes",
           {{"podlane.io/lanes", "feed"},
            {"podlane.io/addresses", "10.9.0.5/24"},
            {"podlane.io/addresses.feed", "10.9.0.6/24"}},
           {"podlane.io/addresses", "1", "0"}},
          {"flow host bits", with("flows", "udp/10.1.2.1/24:5"), {"host bits", "10.1.2.0/24"}},
          {"flow ports the wrong way", with("flows", "udp/10.1.2.1:9-5"), {"low-high"}},
          {"flow port open", with("flows", "udp/10.1.2.1:9-"), {"65535"}},
          {"flow families", with("flows", "udp/239.1.1.1@[2001:db8::1]:5"), {"one family"}},
          {"flow IPv6 all", with("flows", "udp/[ff3e::8000:0]/97@[2001:db8::1]:1-65535"), {}},
          {"flow open bracket", with("flows", "udp/[ff3e::1:5"), {"']'"}},
          {"flow IPv4 in brackets", with("flows", "udp/[10.1.2.3]:5"), {"10.1.2.3"}},
          {"flow left over", with("flows", "udp/[ff3e::1]x"), {"'x'"}},
          {"flow empty", with("flows", ""), {"''"}},
          {"flow in capitals", with("flows", "UDP/10.1.2.3:1"), {"'UDP'", "tcp, udp"}},
          {"rewrite without protocol meets one with",
           with("rewrite", "10.0.0.1:1=10.0.0.2:1,udp/10.0.0.1:1=10.0.0.3:1"),
           {"twice"}},
          {"rewrite empty backend in the list", with("rewrite", "10.0.0.1:1=10.0.0.2:1|"), {"backend"}},
          {"rewrite port 0", with("rewrite", "10.0.0.1:0=10.0.0.2:1"), {"'0'", "65535"}},
          {"secret in capitals", with("tunnel", "Site"), {"'Site'", "Secret"}},
      },
      {.refuse_status = true});
}

TEST(Annotations, StatusIsIgnoredAtAdd) {
  const auto result = parse_annotations({{"podlane.io/lanes", "feed"}, {"podlane.io/status", "ready"}}, {});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->pools.size(), 1U);
}

TEST(Annotations, PoolSuffixWins) {
  const auto result = parse_annotations({{"podlane.io/mode.orders", "interrupt"},
                                         {"podlane.io/mode", "spinning"},
                                         {"podlane.io/lanes", "feed=2,orders"},
                                         {"podlane.io/path.feed", "direct"},
                                         {"podlane.io/addresses.feed", "10.9.0.5/24|2001:db8::5/64,10.9.0.6/24"}},
                                        {});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  const PoolLanes& feed = result->pools[0];
  const PoolLanes& orders = result->pools[1];
  EXPECT_EQ(feed.count, 2U);
  EXPECT_EQ(feed.mode, Mode::kSpinning);
  EXPECT_EQ(orders.mode, Mode::kInterrupt);
  EXPECT_EQ(feed.path, Path::kDirect);
  EXPECT_FALSE(orders.path.has_value());
  ASSERT_EQ(feed.addresses.size(), 2U);
  EXPECT_EQ(feed.addresses[0].at(1).to_string(), "2001:db8::5/64");
  EXPECT_EQ(feed.addresses[1].at(0).to_string(), "10.9.0.6/24");
  EXPECT_TRUE(orders.addresses.empty());
}

TEST(Annotations, FlowsAndRewriteAreRead) {
  const auto result = parse_annotations({{"podlane.io/lanes", "feed"},
                                         {"podlane.io/flows", "udp/239.1.1.0/24@10.9.9.9:14310-14320"},
                                         {"podlane.io/rewrite", "tcp/198.51.100.10:443=10.0.0.1:1|10.0.0.2:2"}},
                                        {});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  const FlowRule& flow = result->pools[0].flows.at(0);
  EXPECT_EQ(flow.destination.to_string(), "239.1.1.0/24");
  EXPECT_EQ(flow.source->to_string(), "10.9.9.9");
  EXPECT_EQ(flow.low_port, 14310);
  EXPECT_EQ(flow.high_port, 14320);
  const RewriteRule& rule = result->pools[0].rewrite.at(0);
  EXPECT_EQ(rule.transport, Transport::kTcp);
  EXPECT_EQ(rule.backends.at(1).port, 2);
}

TEST(Annotations, WhatIsNotBuiltIsRefusedInWords) {
  const std::vector<std::pair<Annotations, std::string>> refused{
      {{{"podlane.io/path", "kernel"}}, "kernel"},
      {{{"podlane.io/path.feed", "kernel"}}, "kernel"},
      {{{"podlane.io/mode", "adaptive"}}, "adaptive"},
      {{{"podlane.io/flows.feed", "udp/239.1.1.1:1"}}, "flows"},
      {{{"podlane.io/rewrite", "10.0.0.1:1=10.0.0.2:1"}}, "rewrite"},
      {{{"podlane.io/tunnel", "site-b"}}, "tunnel"},
      {{{"podlane.io/onload", "spinning"}}, "onload"},
  };
  for (const auto& [annotations, word] : refused) {
    SCOPED_TRACE(annotations[0].first);
    const auto result = check_built(annotations);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), Errc::kUnsupported);
    EXPECT_NE(result.error().message().find("not built yet"), std::string::npos);
    EXPECT_NE(result.error().message().find(word), std::string::npos);
  }
  EXPECT_TRUE(check_built({{"podlane.io/lanes", "feed"},
                           {"podlane.io/path", "direct"},
                           {"podlane.io/mode", "spinning"},
                           {"podlane.io/addresses", "10.9.0.5/24"},
                           {"podlane.io/container", "a"},
                           {"podlane.io/status", "x"},
                           {"example.org/onload", "x"}})
                  .has_value());
}

}  // namespace
}  // namespace podlane::lane
