// A lane's life with a real LaneTable, real kernel objects and a real owner, from Allocate to nothing left.
#include <gtest/gtest.h>

#include <thread>

#include "tests/kernel/lanes/node.hpp"

namespace podlane::test {
namespace {

using Annotations = std::vector<std::pair<std::string, std::string>>;

constexpr char kVethPool[] =
    R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":4,"subnets":["10.9.0.0/24"]}])";
constexpr char kQueuePool[] =
    R"([{"name":"feed","lane":"queue","devices":{"names":["@"]},"trusted":true,"subnets":["10.9.0.0/24"]}])";
constexpr char kUnboundPool[] =
    R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":4,"subnets":["10.9.0.0/24"],"handover":"unbound"}])";

std::string message_of(const lane::ControlAnswer& answer) {
  return answer.refusal ? std::string(lane::to_string(answer.refusal->code)) + ": " + answer.refusal->message : "ok";
}

void expect_nothing_left(Node& node) {
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return node.left().empty(); }));
  for (const std::string& left : node.left()) ADD_FAILURE() << "left: " << left;
}

struct KindRow {
  const char* name;
  const char* pools;
};

TEST(LaneTable, CarriesPacketsFromAllocateToDetachAndLeavesNothing) {
  for (const KindRow& row :
       {KindRow{"veth", kVethPool}, KindRow{"queue", kQueuePool}, KindRow{"unbound", kUnboundPool}}) {
    SCOPED_TRACE(row.name);
    Node node(row.pools);
    if (node.refuses_queue_pool()) continue;
    node.reserved_ms = 200;
    node.reconcile_ms = 200;
    node.start();
    node.set_pods("default p1 app feed feed-0\n");
    const std::string allocated = node.ask("allocate feed feed-0");
    ASSERT_EQ(word(allocated, 0), "ok") << allocated;
    EXPECT_EQ(word(allocated, 2), "/run/podlane/lanes/feed");
    EXPECT_EQ(word(allocated, 3), "PODLANE_LANES_FEED");

    Pod pod(node, "p1", "c1");
    const auto attached = pod.attach({{"podlane.io/lanes", "feed"}, {"podlane.io/path", "direct"}});
    ASSERT_EQ(message_of(attached), "ok");
    ASSERT_EQ(attached.lanes.size(), 1U);
    EXPECT_EQ(attached.lanes[0].socket_path, word(allocated, 1) + "/0/handover.sock");
    // Repeated: the same answer.
    EXPECT_EQ(lane::encode(pod.attach({{"podlane.io/lanes", "feed"}, {"podlane.io/path", "direct"}})),
              lane::encode(attached));
    EXPECT_NE(node.ask("pre-start feed feed-0").find("CNI ADD"), std::string::npos);
    ASSERT_EQ(message_of(pod.commit({"10.9.0.50/24"})), "ok");
    EXPECT_EQ(message_of(pod.check({"10.9.0.50/24"})), "ok");
    EXPECT_NE(message_of(pod.check({"10.9.0.51/24"})), "ok");
    EXPECT_EQ(node.ask("pre-start feed feed-0"), "ok");

    ASSERT_EQ(pod.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
    EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
    EXPECT_TRUE(eventually(std::chrono::seconds(2), [&] {
      return node.lanes_json().find("\"state\":\"serving\"") != std::string::npos;
    })) << node.lanes_json();
    // Its owner dies: dropped and counted, and the next owner gets the lane.
    pod.kill_owner();
    EXPECT_TRUE(eventually(std::chrono::seconds(5),
                           [&] { return pod.open_lane(word(allocated, 1) + "/0") == "open feed-0 native"; }));
    EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
    pod.kill_owner();

    EXPECT_EQ(message_of(pod.detach()), "ok");
    EXPECT_EQ(message_of(pod.detach()), "ok");
    EXPECT_NE(node.ask("report").find("feed-0=reserved"), std::string::npos);
    node.set_pods("");
    expect_nothing_left(node);
  }
}

TEST(LaneTable, TunLaneNeedsNoNic) {
  Node node(R"([{"name":"vpn","lane":"tun","lanes":2,"subnets":["10.8.0.0/24"]}])");
  node.start();
  node.set_pods("default p1 app vpn vpn-1\n");
  ASSERT_EQ(word(node.ask("allocate vpn vpn-1"), 0), "ok");
  Pod pod(node, "p1", "c1");
  const auto attached = pod.attach({{"podlane.io/lanes", "vpn"}});
  ASSERT_EQ(message_of(attached), "ok");
  EXPECT_FALSE(attached.lanes[0].path.has_value());
  EXPECT_EQ(message_of(pod.commit({"10.8.0.2/24"})), "ok");
  EXPECT_EQ(message_of(pod.detach()), "ok");
}

TEST(LaneTable, RefusesInWords) {
  Node node(kVethPool);
  node.start();
  struct Row {
    const char* name;
    const char* pods;
    Annotations annotations;
    const char* code;
    std::vector<const char*> words;
  };
  ASSERT_EQ(word(node.ask("allocate feed feed-0 feed-1"), 0), "ok");
  const Row rows[] = {
      {"fewer",
       "default p1 app feed feed-0\n",
       {{"podlane.io/lanes", "feed=2"}},
       "no-lane",
       {"podlane.io/feed", "2", "1"}},
      {"none", "", {{"podlane.io/lanes", "feed"}}, "no-lane", {"podlane.io/feed", "asks for 1", "got 0"}},
      {"two holders",
       "default p1 a feed feed-0\ndefault p1 b feed feed-1\n",
       {{"podlane.io/lanes", "feed=2"}},
       "refused",
       {"'a'", "'b'"}},
      {"other container",
       "default p1 app feed feed-0\n",
       {{"podlane.io/lanes", "feed"}, {"podlane.io/path", "direct"}, {"podlane.io/container", "engine"}},
       "refused",
       {"'app'", "'engine'"}},
      {"unknown pool", "", {{"podlane.io/lanes", "gold"}}, "refused", {"gold"}},
      {"outside subnets",
       "default p1 app feed feed-0\n",
       {{"podlane.io/lanes", "feed"}, {"podlane.io/addresses.feed", "10.7.0.50/24"}},
       "refused",
       {"10.7.0.50/24", "10.9.0.0/24"}},
      {"taken on the wire",
       "default p1 app feed feed-0\n",
       {{"podlane.io/lanes", "feed"}, {"podlane.io/addresses.feed", "10.9.0.1/24"}},
       "refused",
       {"10.9.0.1", "taken"}},
      {"never allocated", "default p1 app feed feed-3\n", {{"podlane.io/lanes", "feed"}}, "no-lane", {"feed-3"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    node.set_pods(row.pods);
    Pod pod(node, "p1", "c1");
    const auto answer = pod.attach(row.annotations);
    ASSERT_TRUE(answer.refusal.has_value());
    EXPECT_EQ(lane::to_string(answer.refusal->code), row.code) << answer.refusal->message;
    for (const char* piece : row.words) {
      EXPECT_NE(answer.refusal->message.find(piece), std::string::npos) << answer.refusal->message;
    }
  }
  for (const char* ids : {"feed-9", "feed-0 feed-0", ""}) {
    EXPECT_EQ(word(node.ask(std::string("allocate feed ") + ids), 0), "error") << ids;
  }
}

TEST(LaneTable, ReCreatedSandboxTakesOverAndTheLateDelHarmsNobody) {
  Node node(kVethPool);
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string allocated = node.ask("allocate feed feed-0");
  Pod first(node, "p1", "c1");
  ASSERT_EQ(message_of(first.attach({{"podlane.io/lanes", "feed"}})), "ok");
  ASSERT_EQ(message_of(first.commit({"10.9.0.50/24"})), "ok");
  ASSERT_EQ(first.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  Pod second(node, "p1", "c2");
  ASSERT_EQ(message_of(second.attach({{"podlane.io/lanes", "feed"}})), "ok");
  ASSERT_EQ(message_of(second.commit({"10.9.0.50/24"})), "ok");
  ASSERT_EQ(second.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  EXPECT_EQ(message_of(first.detach()), "ok");
  EXPECT_TRUE(second.pinged_by(node.peer(), "10.9.0.50"));
  EXPECT_EQ(message_of(second.detach()), "ok");
}

TEST(LaneTable, PodWithoutDelIsTakenBack) {
  Node node(kVethPool);
  node.reconcile_ms = 100;
  node.reserved_ms = 100;
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
  Pod pod(node, "p1", "c1");
  ASSERT_EQ(message_of(pod.attach({{"podlane.io/lanes", "feed"}})), "ok");
  ASSERT_EQ(message_of(pod.commit({"10.9.0.50/24"})), "ok");
  // While the kubelet does not answer, nothing is taken.
  node.lose_pods();
  pod.netns->remove();
  // Several rounds, in which nothing may happen.
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(300),
                        [&] { return node.ask("report").find("feed-0=ready") != std::string::npos; }));
  node.set_pods("");
  expect_nothing_left(node);
}

TEST(LaneTable, DeviceAllocatedAgainGoesToTheNewPodUnlessTheOldOneLives) {
  Node node(kVethPool);
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string first = node.ask("allocate feed feed-0");
  Pod pod(node, "p1", "c1");
  ASSERT_EQ(message_of(pod.attach({{"podlane.io/lanes", "feed"}})), "ok");
  ASSERT_EQ(message_of(pod.commit({"10.9.0.50/24"})), "ok");
  ASSERT_EQ(pod.open_lane(word(first, 1) + "/0"), "open feed-0 native");
  ASSERT_TRUE(eventually(std::chrono::seconds(2),
                         [&] { return node.ask("report").find("feed-0=serving") != std::string::npos; }));
  const std::string refused = node.ask("allocate feed feed-0");
  EXPECT_EQ(word(refused, 0), "error");
  EXPECT_NE(refused.find("default/p1"), std::string::npos) << refused;
  node.set_pods("");
  const std::string second = node.ask("allocate feed feed-0");
  ASSERT_EQ(word(second, 0), "ok") << second;
  EXPECT_NE(word(second, 1), word(first, 1));
  EXPECT_EQ(run({"/usr/bin/test", "-e", word(first, 1)}).status, 1);
}

}  // namespace
}  // namespace podlane::test
