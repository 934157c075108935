// The hand-over as it should go: to a process without any capability, whose frames then flow.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/stat.h>

#include <thread>

#include "tests/kernel/handover/lane_fixture.hpp"

namespace podlane::test {
namespace {

using lane::HandoverStyle;
using lane::Kind;

TEST_F(HandoverTest, UnprivilegedClientMovesFrames) {
  struct Case {
    const char* name;
    Kind kind;
    HandoverStyle style;
    const char* far;
  };
  for (const Case& c : {Case{"queue-finished", Kind::kQueue, HandoverStyle::kFinished, "nicfar"},
                        Case{"queue-unbound", Kind::kQueue, HandoverStyle::kUnbound, "nicfar"},
                        Case{"veth-finished", Kind::kVeth, HandoverStyle::kFinished, "podfar"},
                        Case{"veth-unbound", Kind::kVeth, HandoverStyle::kUnbound, "podfar"}}) {
    SCOPED_TRACE(c.name);
    if (c.style == HandoverStyle::kFinished && !finished_sockets()) {
      differs(kNoFinishedSockets);
      continue;
    }
    const std::string path =
        c.kind == Kind::kQueue ? serve_queue_lane(c.name, c.style) : serve_veth_lane(c.name, c.style);
    const int fds_before = open_descriptors();
    {
      Probe probe(pod_.path(), path);
      const std::string line = probe.line();
      ASSERT_TRUE(line.starts_with("granted ")) << line;
      EXPECT_NE(line.find(R"("inForce":{"zeroCopy":false,"xdp":"native","busyPoll":false})"), std::string::npos)
          << line;
      EXPECT_NE(line.find(R"("fds":["xsk","tun"])"), std::string::npos) << line;
      EXPECT_EQ(frames_echoed(c.far, 500), 500);
      EXPECT_TRUE(wait_event(std::string("opened ") + c.name));
      // Two pipe ends of the probe and the session's socket: neither AF_XDP socket nor TUN nor memfd.
      EXPECT_EQ(open_descriptors(), fds_before + 3);
    }
    EXPECT_TRUE(wait_event(std::string("closed ") + c.name));
  }
}

TEST_F(HandoverTest, TunLaneHandsOverEachQueueAndNoSocket) {
  make_tun("vpn0", /*multi_queue=*/true);
  const std::string path = serve_tun_lane("vpn-0", "vpn0", 3);
  Probe probe(pod_.path(), path);
  const std::string line = probe.line();
  EXPECT_NE(line.find(R"("fds":["tun","tun","tun"])"), std::string::npos) << line;
  EXPECT_EQ(line.find("\"xsk\":"), std::string::npos) << line;
}

TEST_F(HandoverTest, DeviceAndTunAreFoundAfterRenaming) {
  const std::string path = serve_veth_lane("feed-0", usual_style());
  pod_.ip("link set lane0 down");
  pod_.ip("link set lane0 name mylane");
  Probe probe(pod_.path(), path);
  const std::string line = probe.line();
  EXPECT_NE(line.find(R"("ifname":"mylane")"), std::string::npos) << line;
  EXPECT_EQ(frames_echoed("podfar", 50), 50);
}

TEST_F(HandoverTest, SocketAndDirectoryAreOpenToAnyUid) {
  const std::string path = serve_veth_lane("feed-0", HandoverStyle::kFinished);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666U);
  ASSERT_EQ(::stat(path.substr(0, path.rfind('/')).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755U);
  server_->stop_serving("feed-0");
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST_F(HandoverTest, ClientWaitsForAddInWords) {
  const std::string path = serve_veth_lane("feed-0", HandoverStyle::kFinished);
  dp::HandoverLane lane = *owner_.lane_for_handover("feed-0");
  owner_.unset("feed-0");
  std::vector<std::string> reasons;
  Result<lane::LaneGrant> grant = fail(Errc::kIo, "not run");
  std::thread adder([&] {
    wait_event("refused feed-0 not-attached", 2);
    owner_.set("feed-0", lane, &*pod_redirect_);
  });
  pod_.inside([&] {
    grant = lane::request_lane(
        {.socket_path = path, .client = "test", .on_wait = [&](std::string_view why) { reasons.emplace_back(why); }},
        std::chrono::steady_clock::now() + 10s);
  });
  adder.join();
  ASSERT_TRUE(grant) << grant.error().message();
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_NE(reasons[0].find("no ADD yet"), std::string::npos) << reasons[0];
}

TEST_F(HandoverTest, ClientGivesUpAtItsDeadlineAndWhenCancelled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd cancel(ends[0]), trigger(ends[1]);
  const auto ask = [&](int cancel_fd, std::chrono::milliseconds patience) {
    return lane::request_lane(
        {.socket_path = directory_ + "/none/handover.sock", .client = "test", .cancel_fd = cancel_fd},
        std::chrono::steady_clock::now() + patience);
  };
  const auto late = ask(-1, 100ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Errc::kUnavailable);
  EXPECT_NE(late.error().message().find("is the device plugin running"), std::string::npos) << late.error().message();
  ASSERT_EQ(::write(trigger.get(), "x", 1), 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(ask(cancel.get(), 60s));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patient(5s));
}

TEST_F(HandoverTest, ZeroCopyPolicyIsKept) {
  dp::HandoverLane lane = lane_of("feed-0", Kind::kVeth, "lane0");
  lane.zero_copy = dp::ZeroCopy::kOff;
  const std::string path = serve("feed-0", lane, &*pod_redirect_);
  // Who binds an unbound socket is not the daemon.
  if (!finished_sockets()) {
    differs(kNoFinishedSockets);
    return;
  }
  EXPECT_TRUE(Probe(pod_.path(), path).line().starts_with("granted "));
  lane.zero_copy = dp::ZeroCopy::kRequire;
  owner_.set("feed-0", lane, &*pod_redirect_);
  const std::string line = Probe(pod_.path(), path).line();
  EXPECT_NE(line.find("zeroCopy is 'require'"), std::string::npos) << line;
  EXPECT_NE(line.find("EOPNOTSUPP"), std::string::npos) << line;
}

TEST_F(HandoverTest, MissingDeviceIsGone) {
  dp::HandoverLane lane = lane_of("feed-0", Kind::kVeth, "lane0");
  lane.description.xsk->netdev_ifindex = 999999;
  const std::string path = serve("feed-0", lane, &*pod_redirect_);
  const std::string line = Probe(pod_.path(), path).line();
  EXPECT_NE(line.find("(gone)"), std::string::npos) << line;
  lane = lane_of("feed-0", Kind::kVeth, "lane0");
  lane.description.ifindex = 999999;
  owner_.set("feed-0", lane, &*pod_redirect_);
  const std::string second = Probe(pod_.path(), path).line();
  EXPECT_NE(second.find("(gone)"), std::string::npos) << second;
}

TEST_F(HandoverTest, FiftyClientsAtOnce) {
  constexpr int kLanes = 50;
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<Redirect>> redirects;
  for (int i = 0; i < kLanes; ++i) {
    const std::string n = std::to_string(i), device = "many-" + n;
    must_run("ip -n " + pod_.name() + " link add m" + n + " type veth peer name f" + n + " netns " + wire_.name());
    pod_.ip("link set m" + n + " up");
    wire_.ip("link set f" + n + " up");
    make_tun("t" + n);
    redirects.push_back(std::make_unique<Redirect>(pod_, "m" + n));
    dp::HandoverLane lane = lane_of(device, Kind::kVeth, "t" + n);
    pod_.inside([&] { lane.description.xsk->netdev_ifindex = static_cast<int>(::if_nametoindex(("m" + n).c_str())); });
    paths.push_back(serve(device, lane, redirects.back().get()));
  }
  std::vector<lane::LaneGrant> grants(kLanes);
  std::vector<std::string> errors(kLanes);
  pod_.inside([&] {
    std::vector<std::thread> clients;
    for (int i = 0; i < kLanes; ++i) {
      clients.emplace_back([&, i] {
        auto granted =
            lane::request_lane({.socket_path = paths[i], .client = "test"}, std::chrono::steady_clock::now() + 30s);
        if (granted) grants[i] = std::move(*granted);
        else errors[i] = granted.error().message();
      });
    }
    for (std::thread& client : clients) client.join();
  });
  for (int i = 0; i < kLanes; ++i) EXPECT_TRUE(grants[i].xsk.valid()) << i << ": " << errors[i];
}

}  // namespace
}  // namespace podlane::test
