// Owners that die, daemons that go and come: the lane goes on or is given anew.
#include <gtest/gtest.h>

#include <set>

#include "lib/lane/handover_session.hpp"
#include "tests/kernel/handover/lane_fixture.hpp"

namespace podlane::test {
namespace {

using lane::HandoverStyle;

class Restart : public HandoverTest {
 protected:
  void SetUp() override { path_ = serve_veth_lane("feed-0", usual_style()); }
  void serve_again() { path_ = serve_veth_lane("feed-0", usual_style()); }
  lane::LaneGrant grant() {
    Result<lane::LaneGrant> granted = fail(Errc::kIo, "not run");
    pod_.inside([&] {
      granted = lane::request_lane({.socket_path = path_, .client = "test"}, std::chrono::steady_clock::now() + 10s);
    });
    if (!granted) throw std::runtime_error(granted.error().message());
    return std::move(*granted);
  }
  std::string path_;
};

TEST_F(Restart, NewClientGetsAWorkingSocketAfterAKill) {
  for (const auto style : {HandoverStyle::kFinished, HandoverStyle::kUnbound}) {
    if (style == HandoverStyle::kFinished && !finished_sockets()) {
      differs(kNoFinishedSockets);
      continue;
    }
    path_ = serve_veth_lane("feed-0", style);
    for (int i = 0; i < 5; ++i) {
      Probe first(pod_.path(), path_);
      ASSERT_TRUE(first.line().starts_with("granted "));
      EXPECT_EQ(frames_echoed("podfar", 20), 20);
      first.kill();
      Probe second(pod_.path(), path_);
      const std::string line = second.line();
      ASSERT_TRUE(line.starts_with("granted ")) << line;
      EXPECT_EQ(frames_echoed("podfar", 20), 20);
      second.kill();
    }
  }
}

TEST_F(Restart, OwnerGoesOnWithoutTheDaemonAndResumes) {
  Probe probe(pod_.path(), path_);
  ASSERT_TRUE(probe.line().starts_with("granted "));
  EXPECT_EQ(frames_echoed("podfar", 100), 100);
  stop_server();
  EXPECT_EQ(probe.line(), "dead");
  EXPECT_EQ(frames_echoed("podfar", 300), 300);
  start_server();
  serve_again();
  EXPECT_EQ(probe.line(), "resumed");
  EXPECT_TRUE(wait_event("resumed feed-0"));
  EXPECT_EQ(frames_echoed("podfar", 100), 100);
  EXPECT_EQ(owner_.count("opened feed-0"), 1);
}

TEST_F(Restart, FreshClientCannotTakeALiveOwnersLaneFromANewDaemon) {
  for (const auto style : {HandoverStyle::kFinished, HandoverStyle::kUnbound}) {
    path_ = serve_veth_lane("feed-0", style);
    lane::LaneGrant owner = grant();  // Its session never resumes.
    stop_server();
    start_server();
    path_ = serve_veth_lane("feed-0", style);
    const std::string line = Probe(pod_.path(), path_).line();
    EXPECT_NE(line.find("(busy)"), std::string::npos) << line;
  }
}

TEST_F(Restart, OwnerAndDaemonKilledTogether) {
  Probe probe(pod_.path(), path_);
  ASSERT_TRUE(probe.line().starts_with("granted "));
  stop_server();
  probe.kill();
  start_server();
  serve_again();
  Probe next(pod_.path(), path_);
  EXPECT_TRUE(next.line().starts_with("granted "));
  EXPECT_EQ(frames_echoed("podfar", 20), 20);
}

TEST_F(Restart, ServingAgainKeepsTheSession) {
  Probe probe(pod_.path(), path_);
  ASSERT_TRUE(probe.line().starts_with("granted "));
  ASSERT_TRUE(wait_event("opened feed-0"));
  serve_again();
  server_->send_neighbor("feed-0", {.ip = "10.9.0.1", .mac = std::nullopt});
  EXPECT_EQ(probe.line(300ms), "(nothing printed in time)");
  EXPECT_EQ(owner_.count("closed feed-0"), 0);
}

TEST_F(Restart, StopServingEndsTheSessionWithoutACallback) {
  Probe probe(pod_.path(), path_);
  ASSERT_TRUE(probe.line().starts_with("granted "));
  ASSERT_TRUE(wait_event("opened feed-0"));
  server_->stop_serving("feed-0");
  EXPECT_EQ(probe.line(), "dead");
  EXPECT_EQ(owner_.count("closed feed-0"), 0);
}

TEST_F(Restart, ServerEndsInTheMiddleOfHandovers) {
  for (int i = 0; i < 10; ++i) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int n = 0; n < 4; ++n) {
      clients.push_back(std::make_unique<RawClient>(pod_, path_));
      clients.back()->send(R"({"type":"hello","version":1})");
      if (n < 2) clients.back()->receive();
    }
    const UniqueFd memfd = make_memfd(512 * 2048, 0, kSeals);
    clients[0]->send(R"({"type":"umem"})", {memfd.get()});
    stop_server();
    start_server();
    serve_again();
  }
  EXPECT_EQ(Probe(pod_.path(), path_).line().substr(0, 8), "granted ");
}

TEST_F(Restart, NeighboursResolvesAndStatsTravel) {
  lane::LaneGrant granted = grant();
  lane::Session session(std::move(granted.session), path_, "test");
  session.resolve("10.9.0.7");
  session.resolve("fd00::7");
  EXPECT_TRUE(wait_event("resolve feed-0 10.9.0.7"));
  EXPECT_TRUE(wait_event("resolve feed-0 fd00::7"));
  EXPECT_TRUE(session.send_stats({{"rx_frames", 12}, {"tx_frames", 18446744073709551615ULL}}));
  EXPECT_FALSE(session.send_stats({{"rx_frames", 13}}));
  EXPECT_TRUE(wait_event("stats feed-0 tx_frames=18446744073709551615"));
  server_->send_neighbor("feed-0", {.ip = "10.9.0.7", .mac = "02:00:00:00:00:07"});
  server_->send_neighbor("feed-0", {.ip = "10.9.0.7", .mac = std::nullopt});
  server_->send_neighbor("other", {.ip = "10.9.0.8", .mac = std::nullopt});
  std::vector<lane::Neighbor> news;
  EXPECT_TRUE(eventually(5s, [&] {
    for (lane::Neighbor& neighbor : session.tick().neighbors) news.push_back(std::move(neighbor));
    return news.size() >= 2;
  }));
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].mac, "02:00:00:00:00:07");
  EXPECT_EQ(news[1].mac, std::nullopt);

  // A new daemon is asked again for what the old one was asked for, without the owner's doing.
  stop_server();
  start_server();
  serve_again();
  bool resumed = false;
  pod_.inside([&] {  // The new socket is made in the namespace of the thread that ticks.
    EXPECT_TRUE(eventually(10s, [&] { return resumed |= session.tick().resumed; }));
  });
  EXPECT_TRUE(eventually(5s, [&] {
    session.tick();
    return owner_.count("resolve feed-0 fd00::7") >= 2 && owner_.count("resolve feed-0 10.9.0.7") >= 2;
  }));
}

TEST_F(Restart, ManyNeighboursReachASlowReaderWithTheirLatestState) {
  lane::LaneGrant granted = grant();
  ASSERT_TRUE(wait_event("opened feed-0"));
  const auto address = [](int i) { return "10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250); };
  for (int i = 0; i < 2000; ++i) server_->send_neighbor("feed-0", {.ip = address(i), .mac = std::nullopt});
  for (int i = 0; i < 2000; ++i) server_->send_neighbor("feed-0", {.ip = address(i), .mac = "02:00:00:00:00:07"});
  lane::Session session(std::move(granted.session), path_, "test");
  std::map<std::string, std::optional<std::string>> known;
  EXPECT_TRUE(eventually(10s, [&] {
    for (const lane::Neighbor& neighbor : session.tick().neighbors) known[neighbor.ip] = neighbor.mac;
    return known.size() == 2000 && std::all_of(known.begin(), known.end(), [](const auto& e) { return e.second.has_value(); });
  }));
}

TEST_F(Restart, NeighboursThatDoNotFitIntoTheDescriptionFollow) {
  dp::HandoverLane lane = *owner_.lane_for_handover("feed-0");
  for (int i = 0; i < 400; ++i) {
    lane.description.neighbors.push_back({"fd00:1111:2222:3333:4444:5555:6666:" + std::to_string(1000 + i), "02:00:00:00:00:07"});
  }
  owner_.set("feed-0", lane, &*pod_redirect_);
  lane::LaneGrant granted = grant();
  std::set<std::string> known;
  for (const lane::Neighbor& neighbor : granted.description.neighbors) known.insert(neighbor.ip);
  EXPECT_GT(known.size(), 100U);
  lane::Session session(std::move(granted.session), path_, "test");
  EXPECT_TRUE(eventually(5s, [&] {
    for (const lane::Neighbor& neighbor : session.tick().neighbors) known.insert(neighbor.ip);
    return known.size() == 400;
  }));
}

TEST_F(Restart, ResumingOwnerHearsWhatIsKnownButNotWhatIsNotYet) {
  lane::LaneGrant granted = grant();
  lane::Session session(std::move(granted.session), path_, "test");
  dp::HandoverLane lane = *owner_.lane_for_handover("feed-0");
  lane.description.neighbors = {{"10.9.0.1", "02:00:00:00:00:fe"}, {"10.9.0.2", std::nullopt}};
  stop_server();
  start_server();
  serve("feed-0", lane, &*pod_redirect_);
  std::vector<lane::Neighbor> news;
  pod_.inside([&] {
    EXPECT_TRUE(eventually(10s, [&] {
      for (lane::Neighbor& neighbor : session.tick().neighbors) news.push_back(std::move(neighbor));
      return !news.empty();
    }));
  });
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].mac, "02:00:00:00:00:fe");
}

TEST_F(Restart, SessionEndsForGoodWhenTheDeviceIsGone) {
  lane::LaneGrant granted = grant();
  lane::Session session(std::move(granted.session), path_, "test");
  stop_server();
  EXPECT_TRUE(eventually(5s, [&] { return session.tick().lost; }));
  EXPECT_TRUE(session.next_tick().has_value());
  EXPECT_EQ(session.fd(), -1);
  EXPECT_FALSE(session.send_stats({}));
  owner_.unset("feed-0", Errc::kGone);
  start_server();
  ASSERT_TRUE(server_->serve("feed-0", directory_ + "/feed-0"));
  std::optional<lane::HandoverRefusal> refusal;
  EXPECT_TRUE(eventually(10s, [&] {
    if (auto events = session.tick(); events.refusal) refusal = events.refusal;
    return session.ended();
  }));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, "gone");
  EXPECT_FALSE(session.next_tick().has_value());
}

}  // namespace
}  // namespace podlane::test
