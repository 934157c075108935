// IPAM plugins that do not keep to what CNI asks of them: scripts in a scratch directory.
#include "lib/journal/ipam.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/unique_fd.hpp"
#include "lib/journal/journal.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::journal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class CallIpam : public testing::Test {
 protected:
  CallIpam() {
    std::string pattern = (fs::temp_directory_path() / "podlane-ipam-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory = pattern;
  }
  ~CallIpam() override { fs::remove_all(directory); }

  std::expected<std::string, IpamFailure> call(const std::string& script, IpamOptions options) const {
    std::ofstream(directory + "/plugin") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(directory + "/plugin", fs::perms::owner_all);
    return call_ipam({.plugin = "plugin", .cni_path = directory, .config = {{"cniVersion", "1.0.0"}}}, "ADD", options);
  }

  std::string directory;
};

TEST_F(CallIpam, IsBoundedWhateverThePluginHangsIn) {
  for (const char* script :
       {"exec sleep 60", "sleep 60", "echo '{}'; exec sleep 60", "echo '{}'; exec >&-; sleep 60"}) {
    SCOPED_TRACE(script);
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = call(script, {.timeout = 300ms});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, test::patient(20s));
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().error.message().find("in time"), std::string::npos) << answer.error().error.message();
  }
}

TEST_F(CallIpam, LeavesNobodyWithTheLockWhenItGivesUp) {
  const std::string path = directory + "/lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_FALSE(call("sleep 60; true", {.timeout = 300ms, .inherit_fd = lock.get()}));
  lock.reset();
  const UniqueFd next(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  // A killed process lets go of its descriptors a little later.
  EXPECT_TRUE(test::eventually(10s, [&] { return ::flock(next.get(), LOCK_EX | LOCK_NB) == 0; }));
}

TEST_F(CallIpam, TakesTheAnswerOfAPluginThatEndsALittleLater) {
  const auto answer = call("cat >/dev/null; echo '{}'; exec >&-; sleep 0.1", {.timeout = 20s});
  ASSERT_TRUE(answer) << answer.error().error.message();
  EXPECT_EQ(*answer, "{}\n");
}

// A process that the plugin leaves behind keeps output and lock open; neither is waited for.
TEST_F(CallIpam, DoesNotWaitForWhatThePluginLeftBehind) {
  const Journal journal(directory + "/run", directory + "/state");
  const AttachmentKey key{"net", "c1", "eth0"};
  const auto begin = std::chrono::steady_clock::now();
  {
    const auto lock = journal.lock(key, 1s);
    ASSERT_TRUE(lock);
    const auto answer = call("cat >/dev/null; sleep 50 & echo $! >" + directory + "/left; echo '{}'",
                             {.timeout = 40s, .inherit_fd = lock->fd()});
    ASSERT_TRUE(answer) << answer.error().error.message();
    EXPECT_EQ(*answer, "{}\n");
  }
  EXPECT_TRUE(journal.lock(key, 1s));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  int left = 0;
  std::ifstream(directory + "/left") >> left;
  EXPECT_EQ(::kill(left, SIGKILL), 0) << "it was to outlive the plugin";
}

}  // namespace
}  // namespace podlane::journal
