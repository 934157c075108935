// The built podlane-deviceplugin against the built test-kubelet, in a scratch network namespace as its host.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "lib/json/json.hpp"
#include "tests/system/kubelet/child.hpp"

namespace podlane::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

std::string binary(const std::string& name) {
  const char* folder = std::getenv("PODLANE_BIN");
  return std::string(folder != nullptr ? folder : "bin") + "/" + name;
}

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() : dir_("/tmp/" + random_name("pd")), bpffs_("/sys/fs/bpf/" + random_name("pd")) {
    fs::create_directories(dir_);
    pair_.emplace(host_, wire_, "eth1", "wire1");
    host_.ip("address add 10.9.0.1/24 dev eth1");
  }
  ~DaemonTest() override {
    daemon_.reset();
    kubelet_.reset();
    if (HasFailure()) show_logs();
    fs::remove_all(dir_);
    std::error_code error;
    fs::remove_all(bpffs_, error);
  }

  void show_logs() const {
    for (const char* name : {"daemon.log", "kubelet.log"}) {
      std::ifstream in(dir_ + "/" + name);
      std::string text((std::istreambuf_iterator<char>(in)), {});
      std::fprintf(stderr, "--- %s\n%s", name, text.c_str());
    }
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  static std::string veth_pool(const std::string& name, int lanes) {
    return R"({"name":")" + name + R"(","lane":"veth","lanes":)" + std::to_string(lanes) +
           R"(,"devices":{"names":["eth1"]},"subnets":["10.9.0.0/24"],"gateway":"10.9.0.254"})";
  }
  static std::string tun_pool(const std::string& name, int lanes) {
    return R"({"name":")" + name + R"(","lane":"tun","lanes":)" + std::to_string(lanes) +
           R"(,"subnets":["10.8.0.0/24"]})";
  }

  std::vector<std::string> daemon_command(const std::string& config) const {
    return {"/usr/bin/nsenter",
            "--net=" + host_.path(),
            "--",
            binary("podlane-deviceplugin"),
            "--config",
            config,
            "--kubelet-dir",
            dir_ + "/kubelet",
            "--run-dir",
            dir_ + "/run",
            "--state-dir",
            dir_ + "/state",
            "--bpffs",
            bpffs_,
            "--http",
            "unix:" + dir_ + "/http.sock"};
  }
  void start_daemon(const std::string& config) {
    daemon_ = std::make_unique<Child>(daemon_command(config), dir_ + "/daemon.log");
  }
  void start_kubelet() {
    kubelet_ = std::make_unique<Child>(std::vector<std::string>{binary("test-kubelet"), "serve", "--kubelet-dir",
                                                                dir_ + "/kubelet", "--socket", dir_ + "/control.sock"},
                                       dir_ + "/kubelet.log");
    ASSERT_TRUE(eventually(seconds(10), [&] { return fs::exists(dir_ + "/control.sock"); }));
  }
  CommandResult ctl(std::vector<std::string> words) const {
    std::vector<std::string> argv{binary("test-kubelet"), "ctl", "--socket", dir_ + "/control.sock"};
    argv.insert(argv.end(), words.begin(), words.end());
    return run(argv);
  }
  int allocatable(const std::string& pool) const {
    const auto answer = json::parse(ctl({"resources"}).out);
    if (!answer) return -1;
    return answer->value(json::Value::json_pointer("/resources/podlane.io~1" + pool + "/allocatable"), -1);
  }
  std::string page(const std::string& name) const {
    return run({"/usr/bin/curl", "-s", "--unix-socket", dir_ + "/http.sock", "http://x/" + name}).out;
  }
  long rss_kib() const {
    // nsenter replaces itself by the daemon: the pid is the daemon's.
    std::ifstream in("/proc/" + std::to_string(daemon_->pid()) + "/status");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("VmRSS:")) return std::strtol(line.c_str() + 6, nullptr, 10);
    }
    return -1;
  }

  std::string dir_, bpffs_;
  ScratchNetns host_, wire_;
  std::optional<VethPair> pair_;
  std::unique_ptr<Child> kubelet_, daemon_;
};

TEST_F(DaemonTest, CheckConfigSaysWhatIsWrong) {
  const std::string right = write("right.json", R"({"pools":[)" + tun_pool("vpn", 2) + "]}");
  CommandResult result = run({binary("podlane-deviceplugin"), "--config", right, "--check-config"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("1 pool"), std::string::npos);
  struct Case {
    const char* name;
    std::string text;
    const char* message;
    int exit_code;
  };
  const Case cases[] = {
      {"no lanes", R"({"pools":[{"name":"vpn","lane":"tun","subnets":["10.8.0.0/24"]}]})", "lanes", 3},
      {"no JSON", "{", "config", 3},
      {"bad kind", R"({"pools":[{"name":"x","lane":"carrier-pigeon"}]})", "carrier-pigeon", 3}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    result = run({binary("podlane-deviceplugin"), "--config", write("wrong.json", one.text), "--check-config"});
    EXPECT_EQ(result.status, one.exit_code);
    EXPECT_NE(result.out.find(one.message), std::string::npos) << result.out;
  }
  EXPECT_EQ(run({binary("podlane-deviceplugin"), "--config", dir_ + "/missing", "--check-config"}).status, 3);
  EXPECT_EQ(run({binary("podlane-deviceplugin"), "--no-such-flag"}).status, 2);
  EXPECT_EQ(run({binary("podlane-deviceplugin"), "--config", right, "--http", "nowhere"}).status, 2);
  EXPECT_EQ(run({binary("podlane-deviceplugin"), "--version"}).status, 0);
}

TEST_F(DaemonTest, RunsWithoutPoolsAndOnlyOnce) {
  const std::string config = write("config.json", R"({"pools":[]})");
  start_daemon(config);
  ASSERT_TRUE(eventually(seconds(10), [&] { return page("readyz") == "ok\n"; }));
  EXPECT_EQ(page("healthz"), "ok\n");
  EXPECT_NE(page("metrics").find("podlane_build_info"), std::string::npos);
  std::fprintf(stderr, "RSS without pools: %ld KiB\n", rss_kib());
  const CommandResult second = run(daemon_command(config));
  EXPECT_EQ(second.status, 4) << second.out;
  EXPECT_NE(second.out.find("pid " + std::to_string(daemon_->pid())), std::string::npos) << second.out;
  daemon_->signal(SIGTERM);
  EXPECT_EQ(daemon_->wait(seconds(10)), 0);
  EXPECT_FALSE(fs::exists(dir_ + "/http.sock"));
}

TEST_F(DaemonTest, OffersItsPoolsThroughRestartsOfEitherSide) {
  start_daemon(write("config.json", R"({"pools":[)" + veth_pool("feed", 3) + "," + tun_pool("vpn", 2) + "]}"));
  ASSERT_TRUE(eventually(seconds(10), [&] { return page("healthz") == "ok\n"; }));
  EXPECT_NE(page("readyz").find("feed, vpn"), std::string::npos);  // The kubelet is not there yet.
  start_kubelet();
  ASSERT_TRUE(eventually(seconds(5), [&] { return allocatable("feed") == 3 && allocatable("vpn") == 2; }));
  ASSERT_TRUE(eventually(seconds(2), [&] { return page("readyz") == "ok\n"; }));

  const std::string pod = write("pod.json", R"({"metadata":{"name":"md-0"},"spec":{"containers":[
      {"name":"engine","resources":{"limits":{"podlane.io/feed":2}}}]}})");
  const CommandResult admitted = ctl({"admit-pod", pod});
  ASSERT_EQ(admitted.status, 0) << admitted.out;
  const auto answer = json::parse(admitted.out);
  ASSERT_TRUE(answer) << admitted.out;
  const json::Value& container = (*answer)["containers"][0];
  EXPECT_EQ(container["env"].value("PODLANE_LANES_FEED", ""), "/run/podlane/lanes/feed") << admitted.out;
  const std::string host_path = container["mounts"][0].value("hostPath", "");
  EXPECT_TRUE(host_path.starts_with(dir_ + "/run/lanes/")) << host_path;
  EXPECT_TRUE(fs::exists(host_path + "/0/handover.sock"));
  EXPECT_TRUE(fs::exists(host_path + "/1/handover.sock"));
  EXPECT_NE(page("metrics").find("podlane_allocations_total{pool=\"feed\"} 1"), std::string::npos);

  // A kubelet that restarts deletes our sockets; a daemon that restarts keeps what was allocated.
  ASSERT_EQ(ctl({"restart", "awayMs=200"}).status, 0);
  EXPECT_TRUE(eventually(seconds(2), [&] { return allocatable("feed") == 3 && allocatable("vpn") == 2; }));
  daemon_->signal(SIGKILL);
  daemon_->wait(seconds(10));
  start_daemon(dir_ + "/config.json");
  EXPECT_TRUE(eventually(seconds(10), [&] { return allocatable("feed") == 3 && allocatable("vpn") == 2; }));
  EXPECT_TRUE(eventually(seconds(5), [&] { return fs::exists(host_path + "/0/handover.sock"); }));
  daemon_->signal(SIGTERM);
  EXPECT_EQ(daemon_->wait(seconds(10)), 0);
  EXPECT_FALSE(fs::exists(dir_ + "/kubelet/device-plugins/podlane-feed.sock"));
}

TEST_F(DaemonTest, StaysSmallWith500Lanes) {
  start_kubelet();
  start_daemon(write("config.json", R"({"pools":[)" + veth_pool("feed", 500) + "]}"));
  ASSERT_TRUE(eventually(seconds(20), [&] { return allocatable("feed") == 500; }));
  const std::string pod = write("pod.json", R"({"metadata":{"name":"md-0"},"spec":{"containers":[
      {"name":"engine","resources":{"limits":{"podlane.io/feed":64}}}]}})");
  EXPECT_EQ(ctl({"admit-pod", pod}).status, 0);
  for (int i = 0; i < 20; ++i) page("metrics");
  const long rss = rss_kib();
  std::fprintf(stderr, "RSS with 500 lanes: %ld KiB\n", rss);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(rss, 25 * 1024);  // design.md §8
#endif
}

}  // namespace
}  // namespace podlane::test
