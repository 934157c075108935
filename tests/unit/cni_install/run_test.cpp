// The program itself: watching, the probe, its end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testlib/testlib.hpp"
#include "tests/unit/cni_install/node.hpp"

namespace podlane::cni {
namespace {

using namespace std::chrono_literals;
using test::Node;

constexpr auto kPatience = 60s;  // Of a machine that starts a program in ten seconds, as a busy one with ASan does.
constexpr std::string_view kPlain = R"({"name":"base","cniVersion":"0.4.0","plugins":[{"type":"ptp"}]})";

class Program {
 public:
  Program(const Node& node, std::vector<std::string> more) {
    std::vector<std::string> words{program(), "run"};
    for (const std::string& word : flags(node)) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    pid_ = ::fork();
    if (pid_ == 0) {
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Program() { end(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  int end() {
    if (pid_ <= 0) return -1;
    int status = 0;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static std::string program() { return std::string(std::getenv("PODLANE_BIN")) + "/podlane-cni-installer"; }
  static std::vector<std::string> flags(const Node& node) {
    return {"--source",    node.at("image/podlane"), "--bin-dir", node.at("bin"), "--conf-dir", node.at("conf"),
            "--cache-dir", node.at("cache"),         "--run-dir", node.at("run")};
  }
  static test::CommandResult status(const Node& node, std::vector<std::string> more = {}) {
    std::vector<std::string> words{program(), "status"};
    for (const std::string& word : flags(node)) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return test::run(words);
  }

 private:
  pid_t pid_ = -1;
};

bool in_force(const Node& node) {
  return node.read("conf/10-a.conflist").find("podlane") != std::string::npos;
}

TEST(InstallerProgram, InstallsComesBackAfterARewriteAndLeavesTheNodeAsItIs) {
  Node node;
  node.stop_device_plugin();
  Program program(node, {});
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return node.has("bin/podlane") && Program::status(node).status == 1; }));
  node.rename_in("conf/10-a.conflist", kPlain);
  node.start_device_plugin();
  EXPECT_TRUE(test::eventually(kPatience, [&] { return in_force(node) && Program::status(node).status == 0; }));
  node.rename_in("conf/10-a.conflist", kPlain);
  EXPECT_TRUE(test::eventually(kPatience, [&] { return in_force(node); }));
  test::fs::remove(node.at("bin/podlane"));
  EXPECT_TRUE(test::eventually(kPatience, [&] { return node.has("bin/podlane"); }));
  EXPECT_EQ(program.end(), 0);
  EXPECT_TRUE(in_force(node)) << "an upgrade must not take the node's lanes";
}

TEST(InstallerProgram, HoldsTheNodeWithoutUsWhenToldSo) {
  Node node;
  node.write("conf/10-a.conflist", kPlain);
  {
    Program program(node, {});
    ASSERT_TRUE(test::eventually(kPatience, [&] { return in_force(node); }));
  }
  Program program(node, {"--uninstall"});
  EXPECT_TRUE(test::eventually(kPatience, [&] { return !in_force(node) && !node.has("bin/podlane"); }));
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return Program::status(node).out.find("uninstalled") != std::string::npos; }));
}

TEST(InstallerProgram, BadEntryIsRefusedInWords) {
  Node node;
  const auto result = Program::status(node, {"--entry", R"({"ipam":{}})"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.out.find("'ipam'"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace podlane::cni
