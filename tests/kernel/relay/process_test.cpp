// The program podlane-relay and the example echo_direct as they run in a pod: uid 65534, no capability, over a real
// lane.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/kernel/relay/lane_rig.hpp"

namespace podlane::test {
namespace {

// Programs must be readable for uid 65534; build trees often are not.
struct RelayChild {
  explicit RelayChild(LaneRig& rig, std::vector<std::string> options = {}) {
    std::vector<std::string> argv = {program("podlane-relay")};
    argv.insert(argv.end(), options.begin(), options.end());
    child =
        std::make_unique<Child>(rig.pod, argv, std::vector<std::string>{"PODLANE_LANES_FEED=" + rig.lanes_directory()});
  }
  bool is_up() {
    return eventually(
               10s, [&] { return child->output().find("lane is up") != std::string::npos || !child->is_running(); }) &&
           child->is_running();
  }
  std::unique_ptr<Child> child;
};

bool ping_works(LaneRig& rig) {
  return run({"ip", "netns", "exec", rig.pod.name(), "ping", "-c1", "-W2", "10.9.0.1"}).status == 0;
}
// What `ip` shows follows the carrier by the kernel's link watch, which may take a second.
bool carrier_becomes(LaneRig& rig, bool wanted) {
  return eventually(5s,
                    [&] { return (rig.pod.ip("link show lane0").find("NO-CARRIER") == std::string::npos) == wanted; });
}

TEST(RelayProgram, ServesWithoutPrivilegeAndEndsOnSigterm) {
  LaneRig rig;
  EXPECT_TRUE(carrier_becomes(rig, false));
  RelayChild relay(rig);
  ASSERT_TRUE(relay.is_up()) << relay.child->output();
  EXPECT_TRUE(carrier_becomes(rig, true));
  EXPECT_TRUE(ping_works(rig));
  EXPECT_TRUE(eventually(5s, [&] { return rig.reported("tx_frames") > 0; })) << "counters are published";
  relay.child->signal(SIGTERM);
  EXPECT_EQ(relay.child->wait(), 0) << relay.child->output();
  EXPECT_TRUE(carrier_becomes(rig, false));
}

TEST(RelayProgram, TakesTheLaneAgainAfterItWasKilled) {
  LaneRig rig;
  for (int life = 0; life < 2; ++life) {
    RelayChild relay(rig);
    ASSERT_TRUE(relay.is_up()) << relay.child->output();
    EXPECT_TRUE(ping_works(rig));
    relay.child->signal(SIGKILL);
    EXPECT_EQ(relay.child->wait(), 128 + SIGKILL);
    EXPECT_TRUE(carrier_becomes(rig, false));
  }
}

TEST(RelayProgram, EndsWithItsOwnCodeWhenDeviceOrTunGoes) {
  for (const bool device : {true, false}) {
    LaneRig rig;
    RelayChild relay(rig);
    ASSERT_TRUE(relay.is_up()) << relay.child->output();
    if (device) rig.remove_device();
    else rig.remove_tun();
    EXPECT_EQ(relay.child->wait(), 3) << relay.child->output();
  }
}

TEST(RelayProgram, OutlivesTheDevicePlugin) {
  LaneRig rig;
  RelayChild relay(rig);
  ASSERT_TRUE(relay.is_up()) << relay.child->output();
  rig.stop_server();
  EXPECT_TRUE(ping_works(rig));
  rig.start_server();
  EXPECT_TRUE(eventually(10s, [&] { return rig.resumes() == 1; })) << relay.child->output();
  EXPECT_TRUE(ping_works(rig));
  EXPECT_EQ(rig.sessions(), 1);
}

TEST(RelayProgram, SaysWhyItCannotRun) {
  LaneRig rig;
  struct Row {
    const char* name;
    std::vector<std::string> options;
    int code;
    const char* words;
  };
  const Row rows[] = {
      {"mode", {"--mode", "fast"}, 2, "not one of spinning, interrupt"},
      {"no directory", {"--lane-dir", "/nowhere"}, 2, "/nowhere"},
      {"version", {"--version"}, 0, "podlane-relay"},
      {"check", {"--check"}, 0, "hand-over socket is there"},
  };
  for (const Row& row : rows) {
    RelayChild relay(rig, row.options);
    EXPECT_EQ(relay.child->wait(), row.code) << row.name;
    EXPECT_NE(relay.child->output().find(row.words), std::string::npos) << relay.child->output();
  }
  rig.stop_server();
  RelayChild relay(rig, {"--wait", "1"});
  EXPECT_EQ(relay.child->wait(), 5) << relay.child->output();
}

TEST(EchoDirect, EchoesInTheRingsWhilePingAndTcpGoOn) {
  for (const char* mode : {"interrupt", "spinning"}) {
    SCOPED_TRACE(mode);
    LaneRig rig;
    Child echo(rig.pod, {program("echo_direct"), "-d", rig.directory(), "-p", "7", "-m", mode});
    ASSERT_TRUE(eventually(10s, [&] { return echo.output().find("UDP port 7") != std::string::npos; }))
        << echo.output();
    for (const auto& [ip, family] : {std::pair("10.9.0.5", AF_INET), std::pair("fd09::5", AF_INET6)}) {
      const UniqueFd peer = rig.peer_socket(family, SOCK_DGRAM);
      const Address to(ip, 7);
      const std::string text = "in place";
      ASSERT_EQ(::sendto(peer.get(), text.data(), text.size(), 0, to.get(), to.length),
                static_cast<ssize_t>(text.size()));
      EXPECT_EQ(receive(peer), text) << ip;
    }
    EXPECT_TRUE(ping_works(rig));
    const UniqueFd listener = rig.pod_socket(AF_INET, SOCK_STREAM), client = rig.peer_socket(AF_INET, SOCK_STREAM);
    bind_to(listener, "10.9.0.5", 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    const Address to("10.9.0.5", port_of(listener));
    ASSERT_EQ(::connect(client.get(), to.get(), to.length), 0);
    const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::send(client.get(), "tcp", 3, 0), 3);
    EXPECT_EQ(receive(accepted), "tcp");
    echo.signal(SIGTERM);
    EXPECT_EQ(echo.wait(), 0) << echo.output();
  }
}

}  // namespace
}  // namespace podlane::test
