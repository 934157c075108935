// A device plugin that takes a request and does not answer (in time): what it may hold must be asked back, now or by
// the record in pending-del.
#include <gtest/gtest.h>

#include "tests/kernel/cni/cni_node.hpp"

namespace podlane::test {
namespace {

TEST(CmdDel, ReturnsInTimeAndLeavesADeleteThatWaits) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true)});
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  ASSERT_EQ(node.call("ADD", conf).status, 0);
  daemon.answer_late("detach", std::chrono::seconds(60));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, patient(std::chrono::seconds(7)));
  EXPECT_EQ(node.leaks(), "");
  EXPECT_EQ(node.files("run/pending-del").size(), 1U);
}

// Under load a detach needs more than a second or two: the time is there, so it is used.
TEST(CmdDel, WaitsForADevicePluginThatIsOnlySlow) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true)});
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  ASSERT_EQ(node.call("ADD", conf).status, 0);
  daemon.answer_late("detach", std::chrono::milliseconds(2500));
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
  EXPECT_TRUE(node.files("run/pending-del").empty());
}

TEST(CmdAddLanes, WaitsForADevicePluginThatIsOnlySlow) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, false)});
  daemon.answer_late("attach", std::chrono::seconds(18));
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  const CniAnswer added = node.call("ADD", conf);
  EXPECT_EQ(added.status, 0) << added.out;
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddLanes, ARequestThatWasTakenButNotAnsweredIsAskedBackLater) {
  CniNode node;
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  {
    DevicePluginStandIn daemon(node.socket);
    daemon.set_plans({node.plan(0, false)});
    daemon.vanish_at("attach");
    EXPECT_NE(node.call("ADD", conf).status, 0);
    EXPECT_EQ(daemon.attachments().size(), 1U);
  }
  EXPECT_EQ(node.leaks(), "");
  ASSERT_EQ(node.files("run/pending-del").size(), 1U);

  // The same container again while that waits: refused as long as nobody can be asked, settled first as soon as one
  // can.
  const CniAnswer refused = node.call("ADD", conf);
  EXPECT_EQ(refused.code(), 11) << refused.out;
  EXPECT_NE(refused.message().find(node.socket), std::string::npos) << refused.out;
  EXPECT_EQ(node.files("run/pending-del").size(), 1U);
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, false)});
  EXPECT_EQ(node.call("ADD", conf).status, 0);
  EXPECT_EQ(daemon.requests(), (std::vector<std::string>{"detach", "attach", "commit"}));
  EXPECT_TRUE(node.files("run/pending-del").empty());
  EXPECT_EQ(node.call("DEL", conf).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdAddLanes, AStaleSocketFileLeavesNothingToAskBack) {
  CniNode node;
  const std::string kept = node.socket + ".kept";
  {
    const DevicePluginStandIn daemon(node.socket);
    must_run("ln " + node.socket + " " + kept);
  }
  must_run("mv " + kept + " " + node.socket);
  EXPECT_EQ(node.call("ADD", node.annotate(node.with_prev(node.conf()))).code(), 11);
  EXPECT_EQ(node.leaks(), "");
  EXPECT_TRUE(node.files("run/pending-del").empty());
}

TEST(CmdAddLanes, TellsTheDevicePluginMtuAndQueuesOfTheTun) {
  struct Row {
    const char* name;
    json::Value tun;
    std::uint32_t mtu, queues;
  };
  const Row rows[] = {{"the pool's", json::Value::object(), 1400, 1},
                      {"smaller", {{"mtu", 1300}}, 1300, 1},
                      {"bigger", {{"mtu", 9000}}, 1400, 1},
                      {"queues", {{"queues", 3}}, 1400, 3}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    for (const bool with_ipam : {false, true}) {
      CniNode node;
      DevicePluginStandIn daemon(node.socket);
      daemon.set_plans({node.plan(0, with_ipam)});
      json::Value conf = node.annotate(node.with_prev(node.conf()));
      conf["tun"] = row.tun;
      const CniAnswer added = node.call("ADD", conf);
      ASSERT_EQ(added.status, 0) << added.out;
      for (const char* verb : {"commit", "check"}) {
        SCOPED_TRACE(verb);
        ASSERT_EQ(daemon.last_lanes().size(), 1U);
        EXPECT_EQ(daemon.last_lanes()[0].mtu, row.mtu);
        EXPECT_EQ(daemon.last_lanes()[0].queues, row.queues);
        json::Value check = conf;
        check["prevResult"]["interfaces"].push_back({{"name", "lane0"}});
        EXPECT_EQ(node.call("CHECK", check).out, "");
      }
      EXPECT_NE(node.pod.ip("link show lane0").find("mtu " + std::to_string(row.mtu)), std::string::npos);
      EXPECT_EQ(node.call("DEL", conf).status, 0);
      EXPECT_EQ(node.leaks(), "");
    }
  }
}

}  // namespace
}  // namespace podlane::test
