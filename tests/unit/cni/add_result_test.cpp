// What ADD prints, as golden texts per version.
#include "cni/spec/add_result.hpp"

#include <gtest/gtest.h>

namespace podlane::cni {
namespace {

json::Value value_of(const std::string& text) {
  auto value = json::parse(text);
  if (!value) ADD_FAILURE() << value.error().message();
  return value ? std::move(*value) : json::Value();
}

net::IpPrefix prefix(const std::string& text) {
  auto parsed = net::parse_ip_prefix(text);
  if (!parsed) ADD_FAILURE() << parsed.error().message();
  return parsed ? *parsed : net::IpPrefix{};
}
net::IpAddress address(const std::string& text) {
  auto parsed = net::parse_ip(text);
  if (!parsed) ADD_FAILURE() << parsed.error().message();
  return parsed ? *parsed : net::IpAddress{};
}

const ResultInterface kLane{
    .name = "lane0", .sandbox = "/run/netns/a", .mtu = 1400, .socket_path = "/run/podlane/lanes/x/0/handover.sock",
    .pci_id = "0000:01:00.0"};

struct VersionRow {
  const char* name;
  Version version;
  const char* golden;
};

TEST(OwnResult, IsGoldenInEachVersion) {
  const VersionRow rows[] = {
      {"0.3.1", Version::k0_3_1,
       R"({"cniVersion":"0.3.1","interfaces":[{"name":"lane0","sandbox":"/run/netns/a"}],"ips":[{"version":"4","address":"10.9.0.5/24","gateway":"10.9.0.1","interface":0},{"version":"6","address":"fd00:9::5/64","interface":0}],"routes":[{"dst":"0.0.0.0/0","gw":"10.9.0.1"},{"dst":"fd00::/8"}],"dns":{"nameservers":["10.9.0.1"]}})"},
      {"0.4.0", Version::k0_4_0,
       R"({"cniVersion":"0.4.0","interfaces":[{"name":"lane0","sandbox":"/run/netns/a"}],"ips":[{"version":"4","address":"10.9.0.5/24","gateway":"10.9.0.1","interface":0},{"version":"6","address":"fd00:9::5/64","interface":0}],"routes":[{"dst":"0.0.0.0/0","gw":"10.9.0.1"},{"dst":"fd00::/8"}],"dns":{"nameservers":["10.9.0.1"]}})"},
      {"1.0.0", Version::k1_0_0,
       R"({"cniVersion":"1.0.0","interfaces":[{"name":"lane0","sandbox":"/run/netns/a"}],"ips":[{"address":"10.9.0.5/24","gateway":"10.9.0.1","interface":0},{"address":"fd00:9::5/64","interface":0}],"routes":[{"dst":"0.0.0.0/0","gw":"10.9.0.1"},{"dst":"fd00::/8"}],"dns":{"nameservers":["10.9.0.1"]}})"},
      {"1.1.0", Version::k1_1_0,
       R"({"cniVersion":"1.1.0","interfaces":[{"name":"lane0","sandbox":"/run/netns/a","mtu":1400,"socketPath":"/run/podlane/lanes/x/0/handover.sock","pciID":"0000:01:00.0"}],"ips":[{"address":"10.9.0.5/24","gateway":"10.9.0.1","interface":0},{"address":"fd00:9::5/64","interface":0}],"routes":[{"dst":"0.0.0.0/0","gw":"10.9.0.1"},{"dst":"fd00::/8"}],"dns":{"nameservers":["10.9.0.1"]}})"},
  };
  for (const VersionRow& row : rows) {
    SCOPED_TRACE(row.name);
    const json::Value result =
        own_result({kLane}, {{prefix("10.9.0.5/24"), address("10.9.0.1"), 0}, {prefix("fd00:9::5/64"), {}, 0}},
                   {{prefix("0.0.0.0/0"), address("10.9.0.1")}, {prefix("fd00::/8"), {}}},
                   value_of(R"({"nameservers":["10.9.0.1"]})"), row.version);
    EXPECT_EQ(json::dump(result), row.golden);
  }
}

TEST(OwnResult, OfNothingStillHasItsLists) {
  EXPECT_EQ(json::dump(own_result({}, {}, {}, {}, Version::k1_1_0)),
            R"({"cniVersion":"1.1.0","interfaces":[],"ips":[],"routes":[]})");
}

TEST(TakeOver, KeepsEverythingAndOnlyMovesTheVersion) {
  const VersionRow rows[] = {
      {"same", Version::k1_0_0,
       R"({"cniVersion":"1.0.0","z":1,"ips":[{"address":"10.0.0.2/24","x":[]},{"address":"fd00::2/64"}],"a":{"b":null}})"},
      {"newer", Version::k1_1_0,
       R"({"cniVersion":"1.1.0","z":1,"ips":[{"address":"10.0.0.2/24","x":[]},{"address":"fd00::2/64"}],"a":{"b":null}})"},
      {"older", Version::k0_4_0,
       R"({"cniVersion":"0.4.0","z":1,"ips":[{"address":"10.0.0.2/24","x":[],"version":"4"},{"address":"fd00::2/64","version":"6"}],"a":{"b":null}})"},
  };
  const json::Value came = value_of(rows[0].golden);
  for (const VersionRow& row : rows) {
    SCOPED_TRACE(row.name);
    const auto result = take_over(came, row.version);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(json::dump(*result), row.golden);
  }
}

TEST(TakeOver, RefusesWhatCannotBeHandedOn) {
  for (const char* text : {"[]", R"({"ips":{}})", R"({"interfaces":"eth0"})", R"({"cniVersion":1})"}) {
    const auto result = take_over(value_of(text), Version::k1_1_0);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().code, 7);
    EXPECT_NE(result.error().message.find("prevResult"), std::string::npos) << result.error().message;
  }
}

TEST(AppendInterface, MakesTheListWhereThereIsNone) {
  for (const char* text : {R"({"cniVersion":"1.0.0"})", R"({"cniVersion":"1.0.0","interfaces":null})"}) {
    json::Value result = value_of(text);
    append_interface(result, kLane, Version::k1_0_0);
    EXPECT_EQ(json::dump(result),
              R"({"cniVersion":"1.0.0","interfaces":[{"name":"lane0","sandbox":"/run/netns/a"}]})");
  }
}

TEST(IpamResult, TakesWhatIsUsedAndRefusesTheRest) {
  struct Row {
    const char* name;
    const char* text;
    bool good;
  };
  const Row rows[] = {
      {"1.0", R"({"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/24","gateway":"10.9.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]})",
       true},
      {"0.4", R"({"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.9.0.5/24"}]})", true},
      {"empty gateway", R"({"ips":[{"address":"10.9.0.5/24","gateway":""}]})", true},
      {"no addresses", R"({"ips":[]})", false},
      {"nothing", "{}", false},
      {"no text", "", false},
      {"address without prefix", R"({"ips":[{"address":"10.9.0.5"}]})", false},
      {"gateway nonsense", R"({"ips":[{"address":"10.9.0.5/24","gateway":"x"}]})", false},
      {"route nonsense", R"({"ips":[{"address":"10.9.0.5/24"}],"routes":[{"dst":"x"}]})", false},
      {"route without destination", R"({"ips":[{"address":"10.9.0.5/24"}],"routes":[{}]})", false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto result = parse_ipam_result(row.text);
    ASSERT_EQ(result.has_value(), row.good);
    if (result) {
      EXPECT_EQ(result->addresses[0].address.to_string(), "10.9.0.5/24");
    }
  }
}

}  // namespace
}  // namespace podlane::cni
