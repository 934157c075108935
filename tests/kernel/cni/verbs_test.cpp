// DEL, CHECK, GC, STATUS, VERSION, and what containerd and the kubelet really sent (cases/).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/kernel/cni/cni_node.hpp"

namespace podlane::test {
namespace {

json::Value lane_conf(const CniNode& node) { return node.annotate(node.with_prev(node.conf())); }

TEST(CmdDel, SucceedsWhateverIsMissing) {
  struct Row {
    const char* name;
    std::function<void(CniNode&)> break_it;
    bool without_daemon = false;
    std::vector<std::string> environment = {};
  };
  const std::vector<Row> rows{
      {"nothing missing", [](auto&) {}},
      {"namespace gone", [](auto& n) { n.pod.remove(); }},
      {"namespace not named", [](auto& n) { n.pod.remove(); }, false, {"CNI_NETNS="}},
      {"state lost", [](auto& n) { std::filesystem::remove_all(n.dir + "/run"); }},
      {"device plugin down", [](auto&) {}, true},
      {"interface renamed", [](auto& n) {
         n.pod.ip("link set lane0 down");
         n.pod.ip("link set lane0 name mine0");
       }},
      {"interface deleted", [](auto& n) { n.pod.ip("link del lane0"); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    CniNode node;
    auto daemon = std::make_unique<DevicePluginStandIn>(node.socket);
    daemon->set_plans({node.plan(0, true)});
    ASSERT_EQ(node.call("ADD", lane_conf(node)).status, 0);
    row.break_it(node);
    if (row.without_daemon) daemon.reset();
    for (int time : {1, 2}) {
      const CniAnswer deleted = node.call("DEL", lane_conf(node), row.environment);
      EXPECT_EQ(deleted.status, 0) << time << ": " << deleted.out;
      EXPECT_EQ(deleted.out, "");
      EXPECT_EQ(node.leaks(), "");
    }
    if (row.without_daemon) {
      EXPECT_EQ(node.files("run/pending-del").size(), 1U);
    } else {
      EXPECT_TRUE(daemon->attachments().empty());
      EXPECT_TRUE(node.files("run/pending-del").empty());
    }
  }
}

TEST(CmdDel, KeepsTheLeaseWrittenDownWhenTheIpamPluginIsMissing) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true)});
  ASSERT_EQ(node.call("ADD", lane_conf(node)).status, 0);
  // The record holds the CNI_PATH of ADD, so a DEL with another one still finds the plugin.
  EXPECT_EQ(node.call("DEL", lane_conf(node), {"CNI_PATH=/nowhere"}).status, 0);
  EXPECT_EQ(node.leaks(), "");
}

TEST(CmdDel, LeavesOtherAttachmentsOfThePodAlone) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, false)});
  json::Value other = lane_conf(node);
  other["name"] = "other";
  other["tun"] = {{"name", "other0"}};
  ASSERT_EQ(node.call("ADD", lane_conf(node)).status, 0);
  daemon.set_plans({node.plan(1, false)});
  ASSERT_EQ(node.call("ADD", other).status, 0);
  // Even when the first one's record is lost and only the shared alias is left to go by.
  for (const std::string& name : node.files("run/attachments")) {
    std::stringstream text;
    text << std::ifstream(node.dir + "/" + name).rdbuf();
    if (text.str().find("\"base\"") != std::string::npos) std::filesystem::remove(node.dir + "/" + name);
  }
  EXPECT_EQ(node.call("DEL", lane_conf(node)).status, 0);
  EXPECT_NE(run({"ip", "-n", node.pod.name(), "link", "show", "lane0"}).status, 0);
  EXPECT_EQ(run({"ip", "-n", node.pod.name(), "link", "show", "other0"}).status, 0);
  EXPECT_EQ(node.call("DEL", other).status, 0);
  EXPECT_EQ(run({"ip", "-n", node.pod.name(), "link", "show", "other0"}).status, 1);
}

TEST(CmdCheck, ComparesJournalKernelAndDevicePlugin) {
  struct Row {
    const char* name;
    int code;
    std::function<void(CniNode&, DevicePluginStandIn&)> break_it;
  };
  const std::vector<Row> rows{
      {"as it was", 0, [](auto&, auto&) {}},
      {"link gone", 106, [](auto& n, auto&) { n.pod.ip("link del lane0"); }},
      {"link down", 106, [](auto& n, auto&) { n.pod.ip("link set lane0 down"); }},
      {"address gone", 106, [](auto& n, auto&) { n.pod.ip("addr del 10.9.0.50/24 dev lane0"); }},
      {"rule gone", 106, [](auto& n, auto&) { n.pod.ip("rule del from 10.9.0.50"); }},
      {"lease gone", 105, [](auto& n, auto&) { std::filesystem::remove_all(n.host_local_dir() + "/podlane-feed"); }},
      {"device plugin differs", 102,
       [](auto&, auto& d) { d.refuse("check", lane::ControlCode::kRefused, "lane feed-0 is not steered"); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    CniNode node;
    auto daemon = std::make_unique<DevicePluginStandIn>(node.socket);
    lane::LanePlan plan = node.plan(0, std::string(row.name) == "lease gone");
    daemon->set_plans({plan});
    const CniAnswer added = node.call("ADD", lane_conf(node));
    ASSERT_EQ(added.status, 0) << added.out;
    json::Value check = lane_conf(node);
    check["prevResult"] = added.json;
    row.break_it(node, *daemon);
    const CniAnswer answer = node.call("CHECK", check);
    if (row.code == 105) {
      EXPECT_NE(answer.status, 0) << answer.out;  // host-local's own code.
    } else {
      EXPECT_EQ(answer.code(), row.code) << answer.out;
    }
    daemon.reset();
    if (row.code == 0) {
      EXPECT_EQ(node.call("CHECK", check).status, 0) << "the device plugin may be restarting";
    }
    EXPECT_EQ(node.call("DEL", check).status, 0);
    EXPECT_TRUE(row.code == 105 || node.leaks().empty()) << node.leaks();
  }
  CniNode node;
  EXPECT_EQ(node.call("CHECK", lane_conf(node)).code(), 3);
  EXPECT_EQ(node.call("CHECK", node.annotate(node.with_prev(node.conf("0.3.1")))).code(), 1);
}

TEST(CmdGc, DeletesWhatIsNotListedUnderEitherKey) {
  for (const std::string key : {"cni.dev/valid-attachments", "cni.dev/attachments"}) {
    SCOPED_TRACE(key);
    CniNode node;
    DevicePluginStandIn daemon(node.socket);
    daemon.set_plans({node.plan(0, true)});
    ASSERT_EQ(node.call("ADD", lane_conf(node)).status, 0);
    json::Value gc = node.conf();
    gc[key] = json::Value::array({{{"containerID", node.container_id}, {"ifname", "eth0"}}});
    const std::vector<std::string> none{"CNI_CONTAINERID=", "CNI_NETNS=", "CNI_IFNAME=", "CNI_ARGS="};
    CniAnswer collected = node.call("GC", gc, none);
    EXPECT_EQ(collected.status, 0) << collected.out;
    EXPECT_NE(node.pod.ip("link show lane0").find("lane0"), std::string::npos);
    EXPECT_EQ(daemon.attachments().size(), 1U);

    gc["name"] = "elsewhere";
    gc[key] = json::Value::array();
    EXPECT_EQ(node.call("GC", gc, none).status, 0);
    EXPECT_EQ(daemon.attachments().size(), 1U) << "another network's list says nothing of ours";

    gc["name"] = "base";
    collected = node.call("GC", gc, none);
    EXPECT_EQ(collected.status, 0) << collected.out;
    EXPECT_EQ(node.leaks(), "");
    EXPECT_TRUE(daemon.attachments().empty());
  }
  CniNode node;
  EXPECT_EQ(node.call("GC", node.conf()).code(), 7);
  EXPECT_EQ(node.call("GC", node.conf("1.0.0")).code(), 1);
}

// The IPAM plugin frees whatever its list leaves out.
TEST(CmdGc, GivesNoIpamPluginAListWithoutARecordThatCannotBeRead) {
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  lane::LanePlan plan = node.plan(0, true);
  (*plan.ipam)["type"] = "recorder";
  daemon.set_plans({plan});
  const std::string plugin = node.dir + "/recorder", list = node.dir + "/gc";
  std::ofstream(plugin) << "#!/bin/sh\n"
                           "case $CNI_COMMAND in\n"
                           "ADD) echo '{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"10.9.0.60/24\"}]}' ;;\n"
                           "GC) cat >"
                        << list << " ;;\nesac\n";
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  const std::string path = "CNI_PATH=" + node.dir;
  const CniAnswer added = node.call("ADD", lane_conf(node), {path});
  ASSERT_EQ(added.status, 0) << added.out;
  json::Value gc = node.conf();
  gc["cni.dev/valid-attachments"] = json::Value::array({{{"containerID", node.container_id}, {"ifname", "eth0"}}});
  const std::vector<std::string> none{"CNI_CONTAINERID=", "CNI_NETNS=", "CNI_IFNAME=", "CNI_ARGS=", path};
  const std::string unreadable = node.conf()["stateDir"].get<std::string>() + "/addresses/other.json";
  std::ofstream(unreadable) << "{";
  const CniAnswer collected = node.call("GC", gc, none);
  EXPECT_NE(collected.status, 0) << collected.out;
  EXPECT_NE(collected.message().find("other.json"), std::string::npos) << collected.out;
  EXPECT_FALSE(std::filesystem::exists(list));
  std::filesystem::remove(unreadable);
  EXPECT_EQ(node.call("GC", gc, none).status, 0);
  EXPECT_TRUE(std::filesystem::exists(list));
  EXPECT_EQ(node.call("DEL", lane_conf(node), {path}).status, 0);
}

TEST(CmdStatus, SpeaksOfTheDevicePluginOnlyWhenAsked) {
  CniNode node;
  json::Value conf = node.conf();
  EXPECT_EQ(node.call("STATUS", conf).out, "");
  conf["statusPolicy"] = "daemon";
  EXPECT_EQ(node.call("STATUS", conf).code(), 50);
  DevicePluginStandIn daemon(node.socket);
  EXPECT_EQ(node.call("STATUS", conf).status, 0);
  daemon.refuse("status", lane::ControlCode::kNotReady, "kubelet does not answer");
  EXPECT_EQ(node.call("STATUS", conf).code(), 50);
}

TEST(CmdVersion, NeedsNothing) {
  for (const char* text : {"", "{\"cniVersion\":\"1.0.0\"}", "garbage"}) {
    const CommandResult result = run({program()}, text, {"CNI_COMMAND=VERSION"});
    EXPECT_EQ(result.status, 0) << result.out;
    EXPECT_NE(result.out.find("\"supportedVersions\":[\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]"), std::string::npos);
  }
  EXPECT_NE(run({program()}, "{}", {"CNI_COMMAND=DO"}).out.find("\"code\":4"), std::string::npos);
}

// What containerd 2.1 under kubelet 1.36 sent; only paths of this test's own are put in.
TEST(RecordedCases, WorkInTheirOrder) {
  const char* source = std::getenv("PODLANE_SOURCE");
  const std::string folder = std::string(source != nullptr ? source : ".") + "/tests/kernel/cni/cases/";
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true)});
  for (const char* name : {"status", "add", "del", "del-again-no-netns", "status"}) {
    SCOPED_TRACE(name);
    std::stringstream text;
    text << std::ifstream(folder + "containerd-2.1-kubelet-1.36-" + name + ".json").rdbuf();
    const auto recorded = json::parse(text.str());
    ASSERT_TRUE(recorded) << recorded.error().message();
    json::Value conf = (*recorded)["stdin"];
    for (const char* key : {"runDir", "stateDir", "socket", "logFile"}) conf[key] = node.conf()[key];
    std::vector<std::string> environment;
    for (const auto& [key, value] : (*recorded)["env"].items()) {
      std::string word = value.get<std::string>();
      if (key == "CNI_NETNS" && !word.empty()) word = node.pod.path();
      if (key == "CNI_PATH") word = "/usr/lib/cni";
      environment.push_back(key + "=" + word);
    }
    const CniAnswer answer = node.call((*recorded)["env"]["CNI_COMMAND"].get<std::string>(), conf, environment);
    ASSERT_EQ(answer.status, 0) << answer.out;
    if (std::string(name) == "add") {
      EXPECT_EQ(answer.json["interfaces"].size(), 3U);
      EXPECT_EQ(answer.json["interfaces"][2]["name"], "lane0");
      EXPECT_EQ(daemon.last_attach().annotations.size(), 3U);
      EXPECT_EQ(daemon.last_attach().pod.uid, "940f5a36-b0e0-45e4-b845-a270830cf5ff");
    } else {
      EXPECT_EQ(answer.out, "");
      EXPECT_EQ(node.leaks(), "");
    }
  }
  EXPECT_TRUE(daemon.attachments().empty());
}

}  // namespace
}  // namespace podlane::test
