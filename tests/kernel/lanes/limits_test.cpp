// Many at once, and how long Allocate takes.
#include <gtest/gtest.h>

#include <thread>

#include "tests/kernel/lanes/node.hpp"

namespace podlane::test {
namespace {

constexpr std::size_t kPods = 100;

std::string pool_of(std::size_t lanes) {
  return R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":)" + std::to_string(lanes) +
         R"(,"subnets":["10.9.0.0/16"]}])";
}

TEST(Limits, AHundredPodsAtOnceAllGetTheirLanesAndLeaveNothing) {
  Node node(pool_of(kPods));
  node.reserved_ms = 100;
  node.reconcile_ms = 100;
  node.start();
  std::string pods;
  for (std::size_t at = 0; at < kPods; ++at) {
    const std::string n = std::to_string(at);
    pods += "default p" + n + " app feed feed-" + n + "\n";
  }
  node.set_pods(pods);
  for (std::size_t at = 0; at < kPods; ++at) {
    ASSERT_EQ(word(node.ask("allocate feed feed-" + std::to_string(at)), 0), "ok");
  }
  std::vector<std::unique_ptr<Pod>> sandboxes;
  for (std::size_t at = 0; at < kPods; ++at) {
    sandboxes.push_back(std::make_unique<Pod>(node, "p" + std::to_string(at), "c" + std::to_string(at)));
  }
  const auto all_at_once = [&](const auto& work) {
    std::vector<std::string> failures(kPods);
    std::vector<std::thread> threads;
    for (std::size_t at = 0; at < kPods; ++at) {
      threads.emplace_back([&, at] {
        const lane::ControlAnswer answer = work(*sandboxes[at], at);
        if (answer.refusal) failures[at] = answer.refusal->message;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  };
  const auto start = std::chrono::steady_clock::now();
  all_at_once([](Pod& pod, std::size_t) { return pod.attach({{"podlane.io/lanes", "feed"}}); });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("%zu attaches at once: %.2f s\n", kPods, taken.count());
  all_at_once([](Pod& pod, std::size_t at) { return pod.commit({"10.9.1." + std::to_string(at + 1) + "/16"}); });
  all_at_once([](Pod& pod, std::size_t) { return pod.detach(); });
  node.set_pods("");
  EXPECT_TRUE(eventually(std::chrono::seconds(20), [&] { return node.left().empty(); }));
  for (const std::string& left : node.left()) ADD_FAILURE() << "left: " << left;
}

TEST(Limits, AllocateOf500DevicesIsQuick) {
  Node node(pool_of(500));
  node.start();
  const std::string times = node.ask("time feed 500");
  ASSERT_EQ(word(times, 0), "ok") << times;
  std::printf("Allocate, microseconds: p50 %s, p99 %s, max %s\n", word(times, 1).c_str(), word(times, 2).c_str(),
              word(times, 3).c_str());
}

}  // namespace
}  // namespace podlane::test
