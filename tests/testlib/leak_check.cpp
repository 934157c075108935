// Ends each suite that links podlane_testlib: nothing that the suite named by random_name() may be left - namespaces,
// interfaces, pins, temporary files - nor a child process, nor a descriptor of a kind that holds kernel objects alive.
// scripts/test.sh looks over the whole machine once more at the end.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <map>

#include "tests/testlib/testlib.hpp"

namespace podlane::test {

namespace {

namespace fs = std::filesystem;

// Descriptors that keep kernel objects alive, by what /proc/self/fd shows.
std::map<std::string, int> holding_descriptors() {
  std::map<std::string, int> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", ignored)) {
    const std::string target = fs::read_symlink(entry.path(), ignored).string();
    for (const char* kind : {"net:[", "/dev/net/tun", "/memfd:", "anon_inode:bpf"}) {
      if (target.rfind(kind, 0) == 0) ++found[kind];
    }
  }
  return found;
}

class LeakCheck : public ::testing::Environment {
 public:
  void SetUp() override { before_ = holding_descriptors(); }

  void TearDown() override {
    for (const std::string& name : names_given()) {
      for (const char* directory : {"/run/netns/", "/sys/class/net/", "/sys/fs/bpf/", "/tmp/", "/run/"}) {
        EXPECT_FALSE(fs::exists(fs::symlink_status(directory + name))) << "left behind: " << directory << name;
      }
    }
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child process was left behind";
    for (const auto& [kind, count] : holding_descriptors()) {
      EXPECT_LE(count, before_[kind]) << "descriptors left open: " << kind;
    }
  }

 private:
  std::map<std::string, int> before_;
};

[[maybe_unused]] const auto* const kRegistered = ::testing::AddGlobalTestEnvironment(new LeakCheck);

}  // namespace

}  // namespace podlane::test
