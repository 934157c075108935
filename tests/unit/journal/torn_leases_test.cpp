// Leases of host-local that a power cut left empty.
#include "lib/journal/torn_leases.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "lib/base/unique_fd.hpp"
#include "lib/journal/ipam.hpp"
#include "lib/journal/journal.hpp"

namespace podlane::journal {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t kBoot = 1000000;

class TornLeases : public testing::Test {
 protected:
  TornLeases() {
    std::string pattern = (fs::temp_directory_path() / "podlane-torn-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory = pattern;
    fs::create_directory(network());
    call = {.plugin = "host-local",
            .cni_path = directory,
            .config = {{"name", "podlane-feed"}, {"ipam", {{"dataDir", directory}}}}};
  }
  ~TornLeases() override { fs::remove_all(directory); }

  std::string network() const { return directory + "/podlane-feed"; }
  void file(const std::string& name, const std::string& text, std::time_t written) const {
    std::ofstream(network() + "/" + name) << text;
    const timespec times[2] = {{written, 0}, {written, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (network() + "/" + name).c_str(), times, 0), 0);
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(network())) found.insert(entry.path().filename());
    return found;
  }

  std::string directory;
  IpamCall call;
};

TEST_F(TornLeases, OnlyEmptyLeasesOfEarlierBootsGo) {
  file("10.9.0.5", "", kBoot - 1);
  file("fd00:9::5", "", kBoot - 100);
  file("10.9.0.6", "c1\r\nlane0", kBoot - 1);
  file("10.9.0.7", "", kBoot);
  file("lock", "", kBoot - 1);
  file("last_reserved_ip.0", "", kBoot - 1);
  fs::create_symlink("10.9.0.6", network() + "/10.9.0.8");
  fs::create_directory(network() + "/10.9.0.9");
  EXPECT_EQ(remove_torn_leases(call, kBoot), 2U);
  EXPECT_EQ(names(),
            (std::set<std::string>{"10.9.0.6", "10.9.0.7", "10.9.0.8", "10.9.0.9", "last_reserved_ip.0", "lock"}));
  EXPECT_EQ(remove_torn_leases(call, kBoot), 0U);
}

TEST_F(TornLeases, NothingForOtherPluginsAndForWhatIsNoConfiguration) {
  file("10.9.0.5", "", kBoot - 1);
  for (const IpamCall& other :
       {IpamCall{.plugin = "dhcp", .config = call.config}, IpamCall{.plugin = "host-local", .config = json::Value()},
        IpamCall{.plugin = "host-local", .config = {{"name", "../podlane-feed"}, {"ipam", {{"dataDir", directory}}}}},
        IpamCall{.plugin = "host-local", .config = {{"name", 7}, {"ipam", {{"dataDir", directory}}}}},
        IpamCall{.plugin = "host-local",
        .config = {{"name", "podlane-feed"}, {"ipam", {{"dataDir", directory + "/none"}}}}},
        IpamCall{.plugin = "host-local", .config = {{"name", "podlane-feed"}, {"ipam", 3}}}}) {
    EXPECT_EQ(remove_torn_leases(other, kBoot), 0U) << json::dump(other.config);
  }
  EXPECT_EQ(names(), std::set<std::string>{"10.9.0.5"});
}

// host-local holds it while it gives an address.
TEST_F(TornLeases, StayWhileTheNetworkIsLocked) {
  file("10.9.0.5", "", kBoot - 1);
  UniqueFd lock(::open((network() + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_EQ(remove_torn_leases(call, kBoot), 0U);
  lock.reset();
  EXPECT_EQ(remove_torn_leases(call, kBoot), 1U);
}

TEST_F(TornLeases, GoWithTheRecordOfAnotherBoot) {
  std::ofstream(directory + "/host-local") << "#!/bin/sh\ncat >/dev/null\n";
  fs::permissions(directory + "/host-local", fs::perms::owner_all);
  ASSERT_GT(boot_time(), kBoot);
  const std::string this_boot = *read_boot_id();
  for (const auto& [boot_id, left] : {std::pair(this_boot, 1U), std::pair(std::string("another"), 0U)}) {
    file("10.9.0.5", "", kBoot);
    const AddressRecord record{
        .key = {"net", "c1", "eth0"}, .boot_id = boot_id, .netns_path = "/run/netns/x", .calls = {call}};
    EXPECT_TRUE(release_addresses(record, {}));
    EXPECT_EQ(names().count("10.9.0.5"), left) << boot_id;
  }
}

}  // namespace
}  // namespace podlane::journal
