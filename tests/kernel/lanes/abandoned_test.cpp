// CNI plugins that stop waiting: nothing may be bound for them afterwards. And what ADD tells of its TUN reaches the owner.
#include <gtest/gtest.h>

#include <thread>

#include "lib/lane/control_client.hpp"
#include "tests/kernel/lanes/node.hpp"

namespace podlane::test {
namespace {

constexpr char kPool[] =
    R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":4,"subnets":["10.9.0.0/24"]}])";

bool becomes(Node& node, const std::string& state, std::chrono::milliseconds within) {
  return eventually(within, [&] { return node.ask("report").find("feed-0=" + state) != std::string::npos; });
}

// The pod is not listed yet, so attach waits for the kubelet; the plugin gives up meanwhile.
TEST(AbandonedAttach, BindsNothingOnceItsDetachIsAnswered) {
  Node node(kPool);
  node.start();
  ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
  Pod pod(node, "p1", "c1");
  const lane::AttachRequest request{pod.attachment(), pod.name(), {{"podlane.io/lanes", "feed"}}, pod.netns->path()};
  const auto given_up =
      lane::control_call(node.run_dir() + "/control.sock", request, pod.netns->fd(), std::chrono::milliseconds(200));
  ASSERT_FALSE(given_up.has_value());
  EXPECT_EQ(given_up.error().code(), Errc::kIo);
  EXPECT_FALSE(pod.detach().refusal.has_value());
  node.set_pods("default p1 app feed feed-0\n");
  EXPECT_FALSE(becomes(node, "attached", std::chrono::seconds(4)));

  // Another try of the same container is served.
  EXPECT_FALSE(pod.attach({{"podlane.io/lanes", "feed"}}).refusal.has_value());
  EXPECT_FALSE(pod.commit({"10.9.0.50/24"}).refusal.has_value());
  EXPECT_FALSE(pod.detach().refusal.has_value());
}

TEST(SlowKubelet, AnAttachOutlivesOneListingThatFails) {
  Node node(kPool);
  node.start();
  ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
  node.lose_pods();
  Pod pod(node, "p1", "c1");
  std::string refused;
  std::thread attaching([&] {
    const auto answer = pod.attach({{"podlane.io/lanes", "feed"}});
    if (answer.refusal) refused = answer.refusal->message;
  });
  // Time for at least one listing that fails; the attach gives up after 3 s.
  pass_time(std::chrono::milliseconds(500));
  node.set_pods("default p1 app feed feed-0\n");
  attaching.join();
  EXPECT_EQ(refused, "");
  EXPECT_FALSE(pod.detach().refusal.has_value());
}

TEST(Commit, TellsTheOwnerMtuAndQueuesOfTheTun) {
  Node node(kPool);
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  const std::string allocated = node.ask("allocate feed feed-0");
  Pod pod(node, "p1", "c1");
  ASSERT_FALSE(pod.attach({{"podlane.io/lanes", "feed"}}).refusal.has_value());
  ASSERT_FALSE(pod.commit({"10.9.0.50/24"}, 1280, 3).refusal.has_value());
  EXPECT_FALSE(pod.check({"10.9.0.50/24"}).refusal.has_value());
  {
    Child owner({LANE_PUMP, pod.netns->path(), word(allocated, 1) + "/0", "mtu"});
    EXPECT_EQ(owner.line(), "open feed-0 native 1280");
    EXPECT_TRUE(pod.pinged_by(node.peer(), "10.9.0.50"));
  }
  // A restart keeps both.
  node.kill_daemon();
  node.start();
  ASSERT_TRUE(eventually(std::chrono::seconds(5), [&] {
    Child owner({LANE_PUMP, pod.netns->path(), word(allocated, 1) + "/0", "mtu"});
    return owner.line() == "open feed-0 native 1280" && pod.pinged_by(node.peer(), "10.9.0.50");
  }));
  EXPECT_FALSE(pod.check({"10.9.0.50/24"}).refusal.has_value());
  EXPECT_FALSE(pod.detach().refusal.has_value());
}

TEST(Commit, RefusesATunThatNoHandOverCanCarry) {
  struct Row {
    const char* name;
    std::uint32_t mtu, queues;
    const char* words;
  };
  for (const Row& row : {Row{"queues", 0, 16, "tun.queues 16 of lane feed-0 must be at most 15"},
                         Row{"mtu", 1501, 1, "tun.mtu 1501 of lane feed-0 must be at most 1500"}}) {
    SCOPED_TRACE(row.name);
    Node node(kPool);
    node.start();
    node.set_pods("default p1 app feed feed-0\n");
    ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
    Pod pod(node, "p1", "c1");
    ASSERT_FALSE(pod.attach({{"podlane.io/lanes", "feed"}}).refusal.has_value());
    const auto answer = pod.commit({"10.9.0.50/24"}, row.mtu, row.queues);
    ASSERT_TRUE(answer.refusal.has_value());
    EXPECT_EQ(answer.refusal->code, lane::ControlCode::kRefused);
    EXPECT_NE(answer.refusal->message.find(row.words), std::string::npos) << answer.refusal->message;
    EXPECT_FALSE(pod.detach().refusal.has_value());
  }
}

}  // namespace
}  // namespace podlane::test
