// Lanes, chained and standalone: what ADD makes, prints and asks for; what a failed ADD leaves (nothing).
#include <gtest/gtest.h>
#include <net/if.h>

#include "lib/base/scope_guard.hpp"
#include "tests/kernel/cni/cni_node.hpp"

namespace podlane::test {
namespace {

TEST(CmdAddLanes, AppendsOneInterfacePerLaneAndChangesNothingElse) {
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0", "1.1.0"}) {
    SCOPED_TRACE(version);
    CniNode node;
    DevicePluginStandIn daemon(node.socket);
    lane::LanePlan first = node.plan(0, true), second = node.plan(1, true);
    first.pci_id = "0000:01:00.0";
    daemon.set_plans({first, second});
    const json::Value conf = node.annotate(node.with_prev(node.conf(version)));

    const CniAnswer added = node.call("ADD", conf);
    ASSERT_EQ(added.status, 0) << added.out;
    json::Value expected = conf["prevResult"];
    for (int n : {0, 1}) {
      json::Value interface {
        {"name", "lane" + std::to_string(n)}, { "sandbox", node.pod.path() }
      };
      if (version == "1.1.0") {
        interface["mtu"] = 1400;
        interface["socketPath"] = node.plan(n, true).socket_path;
        if (n == 0) interface["pciID"] = "0000:01:00.0";
      }
      expected["interfaces"].push_back(interface);
    }
    EXPECT_EQ(json::dump(added.json), json::dump(expected));  // Order of keys included.

    EXPECT_EQ(node.call("DEL", node.with_prev(conf)).status, 0);
    EXPECT_EQ(node.leaks(), "");
    EXPECT_TRUE(daemon.attachments().empty());
  }
}

TEST(CmdAddLanes, GivesEachLaneAddressesTableAndRulesOfItsOwn) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true), node.plan(1, true)});
  const std::string main_before = node.pod.ip("route show table main");
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  ASSERT_EQ(node.call("ADD", conf).status, 0);

  EXPECT_EQ(daemon.requests(), (std::vector<std::string>{"attach", "commit"}));
  EXPECT_TRUE(daemon.netns_came());
  EXPECT_EQ(daemon.last_attach().pod.name, "engine-0");
  EXPECT_EQ(daemon.last_attach().pod.uid, "u-1");
  ASSERT_EQ(daemon.last_lanes().size(), 2U);
  for (const lane::LaneMade& made : daemon.last_lanes()) {
    SCOPED_TRACE(made.tun_name);
    std::string link;
    EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {  // `ip` learns of the carrier by the kernel's link watch.
      link = node.pod.ip("-d link show " + made.tun_name);
      return link.find("NO-CARRIER") != std::string::npos;
    })) << link;
    EXPECT_NE(link.find("alias podlane:" + node.container_id), std::string::npos) << link;
    EXPECT_NE(link.find("mtu 1400"), std::string::npos) << link;
    EXPECT_NE(link.find("qlen 1000"), std::string::npos) << link;
    EXPECT_NE(link.find("addrgenmode none"), std::string::npos) << link;
    EXPECT_NE(link.find("user 4294967294"), std::string::npos);
    const std::string table = std::to_string(20000 + made.tun_ifindex);
    ASSERT_EQ(made.addresses.size(), 2U);
    for (const std::string& address : made.addresses) {
      const bool ipv6 = address.find(':') != std::string::npos;
      const std::string family = ipv6 ? "-6 " : "-4 ";
      EXPECT_NE(node.pod.ip("addr show dev " + made.tun_name).find(address), std::string::npos);
      const std::string rule = "from " + address.substr(0, address.find('/')) + " lookup " + table;
      EXPECT_NE(node.pod.ip(family + "rule").find(rule), std::string::npos) << node.pod.ip(family + "rule");
      const std::string routes = node.pod.ip(family + "route show table " + table);
      EXPECT_NE(routes.find((ipv6 ? "fd00:9::/64 dev " : "10.9.0.0/24 dev ") + made.tun_name), std::string::npos)
          << routes;
      EXPECT_NE(routes.find(ipv6 ? "default via fd00:9::1" : "default via 10.9.0.1"), std::string::npos) << routes;
    }
    for (const char* family : {"ipv4", "ipv6"}) {
      node.pod.inside([&] {
        EXPECT_EQ(must_run("cat /proc/sys/net/" + std::string(family) + "/conf/" + made.tun_name +
                           "/ignore_routes_with_linkdown"),
                  "1\n");
      });
    }
  }
  EXPECT_EQ(node.pod.ip("route show table main"), main_before);
  EXPECT_EQ(node.call("CHECK",
                      [&] {
                        json::Value check = conf;
                        check["prevResult"]["interfaces"].push_back({{"name", "lane0"}});
                        check["prevResult"]["interfaces"].push_back({{"name", "lane1"}});
                        return check;
                      }())
                .out,
            "");
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

// The device plugin makes a veth lane's pair closed (lib/net/veth_pair.hpp).
TEST(CmdAddLanes, OpensTheVethPairThatTheDevicePluginMade) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  const std::string host_end = random_name("pltv");
  must_run("ip link add " + host_end + " mtu 1279 type veth peer name lane0v mtu 1279 netns " + node.pod.name());
  const ScopeGuard remove_pair([&] { must_run("ip link del " + host_end); });
  lane::LanePlan plan = node.plan(0, true);
  plan.veth.host = IfIndex(static_cast<int>(::if_nametoindex(host_end.c_str())));
  node.pod.inside([&] { plan.veth.pod = IfIndex(static_cast<int>(::if_nametoindex("lane0v"))); });
  daemon.set_plans({plan});
  ASSERT_EQ(node.call("ADD", node.annotate(node.with_prev(node.conf()))).status, 0);
  const std::string ends[] = {must_run("ip -d link show " + host_end), node.pod.ip("-d link show lane0v")};
  for (const std::string& end : ends) {
    EXPECT_NE(end.find(",UP"), std::string::npos) << end;
    EXPECT_NE(end.find("mtu 1400"), std::string::npos) << end;
    EXPECT_NE(end.find("addrgenmode none"), std::string::npos) << end;
  }
  EXPECT_EQ(node.call("DEL", node.annotate(node.conf())).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddLanes, AsksHostLocalForTheFixedAddressUnderTheLanesOwnKey) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  lane::LanePlan plan = node.plan(0, true);
  plan.fixed_addresses = {"10.9.0.77/24"};
  daemon.set_plans({plan});
  // Only one family has a fixed address; host-local gives the other from its range.
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  const CniAnswer added = node.call("ADD", conf);
  ASSERT_EQ(added.status, 0) << added.out;
  ASSERT_EQ(daemon.last_lanes()[0].addresses[0], "10.9.0.77/24");
  const auto leases = node.files("host-local");
  EXPECT_NE(std::ranges::find(leases, "host-local/podlane-feed/10.9.0.77"), leases.end());
  EXPECT_EQ(must_run("cat " + node.host_local_dir() + "/podlane-feed/10.9.0.77"), node.container_id + "\r\nlane0");

  // A second pod asks for the same address: refused in host-local's words, and nothing of it stays.
  CniNode other;
  DevicePluginStandIn other_daemon(other.socket);
  other_daemon.set_plans({plan});
  const CniAnswer refused = other.call("ADD", other.annotate(other.with_prev(other.conf())));
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.message().find("10.9.0.77"), std::string::npos) << refused.out;
  EXPECT_EQ(other.leaks(), "");
  EXPECT_EQ(other_daemon.requests(), (std::vector<std::string>{"attach", "detach"}));

  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddLanes, AFailureAtAnyStepLeavesNothing) {
  struct Row {
    const char* name;
    int code;
    const char* words;
    std::function<void(CniNode&, DevicePluginStandIn&)> prepare;
  };
  const std::vector<Row> rows{
      {"no lane", 100, "pod holds none",
       [](auto&, auto& d) { d.refuse("attach", lane::ControlCode::kNoLane, "pod holds none"); }},
      {"device gone", 101, "eth1", [](auto&, auto& d) { d.refuse("attach", lane::ControlCode::kGone, "eth1 went"); }},
      {"policy", 102, "mode", [](auto&, auto& d) { d.refuse("attach", lane::ControlCode::kRefused, "mode 'x'"); }},
      {"starting", 11, "starting",
       [](auto&, auto& d) { d.refuse("attach", lane::ControlCode::kNotReady, "starting"); }},
      {"veth pair gone", 104, "open the veth of feed-0",
       [](auto& n, auto& d) {
         lane::LanePlan plan = n.plan(0, true);
         plan.veth = {.host = IfIndex(0x7ffffff0), .pod = IfIndex(0x7ffffff0)};
         d.set_plans({plan});
       }},
      {"commit refused", 104, "map full",
       [](auto&, auto& d) { d.refuse("commit", lane::ControlCode::kInternal, "map full"); }},
      {"commit dropped", 103, "closed", [](auto&, auto& d) { d.drop_connections_of("commit"); }},
      {"interface taken", 107, "lane1", [](auto& n, auto&) { n.pod.ip("link add lane1 type veth peer name other"); }},
      {"IPAM plugin missing", 105, "nosuch",
       [](auto& n, auto& d) {
         lane::LanePlan plan = n.plan(0, true);
         (*plan.ipam)["type"] = "nosuch";
         d.set_plans({plan});
       }},
      {"neither IPAM nor address", 102, "podlane.io/addresses.feed",
       [](auto& n, auto& d) {
         lane::LanePlan plan = n.plan(0, false);
         plan.fixed_addresses.clear();
         d.set_plans({plan});
       }},
      {"address outside the subnets", 102, "outside the subnets",
       [](auto& n, auto& d) {
         lane::LanePlan plan = n.plan(0, true);
         plan.subnets = {"10.8.0.0/16"};
         d.set_plans({plan});
       }},
      {"no lanes in the plan", 103, "no lane", [](auto&, auto& d) { d.set_plans({}); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    CniNode node;
    DevicePluginStandIn daemon(node.socket);
    daemon.set_plans({node.plan(0, true), node.plan(1, true)});
    row.prepare(node, daemon);
    const json::Value conf = node.annotate(node.with_prev(node.conf()));
    const CniAnswer answer = node.call("ADD", conf);
    EXPECT_NE(answer.status, 0);
    EXPECT_EQ(answer.code(), row.code) << answer.out;
    EXPECT_NE(answer.message().find(row.words), std::string::npos) << answer.out;
    EXPECT_EQ(answer.json["cniVersion"], "1.1.0");
    EXPECT_EQ(node.leaks(), "");
    EXPECT_TRUE(daemon.attachments().empty());
    EXPECT_EQ(node.call("DEL", conf).status, 0);
  }
}

TEST(CmdAddLanes, FailsClosedWithoutDevicePluginAndSaysWhere) {
  CniNode node;
  const CniAnswer answer = node.call("ADD", node.annotate(node.with_prev(node.conf())));
  EXPECT_EQ(answer.code(), 11) << answer.out;
  EXPECT_NE(answer.message().find(node.socket), std::string::npos) << answer.out;
  EXPECT_EQ(node.leaks(), "");
  EXPECT_TRUE(node.files("run/pending-del").empty());
}

TEST(CmdAddLanes, RefusesASecondAddAndKeepsTheFirst) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, false)});
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  ASSERT_EQ(node.call("ADD", conf).status, 0);
  EXPECT_EQ(node.call("ADD", conf).code(), 107);
  EXPECT_NE(node.pod.ip("link show lane0").find("lane0"), std::string::npos);
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddLanes, StandaloneMakesTheFirstLaneCniIfname) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, false), node.plan(1, false)});
  const json::Value conf = node.annotate(node.conf());
  const CniAnswer added = node.call("ADD", conf, {"CNI_IFNAME=net1"});
  ASSERT_EQ(added.status, 0) << added.out;
  EXPECT_EQ(added.json["interfaces"][0]["name"], "net1");
  EXPECT_EQ(added.json["interfaces"][1]["name"], "lane1");
  EXPECT_EQ(added.json["ips"][0]["address"], "10.9.0.50/24");
  EXPECT_EQ(added.json["ips"][1]["interface"], 1);
  EXPECT_EQ(node.call("DEL", conf, {"CNI_IFNAME=net1"}).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

}  // namespace
}  // namespace podlane::test
