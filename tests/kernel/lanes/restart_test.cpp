// The daemon dies by SIGKILL at each stage and comes back; state is lost; the NIC goes.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/kernel/lanes/node.hpp"

namespace podlane::test {
namespace {

constexpr char kVethPool[] =
    R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":4,"subnets":["10.9.0.0/24"]}])";
constexpr char kQueuePool[] =
    R"([{"name":"feed","lane":"queue","devices":{"names":["@"]},"trusted":true,"subnets":["10.9.0.0/24"]}])";

bool is_ok(const lane::ControlAnswer& answer) {
  return !answer.refusal.has_value();
}

class Restart : public ::testing::TestWithParam<const char*> {};

TEST_P(Restart, AtEachStageLosesNothing) {
  Node node(GetParam());
  if (node.refuses_queue_pool()) return;
  node.reserved_ms = 100;
  node.reconcile_ms = 100;
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string allocated = node.ask("allocate feed feed-0");
  ASSERT_EQ(word(allocated, 0), "ok") << allocated;
  const auto restart = [&] {
    node.kill_daemon();
    node.start();
  };
  restart();
  Pod pod(node, "p1", "c1");
  const auto attached = pod.attach({{"podlane.io/lanes", "feed"}});
  ASSERT_TRUE(is_ok(attached)) << attached.refusal->message;
  restart();
  EXPECT_EQ(lane::encode(pod.attach({{"podlane.io/lanes", "feed"}})), lane::encode(attached));
  const auto committed = pod.commit({"10.9.0.50/24"});
  ASSERT_TRUE(is_ok(committed)) << committed.refusal->message;
  // Before anyone connected.
  restart();
  ASSERT_EQ(pod.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  ASSERT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  // Dead: the lane goes on.
  node.kill_daemon();
  EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  node.start();
  EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  EXPECT_TRUE(is_ok(pod.check({"10.9.0.50/24"})));
  // Both at once.
  node.kill_daemon();
  pod.kill_owner();
  node.start();
  EXPECT_EQ(pod.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  pod.kill_owner();
  restart();
  EXPECT_TRUE(is_ok(pod.detach()));
  restart();
  node.set_pods("");
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return node.left().empty(); }));
  for (const std::string& left : node.left()) ADD_FAILURE() << "left: " << left;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Restart, ::testing::Values(kVethPool, kQueuePool));

TEST(LostState, LeavesNoKernelObjectBehind) {
  Node node(kVethPool);
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
  Pod pod(node, "p1", "c1");
  ASSERT_TRUE(is_ok(pod.attach({{"podlane.io/lanes", "feed"}})));
  ASSERT_TRUE(is_ok(pod.commit({"10.9.0.50/24"})));
  node.kill_daemon();
  EXPECT_FALSE(node.left().empty());
  std::filesystem::remove_all(node.run_dir());
  node.start();
  for (const std::string& left : node.left()) ADD_FAILURE() << "left: " << left;
  // The kubelet still counts the device to the pod; its directory is gone, so it is told to be made anew.
  const auto answer = Pod(node, "p1", "c2").attach({{"podlane.io/lanes", "feed"}});
  ASSERT_FALSE(is_ok(answer));
  EXPECT_NE(answer.refusal->message.find("made anew"), std::string::npos) << answer.refusal->message;
}

TEST(Nic, ThatGoesMakesItsDevicesUnhealthyUntilItIsBack) {
  Node node(kQueuePool);
  if (node.refuses_queue_pool()) return;
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string allocated = node.ask("allocate feed feed-0");
  Pod pod(node, "p1", "c1");
  ASSERT_TRUE(is_ok(pod.attach({{"podlane.io/lanes", "feed"}})));
  ASSERT_TRUE(is_ok(pod.commit({"10.9.0.50/24"})));
  EXPECT_EQ(node.ask("devices feed"), "ok feed-0");
  node.host().ip("link set nic0 down");
  node.remove_nic();
  EXPECT_TRUE(eventually(std::chrono::seconds(3), [&] {
    return node.ask("devices feed").find("feed-0!(there is no interface 'nic0')") != std::string::npos;
  })) << node.ask("devices feed");
  EXPECT_EQ(word(node.ask("allocate feed feed-0"), 0), "error");
  // A restart meanwhile takes no other pool down.
  node.kill_daemon();
  node.start();
  node.make_nic();
  EXPECT_TRUE(eventually(std::chrono::seconds(3), [&] { return node.ask("devices feed") == "ok feed-0"; }));
  EXPECT_EQ(pod.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  pod.kill_owner();
  EXPECT_TRUE(is_ok(pod.detach()));
}

TEST_P(Restart, WithoutThePoolKeepsItsLanesInUse) {
  Node node(GetParam());
  if (node.refuses_queue_pool()) return;
  node.reserved_ms = 100;
  node.reconcile_ms = 100;
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string allocated = node.ask("allocate feed feed-0");
  Pod pod(node, "p1", "c1");
  ASSERT_TRUE(is_ok(pod.attach({{"podlane.io/lanes", "feed"}})));
  ASSERT_TRUE(is_ok(pod.commit({"10.9.0.50/24"})));
  ASSERT_EQ(pod.open_lane(word(allocated, 1) + "/0"), "open feed-0 native");
  node.kill_daemon();
  node.set_pools("[]");
  node.start();
  // The owner's session is back, so that it was not told that its device is gone.
  EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] {
    return node.lanes_json().find("\"serving\"") != std::string::npos;
  })) << node.lanes_json();
  EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  pod.kill_owner();
  EXPECT_TRUE(is_ok(pod.detach()));
  node.set_pods("");
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] {
    return node.lanes_json().find("feed-0") == std::string::npos;
  })) << node.lanes_json();
}

TEST(Nic, OfNoPoolAnyMoreIsDetached) {
  Node node(kVethPool);
  node.start();
  const auto pins = [&] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(node.bpffs())) {
      count += entry.path().filename().string().starts_with("nic-");
    }
    return count;
  };
  EXPECT_EQ(pins(), 1U);
  node.kill_daemon();
  EXPECT_EQ(pins(), 1U);
  node.set_pools("[]");
  node.start();
  EXPECT_EQ(pins(), 0U);
}

// Another podlane's program, pinned elsewhere, is as foreign as any.
TEST(Nic, WithAForeignProgramIsRefusedAndLeftAlone) {
  Node node(kVethPool);
  node.start();
  node.kill_daemon();
  // From "xdp" on: ip complains of other suites' namespaces that go meanwhile.
  const auto program = [&] {
    const std::string out = must_run("ip netns exec " + node.host().name() + " ip -d link show dev nic0");
    return out.substr(std::min(out.find("prog/xdp"), out.size()));
  };
  const std::string before = program();
  ASSERT_TRUE(before.starts_with("prog/xdp")) << before;
  node.move_to_other_directories();
  const std::string said = node.try_start();
  EXPECT_EQ(word(said, 0), "error");
  EXPECT_NE(said.find("lane_steer"), std::string::npos) << said;
  EXPECT_EQ(program(), before);
}

TEST(Nic, WithSeveralQueuesIsRefusedInWordsForQueueLanes) {
  Node node(kQueuePool);
  if (node.refuses_queue_pool()) return;
  node.remove_nic();
  node.host().ip("link add nic0 numrxqueues 2 numtxqueues 2 type veth");
  node.host().ip("link set nic0 up");
  const std::string said = node.try_start();
  EXPECT_EQ(word(said, 0), "error");
  EXPECT_NE(said.find("ethtool -L nic0 combined 1"), std::string::npos) << said;
}

}  // namespace
}  // namespace podlane::test
