// The daemon's HTTP end, its metrics and its run lock.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "deviceplugin/kubelet/http_endpoints.hpp"
#include "deviceplugin/kubelet/metrics.hpp"
#include "deviceplugin/kubelet/run_lock.hpp"
#include "lib/base/unique_fd.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::test {
namespace {

namespace fs = std::filesystem;

std::string exchange(UniqueFd socket, const std::string& page) {
  const std::string request = "GET " + page + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(::write(socket.get(), request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string out;
  char buffer[4096];
  for (ssize_t got; (got = ::read(socket.get(), buffer, sizeof(buffer))) > 0;)
    out.append(buffer, static_cast<std::size_t>(got));
  return out;
}

std::string get(int port, const std::string& page) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<std::uint16_t>(port)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                      .sin_zero = {}};
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return exchange(std::move(socket), page);
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

std::string get(const std::string& path, const std::string& page) {
  return exchange(connect_to(path), page);
}

dp::HttpHandlers handlers(bool ready) {
  return {.healthy = []() -> Result<void> { return {}; },
          .ready = [ready]() -> Result<void> {
            if (!ready) return fail(Errc::kUnavailable, "not registered with the kubelet: feed");
            return {};
          },
          .metrics = [] { return std::string("podlane_build_info 1\n"); }};
}

TEST(HttpAddress, ParsesOrSaysWhatWouldBeRight) {
  struct Case {
    const char* text;
    bool ok;
    const char* host;
    int port;
  };
  const Case cases[] = {{"off", true, "", 0},
                        {"127.0.0.1:9470", true, "127.0.0.1", 9470},
                        {"[::1]:0", true, "::1", 0},
                        {"unix:/run/x.sock", true, "/run/x.sock", 0},
                        {"unix:relative", false, "", 0},
                        {"9470", false, "", 0},
                        {":9470", false, "", 0},
                        {"::1:9470", false, "", 0},
                        {"127.0.0.1:65536", false, "", 0},
                        {"127.0.0.1:x", false, "", 0},
                        {"127.0.0.1:", false, "", 0},
                        {"", false, "", 0}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const auto address = dp::parse_http_address(one.text);
    ASSERT_EQ(address.has_value(), one.ok);
    if (!address) {
      EXPECT_NE(address.error().message().find("ADDRESS:PORT"), std::string::npos);
      continue;
    }
    EXPECT_EQ(address->host, one.host);
    EXPECT_EQ(address->port, one.port);
  }
}

TEST(HttpEndpoints, ServesOnTcp) {
  const auto server = dp::HttpEndpoints::start(*dp::parse_http_address("127.0.0.1:0"), handlers(false));
  ASSERT_TRUE(server) << server.error().message();
  const int port = (*server)->port();
  EXPECT_NE(get(port, "/healthz").find("HTTP/1.1 200"), std::string::npos);
  const std::string not_ready = get(port, "/readyz");
  EXPECT_NE(not_ready.find("HTTP/1.1 503"), std::string::npos);
  EXPECT_NE(not_ready.find("feed"), std::string::npos);
  EXPECT_NE(get(port, "/metrics").find("podlane_build_info 1"), std::string::npos);
  EXPECT_NE(get(port, "/other").find("HTTP/1.1 404"), std::string::npos);
  const auto second =
      dp::HttpEndpoints::start(*dp::parse_http_address("127.0.0.1:" + std::to_string(port)), handlers(true));
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find(std::to_string(port)), std::string::npos);
}

TEST(HttpEndpoints, GarbageAndHalfRequestsHoldNobodyUp) {
  ::signal(SIGPIPE, SIG_IGN);  // As the daemon's main(): an answer may meet a reader that is gone.
  const std::string path = "/tmp/" + random_name("ph") + ".sock";
  const auto server = dp::HttpEndpoints::start(*dp::parse_http_address("unix:" + path), handlers(true));
  ASSERT_TRUE(server) << server.error().message();
  std::vector<UniqueFd> held;
  const std::string endless = "GET /healthz HTTP/1.1\r\nX: " + std::string(64 << 10, 'x');
  for (const std::string& request :
       {std::string(), std::string("GET /healthz HTTP/1.1\r\nHos"), std::string(1000, '\0'), std::string("\r\n\r\n"),
        std::string("POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), endless,
        std::string("GET /%zz/../../etc/passwd HTTP/9.9\r\n\r\n")}) {
    SCOPED_TRACE(request.substr(0, 40));
    held.emplace_back(connect_to(path));
    (void)::send(held.back().get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    EXPECT_NE(get(path, "/readyz").find("HTTP/1.1 200"), std::string::npos);
  }
}

TEST(HttpEndpoints, ServesOnAUnixSocketAndRemovesIt) {
  const std::string path = "/tmp/" + random_name("ph") + ".sock";
  for (int life = 0; life < 2; ++life) {
    const auto server = dp::HttpEndpoints::start(*dp::parse_http_address("unix:" + path), handlers(true));
    ASSERT_TRUE(server) << server.error().message();
    EXPECT_NE(get(path, "/readyz").find("HTTP/1.1 200"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(Metrics, ShowsLanesAndRefusesBadNamesFromPods) {
  dp::LaneReport lane{.pool = "feed",
                      .device = "feed-0",
                      .state = "live",
                      .kind = "queue",
                      .netdev = "eth1",
                      .pod_namespace = "desk",
                      .pod = "md\"0\n",
                      .container = "engine",
                      .path = "direct",
                      .mode = "spinning",
                      .ifname = "lane0"};
  lane.kernel_counters = {{"rx_frames", 7}, {"rx_no_socket", 3}};
  lane.owner_counters = {{"tx_packets", 5}, {"bad name{", 1}, {"", 2}};
  const std::string text = dp::render_metrics(
      {.pools = {{.pool = "feed", .registered = true, .registrations_total = 2}},
       .devices = {{"feed", {{.id = "feed-0", .why = {}}, {.id = "feed-1", .healthy = false, .why = "down"}}}},
       .lanes = {lane, {.pool = "feed", .device = "feed-1", .state = "free"}},
       .table = {.handovers_total = 4, .handover_refusals_total = {{"busy", 1}}}});
  for (const char* line :
       {"podlane_kubelet_registered{pool=\"feed\"} 1", "podlane_kubelet_registrations_total{pool=\"feed\"} 2",
        "podlane_devices{pool=\"feed\",health=\"healthy\"} 1", "podlane_lanes{pool=\"feed\",state=\"live\"} 1",
        "podlane_lanes{pool=\"feed\",state=\"free\"} 1", "counter=\"rx_frames\"} 7", "reason=\"rx_no_socket\"} 3",
        "podlane_handovers_total 4", "podlane_handover_refusals_total{code=\"busy\"} 1", "counter=\"tx_packets\"} 5",
        "pod=\"md\\\"0\\n\"", "podlane_build_info{version="}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("bad name"), std::string::npos);
}

TEST(RunLock, TheSecondSaysWhoHoldsIt) {
  const std::string dir = "/tmp/" + random_name("pr");
  {
    const auto first = dp::RunLock::acquire(dir);
    ASSERT_TRUE(first) << first.error().message();
    const auto second = dp::RunLock::acquire(dir);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::kBusy);
    EXPECT_NE(second.error().message().find("pid " + std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_TRUE(dp::RunLock::acquire(dir));
  fs::remove_all(dir);
}

}  // namespace
}  // namespace podlane::test
