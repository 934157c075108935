// Pods without annotation, plain TUNs, standalone networks with their own IPAM, bad values.
#include <gtest/gtest.h>

#include "tests/kernel/cni/cni_node.hpp"

namespace podlane::test {
namespace {

TEST(CmdAddPlain, APodWithoutAnnotationCostsNothing) {
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0", "1.1.0"}) {
    SCOPED_TRACE(version);
    CniNode node;  // No device plugin.
    const json::Value conf =
        node.annotate(node.with_prev(node.conf(version)), {{"app", "x"}, {"podlane.io/status", "y"}});
    // Not even the namespace is opened: a path that does not exist must not matter.
    const CniAnswer added = node.call("ADD", conf, {"CNI_NETNS=/run/netns/nosuch"});
    EXPECT_EQ(added.status, 0) << added.out;
    EXPECT_EQ(json::dump(added.json), json::dump(conf["prevResult"]));
    if (version != "0.3.1") {
      EXPECT_EQ(node.call("CHECK", conf).out, "");
    }
    EXPECT_EQ(node.call("DEL", conf).out, "");
    EXPECT_EQ(node.files("").size(), 1U) << "the log file alone, which NetConf asks for";
  }
}

TEST(CmdAddPlain, HandsOnAResultOfAnotherVersionInTheOneAskedFor) {
  CniNode node;
  json::Value conf = node.with_prev(node.conf("0.4.0"));
  conf["cniVersion"] = "1.0.0";
  const CniAnswer added = node.call("ADD", conf);
  ASSERT_EQ(added.status, 0) << added.out;
  EXPECT_EQ(added.json["cniVersion"], "1.0.0");
  EXPECT_FALSE(added.json["ips"][0].contains("version"));
}

TEST(CmdAddPlain, SelectAllGivesEveryPodATunWithoutDevicePlugin) {
  CniNode node;
  json::Value conf = node.with_prev(node.conf());
  conf["select"] = "all";
  conf["tun"] = {{"name", "tun7"},
                 {"owner", 1234},
                 {"mtu", 1380},
                 {"txQueueLen", 55},
                 {"queues", 2},
                 {"offloads", {"checksum", "tso"}},
                 {"addresses", {"10.1.2.3/24", "fd00::3/64"}},
                 {"routes", {{{"dst", "10.7.0.0/16"}, {"gw", "10.1.2.1"}}, {{"dst", "fd07::/32"}}}}};
  const CniAnswer added = node.call("ADD", conf);
  ASSERT_EQ(added.status, 0) << added.out;
  EXPECT_EQ(added.json["interfaces"][2]["name"], "tun7");
  EXPECT_EQ(added.json["ips"], conf["prevResult"]["ips"]);
  std::string link;
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {  // `ip` learns of the carrier by the kernel's link watch.
    link = node.pod.ip("-d link show tun7");
    return link.find("NO-CARRIER") != std::string::npos;
  })) << link;
  for (const char* words : {"mtu 1380", "qlen 55", "user 1234", "multi_queue"}) {
    EXPECT_NE(link.find(words), std::string::npos) << words << " in " << link;
  }
  EXPECT_NE(node.pod.ip("route").find("10.7.0.0/16 via 10.1.2.1 dev tun7"), std::string::npos);
  EXPECT_NE(node.pod.ip("-6 route").find("fd07::/32 dev tun7"), std::string::npos);
  EXPECT_NE(must_run("ip netns exec " + node.pod.name() + " ethtool -k tun7").find("tcp-segmentation-offload: on"),
            std::string::npos);
  json::Value check = conf;
  check["prevResult"] = added.json;
  EXPECT_EQ(node.call("CHECK", check).out, "");
  node.pod.ip("link set tun7 mtu 1300");
  EXPECT_EQ(node.call("CHECK", check).code(), 106);
  EXPECT_EQ(node.call("DEL", check).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddPlain, StandaloneDelegatesItsOwnIpamUnderItsOwnName) {
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0"}) {  // host-local 1.1.1 does not know 1.1.0.
    SCOPED_TRACE(version);
    CniNode node;
    json::Value conf = node.conf(version);
    conf["tun"] = {{"owner", 1000}};
    conf["ipam"] = {{"type", "host-local"},
                    {"dataDir", node.host_local_dir()},
                    {"ranges", {{{{"subnet", "10.20.0.0/24"}, {"gateway", "10.20.0.1"}}}}},
                    {"routes", {{{"dst", "10.30.0.0/16"}}}}};
    const std::vector<std::string> ifname{"CNI_IFNAME=net1"};
    const CniAnswer added = node.call("ADD", conf, ifname);
    ASSERT_EQ(added.status, 0) << added.out;
    json::Value address = json::Value::object();
    if (version != "1.0.0") address["version"] = "4";
    address["address"] = "10.20.0.2/24";
    address["gateway"] = "10.20.0.1";
    address["interface"] = 0;
    const json::Value expected{{"cniVersion", version},
                               {"interfaces", {{{"name", "net1"}, {"sandbox", node.pod.path()}}}},
                               {"ips", json::Value::array({address})},
                               {"routes", {{{"dst", "10.30.0.0/16"}}}},
                               {"dns", json::Value::object()}};
    EXPECT_EQ(json::dump(added.json), json::dump(expected));
    EXPECT_EQ(must_run("cat " + node.host_local_dir() + "/base/10.20.0.2"), node.container_id + "\r\nnet1");
    EXPECT_NE(node.pod.ip("route").find("10.30.0.0/16 dev net1"), std::string::npos);
    if (version != "0.3.1") {
      json::Value check = conf;
      check["prevResult"] = added.json;
      EXPECT_EQ(node.call("CHECK", check, ifname).out, "");
    }
    EXPECT_EQ(node.call("DEL", conf, ifname).status, 0);
    EXPECT_EQ(node.leaks(), "");
    EXPECT_EQ(node.call("DEL", conf, {"CNI_IFNAME=net1", "CNI_NETNS="}).status, 0);
  }
}

TEST(CmdAddPlain, WrongValuesSayKeyValueAndWhatWouldBeRight) {
  struct Row {
    const char* patch;  // Merged into NetConf.
    int code;
    std::vector<const char*> words;
  };
  const std::vector<Row> rows{
      {R"({"cniVersion":"0.2.0"})", 1, {"0.2.0", "0.3.1, 0.4.0, 1.0.0, 1.1.0"}},
      {R"({"name":"-x"})", 7, {"name", "-x"}},
      {R"({"tun":[]})", 7, {"tun"}},
      {R"({"tun":{"nam":"lane0"}})", 2, {"tun.nam", "name"}},
      {R"({"tun":{"name":"much-too-long-name"}})", 7, {"tun.name", "much-too-long-name", "15"}},
      {R"({"tun":{"name":"a/b"}})", 7, {"tun.name", "a/b"}},
      {R"({"tun":{"mtu":67}})", 7, {"tun.mtu", "67", "68", "65535"}},
      {R"({"tun":{"mtu":"1500"}})", 7, {"tun.mtu", "1500", "whole number"}},
      {R"({"tun":{"txQueueLen":0}})", 7, {"tun.txQueueLen", "0"}},
      {R"({"tun":{"queues":257}})", 7, {"tun.queues", "257", "256"}},
      {R"({"tun":{"owner":0}})", 7, {"tun.owner", "0", "1"}},
      {R"({"tun":{"offloads":["gso"]}})", 7, {"tun.offloads", "gso", "checksum, tso, uso"}},
      {R"({"tun":{"offloads":["tso"]}})", 7, {"tun.offloads", "checksum"}},
      {R"({"tun":{"addresses":["10.0.0.1"]}})", 7, {"tun.addresses", "10.0.0.1"}},
      {R"({"tun":{"addresses":["10.0.0.1/33"]}})", 7, {"tun.addresses", "33", "32"}},
      {R"({"tun":{"routes":[{"dst":"10.0.0.1/8"}]}})", 7, {"tun.routes[0].dst", "10.0.0.0/8"}},
      {R"({"tun":{"routes":[{"dst":"10.0.0.0/8","gw":"fd00::1"}]}})", 7, {"tun.routes[0].gw", "family"}},
      {R"({"tun":{"routes":[{"dst":"10.0.0.0/8"}]}})", 7, {"tun.routes", "all"}},
      {R"({"select":"some"})", 7, {"select", "some", "annotated"}},
      {R"({"select":"all"})", 7, {"tun.owner"}},
      {R"({"socket":"c.sock"})", 7, {"socket", "c.sock", "absolute"}},
      {R"({"logLevel":"loud"})", 7, {"logLevel", "loud", "debug"}},
      {R"({"statusPolicy":"x"})", 7, {"statusPolicy", "x"}},
      {R"({"ipam":{"type":"host-local"}})", 7, {"ipam", "chained"}},
      {R"({"ipam":{"type":"../x"}})", 7, {"ipam.type", "../x"}},
      {R"({"prevResult":3})", 7, {"prevResult"}},
      {R"({"prevResult":{"ips":3}})", 7, {"prevResult.ips"}},
      {R"({"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"podlane.io/lanes":3}}})", 7, {"podlane.io/lanes"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.patch);
    CniNode node;
    json::Value conf = node.with_prev(node.conf());
    const auto patch = json::parse(row.patch);
    for (const auto& [key, value] : patch->items()) conf[key] = value;
    const CniAnswer answer = node.call("ADD", conf);
    EXPECT_NE(answer.status, 0);
    EXPECT_EQ(answer.code(), row.code) << answer.out;
    for (const char* words : row.words) EXPECT_NE(answer.message().find(words), std::string::npos) << answer.out;
    EXPECT_EQ(node.leaks(), "");
    if (row.code != 1 && std::string(row.patch).find("name\":\"-x") == std::string::npos) {
      EXPECT_EQ(node.call("DEL", conf).status, 0) << "DEL must work with what ADD refused";
    }
  }
}

TEST(CmdAddPlain, RefusesWhatIsNotNetConf) {
  CniNode node;
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("\xff\xfe"),
                                  std::string(70, '['), std::string((1 << 20) + 1, ' ')}) {
    const CniAnswer answer = node.call("ADD", json::Value(text));
    EXPECT_NE(answer.status, 0);
    EXPECT_EQ(answer.code(), 6) << answer.out;
  }
}

}  // namespace
}  // namespace podlane::test
