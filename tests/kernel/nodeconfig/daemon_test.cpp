// podlane-nodeconfig run, as a process: on built trees, whose files anybody may change, and in a scratch network
// namespace.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/file.hpp"
#include "lib/json/json.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/unit/nodeconfig/node_builder.hpp"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using podlane::nodeconfig::test::Node;
using podlane::test::eventually;

const std::string kProgram = std::string(std::getenv("PODLANE_BIN")) + "/podlane-nodeconfig";
constexpr const char* kInterval = "/proc/sys/vm/stat_interval";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The daemon on a tree; killed at the end.
class Daemon {
 public:
  Daemon(const std::string& dir, std::vector<std::string> argv) : log_(dir + "/daemon.log") {
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDERR_FILENO);
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  ~Daemon() {
    if (pid_ > 0) stop(SIGKILL);
  }
  int stop(int signal = SIGTERM) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void look_now() const { ::kill(pid_, SIGHUP); }
  std::string log() const { return text_of(log_); }

 private:
  std::string log_;
  pid_t pid_ = -1;
};

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() { fs::create_directories(node_.root() + "/etc/podlane"); }

  void profile(const std::string& json) {  // As a ConfigMap comes: whole, by rename.
    const auto written =
        podlane::write_file_atomic(node_.root() + "/etc/podlane/profile.json", json, podlane::Durability::kMemory);
    ASSERT_TRUE(written);
  }
  std::vector<std::string> program(const std::vector<std::string>& command) const {
    std::vector<std::string> argv = {kProgram,
                                     "--root",
                                     node_.root(),
                                     "--run-dir",
                                     node_.run_dir(),
                                     "--profile",
                                     node_.root() + "/etc/podlane/profile.json"};
    argv.insert(argv.end(), command.begin(), command.end());
    return argv;
  }
  std::unique_ptr<Daemon> started() {
    return std::make_unique<Daemon>(node_.root() + "/run", program({"run", "--settle-ms", "20"}));
  }
  bool reads(const std::string& path, const std::string& value) {
    return eventually(10s, [&] { return node_.get(path) == value; });
  }
  podlane::json::Value status() const {
    const auto document = podlane::json::parse(text_of(node_.run_dir() + "/nodeconfig.json"));
    return document ? *document : podlane::json::Value();
  }
  std::string outcome(const std::string& key) const {
    const auto document = status();
    if (!document.contains("changes")) return "";
    for (const auto& change : document["changes"]) {
      if (change["key"] == key) return change["outcome"].get<std::string>() + " " + change["words"].get<std::string>();
    }
    return "";
  }

  Node node_;
};

constexpr const char* kProfile = R"({"mode": "enforce", "memory": {"statIntervalSeconds": 120}})";

TEST_F(DaemonTest, AppliesFollowsTheProfileAndLeavesAllAtItsEnd) {
  node_.put("/run/x", "");
  profile(kProfile);
  const auto daemon = started();
  EXPECT_TRUE(reads(kInterval, "120")) << daemon->log();
  profile(R"({"mode": "enforce", "memory": {"statIntervalSeconds": 60, "ksm": "on"}})");
  EXPECT_TRUE(reads(kInterval, "60"));
  EXPECT_TRUE(reads("/sys/kernel/mm/ksm/run", "1"));
  profile(R"({"mode": "enforce", "memory": {"ksm": "on"}})");
  EXPECT_TRUE(reads(kInterval, "1")) << "what left the profile is as it was";
  EXPECT_EQ(daemon->stop(), 0);
  EXPECT_EQ(node_.get("/sys/kernel/mm/ksm/run"), "1");
}

TEST_F(DaemonTest, RestartedOneWritesNothing) {
  node_.put("/run/x", "");
  profile(kProfile);
  const auto first = started();
  ASSERT_TRUE(reads(kInterval, "120"));
  EXPECT_EQ(first->stop(SIGKILL), 128 + SIGKILL);
  const std::string journal = text_of(node_.run_dir() + "/nodeconfig-changes.jsonl");
  fs::remove(node_.run_dir() + "/nodeconfig.json");
  const auto second = started();
  ASSERT_TRUE(eventually(10s, [&] { return outcome("sysctl/vm.stat_interval") == "in-force "; })) << second->log();
  EXPECT_EQ(text_of(node_.run_dir() + "/nodeconfig-changes.jsonl"), journal);
}

TEST_F(DaemonTest, MendsThreeTimesThenNamesBothValues) {
  node_.put("/run/x", "");
  profile(kProfile);
  const auto daemon = started();
  ASSERT_TRUE(reads(kInterval, "120"));
  for (int i = 0; i < 3; ++i) {
    node_.put(kInterval, "5");
    daemon->look_now();
    ASSERT_TRUE(reads(kInterval, "120")) << i << daemon->log();
  }
  node_.put(kInterval, "5");
  daemon->look_now();
  ASSERT_TRUE(eventually(10s, [&] { return outcome("sysctl/vm.stat_interval").starts_with("contested"); }))
      << daemon->log();
  EXPECT_NE(outcome("sysctl/vm.stat_interval").find("wrote 5; 120 was put back 3 times"), std::string::npos);
  EXPECT_EQ(node_.get(kInterval), "5");
  // After an hour in which it held, the count begins again.
  node_.put(kInterval, "120");
  node_.put("/proc/uptime", "99999.00 1.00");
  daemon->look_now();
  ASSERT_TRUE(eventually(10s, [&] { return outcome("sysctl/vm.stat_interval") == "in-force "; }));
  node_.put(kInterval, "5");
  daemon->look_now();
  EXPECT_TRUE(reads(kInterval, "120"));
}

TEST_F(DaemonTest, AWrongOrMissingProfileChangesNothing) {
  node_.put("/run/x", "");
  profile(kProfile);
  const auto daemon = started();
  ASSERT_TRUE(reads(kInterval, "120"));
  profile(R"({"memory": {"thb": "never"}})");
  const auto named = [&](const char* part) {
    return eventually(10s, [&] {
      return status().contains("error") && status()["error"].get<std::string>().find(part) != std::string::npos;
    });
  };
  EXPECT_TRUE(named("memory.thb"));
  fs::remove(node_.root() + "/etc/podlane/profile.json");
  EXPECT_TRUE(named("profile.json"));
  EXPECT_EQ(node_.get(kInterval), "120");
  profile(R"({"mode": "enforce"})");
  EXPECT_TRUE(reads(kInterval, "1"));
}

TEST_F(DaemonTest, HoldsTheNodeForItself) {
  node_.put("/run/x", "");
  profile(kProfile);
  const auto daemon = started();
  ASSERT_TRUE(reads(kInterval, "120"));
  const auto refused = podlane::test::run(program({"apply"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.out.find("nodeconfig.lock"), std::string::npos) << refused.out;
  EXPECT_EQ(podlane::test::run(program({"status"})).status, 0) << "looking needs no lock";
}

// An interface that comes has its rule's settings soon: rtnetlink says so.
TEST_F(DaemonTest, TunesAnInterfaceThatComesLater) {
  const podlane::test::ScratchNetns netns;
  node_.put("/run/x", "");
  profile(R"({"mode": "enforce", "nics": [{"match": {"name": "late*"}, "txQueueLen": 77}]})");
  // The machine's own root, seen from the namespace: the profile speaks of interfaces alone.
  const Daemon daemon(node_.root() + "/run",
                      {"ip", "netns", "exec", netns.name(), kProgram, "--run-dir", node_.run_dir(), "--profile",
                       node_.root() + "/etc/podlane/profile.json", "run", "--settle-ms", "20"});
  ASSERT_TRUE(eventually(10s, [&] { return status().contains("changes"); })) << daemon.log();
  netns.ip("link add late0 type veth peer name late1");
  EXPECT_TRUE(eventually(20s, [&] {
    return podlane::test::run({"ip", "netns", "exec", netns.name(), "cat", "/sys/class/net/late0/tx_queue_len"}).out ==
           "77\n";
  })) << daemon.log();
}

}  // namespace
