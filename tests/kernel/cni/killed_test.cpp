// ADD killed before its n-th system call of each kind, by strace's tampering; then DEL, or ADD again, or GC: no leak.
#include <gtest/gtest.h>

#include "tests/kernel/cni/cni_node.hpp"

namespace podlane::test {
namespace {

constexpr int kMostCalls = 60;  // More than ADD makes of any kind; the loop ends at the first run that was not killed.

class Killed : public testing::TestWithParam<const char*> {};

TEST_P(Killed, AddThenDelLeavesNothing) {
  const std::string syscall = GetParam();
  CniNode node;
  DevicePluginStandIn daemon(node.socket);
  daemon.set_plans({node.plan(0, true), node.plan(1, false)});
  const json::Value conf = node.annotate(node.with_prev(node.conf()));
  int kills = 0;
  for (int n = 1; n <= kMostCalls; ++n) {
    SCOPED_TRACE(syscall + " " + std::to_string(n));
    const bool killed = node.call_killed_at("ADD", conf, syscall, n);
    kills += killed ? 1 : 0;
    if (n % 3 == 0 && killed) {
      const CniAnswer again = node.call("ADD", conf);
      // A kill after the last record but before the result counts as made: the runtime has to say DEL first.
      EXPECT_TRUE(again.status == 0 || again.code() == 107) << again.out;
    }
    if (n % 3 == 1) {
      json::Value gc = node.conf();
      gc["cni.dev/valid-attachments"] = json::Value::array();
      EXPECT_EQ(node.call("GC", gc, {"CNI_CONTAINERID=", "CNI_NETNS=", "CNI_IFNAME="}).status, 0);
    } else {
      EXPECT_EQ(node.call("DEL", conf).status, 0);
    }
    // GC leaves an empty lock file of an ADD that was killed between its lock and its first record.
    EXPECT_EQ(node.call("DEL", conf).status, 0);
    ASSERT_EQ(node.leaks(), "");
    ASSERT_TRUE(daemon.attachments().empty());
    if (!killed) break;
    ASSERT_LT(n, kMostCalls) << "never ran to its end";
  }
  EXPECT_GT(kills, 0) << syscall << " is not called at all";
}

INSTANTIATE_TEST_SUITE_P(BySystemCall, Killed,
                         testing::Values("rename", "sendto", "sendmsg", "ioctl", "setns", "fsync", "socket", "write",
                                         "openat", "poll"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace podlane::test
