// The journal's files in a scratch directory: missing, rubbish, writers that are killed, locks.
#include "lib/journal/journal.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace podlane::journal {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern = (fs::temp_directory_path() / "podlane-journal-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory = pattern;
  }
  ~JournalTest() override { fs::remove_all(directory); }

  static AttachmentRecord record_of(const AttachmentKey& key, const std::string& boot = "b-1") {
    return {.key = key, .boot_id = boot, .netns_path = "/run/netns/a", .lanes = {{.ifname = "lane0"}}};
  }
  static AddressRecord lease_of(const AttachmentKey& key, const std::string& boot = "b-1") {
    return {.key = key, .boot_id = boot, .netns_path = "", .calls = {{.plugin = "host-local", .config = {{"a", 1}}}}};
  }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(directory + "/" + path).parent_path());
    std::ofstream(directory + "/" + path) << text;
  }
  std::size_t files_in(const std::string& folder) const {
    std::size_t count = 0;
    if (!fs::exists(directory + "/" + folder)) return 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory + "/" + folder)) ++count;
    return count;
  }

  std::string directory;
  Journal journal() const { return {directory + "/run", directory + "/state"}; }
  const AttachmentKey key{"base", "c1", "eth0"}, other{"base", "c2", "eth0"};
};

TEST_F(JournalTest, NothingThereIsNoErrorAnywhere) {
  const Journal empty = journal();
  EXPECT_TRUE(empty.list() && empty.list()->records.empty() && empty.list()->unreadable.empty());
  EXPECT_TRUE(empty.list_addresses() && empty.list_addresses()->records.empty());
  EXPECT_TRUE(empty.list_pending_deletes() && empty.list_pending_deletes()->records.empty());
  const auto record = empty.read(key);
  EXPECT_TRUE(record && !*record);
  const auto lease = empty.read_addresses(key);
  EXPECT_TRUE(lease && !*lease);
  const auto waits = empty.has_pending_delete(key);
  EXPECT_TRUE(waits && !*waits);
  EXPECT_TRUE(empty.remove(key).has_value());
  EXPECT_TRUE(empty.remove_addresses(key).has_value());
  EXPECT_TRUE(empty.remove_pending_delete(key).has_value());
  EXPECT_TRUE(empty.sweep(key).has_value());
  EXPECT_EQ(files_in(""), 0U) << "reading makes nothing";
}

TEST_F(JournalTest, WritesReadsReplacesAndRemoves) {
  const Journal files = journal();
  ASSERT_TRUE(files.write(record_of(key)).has_value());
  ASSERT_TRUE(files.write(record_of(key, "b-2")).has_value());
  ASSERT_TRUE(files.write(record_of(other)).has_value());
  ASSERT_TRUE(files.write_addresses(lease_of(key)).has_value());
  const auto record = files.read(key);
  ASSERT_TRUE(record && *record);
  EXPECT_EQ((*record)->boot_id, "b-2");
  const auto listing = files.list();
  ASSERT_TRUE(listing.has_value());
  EXPECT_EQ(listing->records.size(), 2U);
  const auto leases = files.list_addresses();
  ASSERT_TRUE(leases.has_value());
  ASSERT_EQ(leases->records.size(), 1U);
  EXPECT_EQ(leases->records[0].calls[0].plugin, "host-local");
  ASSERT_TRUE(files.remove(key).has_value());
  ASSERT_TRUE(files.remove_addresses(key).has_value());
  EXPECT_EQ(files_in("run/attachments"), 1U);
  EXPECT_EQ(files_in("state/addresses"), 0U);
  // Others on the node must not read who has what.
  const auto mode = fs::status(directory + "/run/attachments").permissions();
  EXPECT_EQ(mode & (fs::perms::group_all | fs::perms::others_all), fs::perms::none);
}

TEST_F(JournalTest, ARecordOfAnotherBootIsKeptApartByItsBootId) {
  const auto boot = read_boot_id();
  ASSERT_TRUE(boot.has_value());
  EXPECT_EQ(boot->size(), 36U) << *boot;
  ASSERT_TRUE(journal().write_addresses(lease_of(key, "an-older-boot")).has_value());
  const auto lease = journal().read_addresses(key);
  ASSERT_TRUE(lease && *lease);
  EXPECT_NE((*lease)->boot_id, *boot);
}

TEST_F(JournalTest, ARubbishFileIsNamedAndHidesNoOther) {
  const Journal files = journal();
  ASSERT_TRUE(files.write(record_of(key)).has_value());
  ASSERT_TRUE(files.write_addresses(lease_of(key)).has_value());
  ASSERT_TRUE(files.write_pending_delete(key).has_value());
  for (const char* folder : {"run/attachments", "run/pending-del", "state/addresses"}) {
    put(std::string(folder) + "/rubbish.json", "\x7f" "ELF");
    put(std::string(folder) + "/empty.json", "");
    put(std::string(folder) + "/.hidden.json", "{");
    put(std::string(folder) + "/readme", "{");
    fs::create_directories(directory + "/" + folder + "/folder.json");
  }
  const auto expect = [](const auto& listing, std::size_t records) {
    ASSERT_TRUE(listing.has_value());
    EXPECT_EQ(listing->records.size(), records);
    EXPECT_EQ(listing->unreadable.size(), 3U);
    for (const Error& error : listing->unreadable) {
      EXPECT_NE(error.message().find(".json"), std::string::npos) << error.message();
    }
  };
  expect(files.list(), 1);
  expect(files.list_addresses(), 1);
  expect(files.list_pending_deletes(), 1);
  // Of the key itself: an error, never "no record".
  put("run/attachments/" + file_stem_of(key) + ".json", "{\"version\":1");
  EXPECT_FALSE(files.read(key).has_value());
  put("run/pending-del/" + file_stem_of(key) + ".json", "");
  EXPECT_FALSE(files.has_pending_delete(key).has_value());
}

TEST_F(JournalTest, APendingDeleteIsThereUntilItIsRemoved) {
  const Journal files = journal();
  ASSERT_TRUE(files.write_pending_delete(key).has_value());
  ASSERT_TRUE(files.write_pending_delete(key).has_value());
  const auto waits = files.has_pending_delete(key), not_other = files.has_pending_delete(other);
  EXPECT_TRUE(waits && *waits);
  EXPECT_TRUE(not_other && !*not_other);
  const auto listing = files.list_pending_deletes();
  ASSERT_TRUE(listing.has_value());
  EXPECT_EQ(listing->records, std::vector<AttachmentKey>{key});
  ASSERT_TRUE(files.remove_pending_delete(key).has_value());
  EXPECT_EQ(files_in("run/pending-del"), 0U);
}

TEST_F(JournalTest, SweepTakesTheKilledWritersFilesOfItsKeyAlone) {
  const Journal files = journal();
  ASSERT_TRUE(files.write(record_of(key)).has_value());
  for (const char* folder : {"run/attachments", "run/pending-del", "state/addresses"}) {
    put(std::string(folder) + "/." + file_stem_of(key) + ".json.123.0", "{\"vers");
    put(std::string(folder) + "/." + file_stem_of(other) + ".json.124.0", "{\"vers");
  }
  const auto listing = files.list();
  ASSERT_TRUE(listing.has_value());
  EXPECT_EQ(listing->records.size(), 1U);
  EXPECT_TRUE(listing->unreadable.empty());
  ASSERT_TRUE(files.sweep(key).has_value());
  EXPECT_EQ(files_in("run/attachments"), 2U);
  EXPECT_EQ(files_in("run/pending-del"), 1U);
  EXPECT_EQ(files_in("state/addresses"), 1U);
  const auto record = files.read(key);
  EXPECT_TRUE(record && *record);
}

// Killed at any moment: a reader finds a whole record, the old or the new one, and sweep() leaves no other file.
TEST_F(JournalTest, AWriterKilledHalfWayLeavesAWholeRecord) {
  const Journal files = journal();
  ASSERT_TRUE(files.write(record_of(key)).has_value());
  ASSERT_TRUE(files.write_addresses(lease_of(key)).has_value());
  AttachmentRecord big = record_of(key, "b-2");
  for (int at = 0; at < 64; ++at) big.lanes.push_back({.ifname = "lane" + std::to_string(at)});
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        (void)files.write(big);
        (void)files.write(record_of(key));
        (void)files.write_pending_delete(key);
      }
    }
    // Reads meanwhile as well; the number of them makes the moment of the kill another one each round.
    for (int reads = 0; reads <= round; ++reads) {
      const auto record = files.read(key);
      ASSERT_TRUE(record && *record) << (record ? "no record" : record.error().message());
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto record = files.read(key);
    ASSERT_TRUE(record && *record) << (record ? "no record" : record.error().message());
    ASSERT_TRUE(files.sweep(key).has_value());
    ASSERT_EQ(files_in("run/attachments"), 1U);
    ASSERT_LE(files_in("run/pending-del"), 1U);
  }
}

TEST_F(JournalTest, TheLockExcludesAndGoesWithItsHolder) {
  const Journal files = journal();
  {
    const auto held = files.lock(key, milliseconds(0));
    ASSERT_TRUE(held.has_value());
    const auto second = files.lock(key, milliseconds(20));
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code(), Errc::kBusy);
    EXPECT_TRUE(files.lock(other, milliseconds(0)).has_value());
  }
  const auto again = files.lock(key, milliseconds(0));
  ASSERT_TRUE(again.has_value());
  // Its file is retired while somebody waits for it: the next holder's lock is on a file that is there.
  ASSERT_TRUE(files.retire_lock(key, *again).has_value());
  const auto next = files.lock(key, milliseconds(0));
  ASSERT_TRUE(next.has_value());
  ASSERT_TRUE(files.retire_lock(key, *again).has_value()) << "a retired lock takes no other's file";
  EXPECT_FALSE(files.lock(key, milliseconds(0)).has_value());
}

TEST_F(JournalTest, AKilledHoldersLockIsFree) {
  const Journal files = journal();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = files.lock(key, milliseconds(0));
    (void)!::write(ready[1], held ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char said = 'n';
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_FALSE(files.lock(key, milliseconds(0)).has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(files.lock(key, milliseconds(1000)).has_value());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace podlane::journal
