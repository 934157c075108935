#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodeconfig/change_journal.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::nodeconfig {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  ~JournalTest() override { fs::remove_all(dir_); }

  ChangeJournal opened(const std::string& boot = "boot-1") {
    auto journal = ChangeJournal::open(dir_, boot);
    if (!journal) throw std::runtime_error(journal.error().message());
    return std::move(*journal);
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_text(const std::string& text) { std::ofstream(path_, std::ios::trunc) << text; }

  std::string dir_ = "/tmp/" + test::random_name("plj-"), path_ = dir_ + "/nodeconfig-changes.jsonl";
  const ChangeRecord one_{
      .key = "a/1", .knob = "memory.thp", .path = "/x", .original = "always", .written = "never", .at_ms = 5};
  const ChangeRecord two_{.key = "b",
                          .knob = "irqs",
                          .path = "/y",
                          .original = "0-3",
                          .written = "0",
                          .read_back = "1",
                          .at_ms = 6,
                          .mends = 2,
                          .mended_ms = 9};
};

TEST_F(JournalTest, KeepsRecordsInOrderAndTheLatestOfEach) {
  {
    ChangeJournal journal = opened();
    ASSERT_TRUE(journal.put(one_) && journal.put(two_));
    ChangeRecord newer = one_;
    newer.written = "madvise";
    ASSERT_TRUE(journal.put(newer));
  }
  const ChangeJournal journal = opened();
  ASSERT_EQ(journal.records().size(), 2U);
  EXPECT_EQ(journal.records()[0].written, "madvise");
  EXPECT_EQ(journal.records()[1], two_);
}

TEST_F(JournalTest, RemovedRecordsStayRemoved) {
  {
    ChangeJournal journal = opened();
    ASSERT_TRUE(journal.put(one_) && journal.put(two_) && journal.remove("a/1"));
  }
  EXPECT_EQ(opened().records().size(), 1U);
  ASSERT_TRUE(opened().remove("b"));
  EXPECT_EQ(text(), "");
}

TEST_F(JournalTest, AnotherBootHasNoRecords) {
  ASSERT_TRUE(opened().put(one_));
  EXPECT_TRUE(opened("boot-2").records().empty());
}

// A writer that died within a line: what came before it counts, and the next line is whole.
TEST_F(JournalTest, CutAtEachByte) {
  {
    ChangeJournal journal = opened();
    ASSERT_TRUE(journal.put(one_) && journal.put(two_));
  }
  const std::string whole = text();
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    set_text(whole.substr(0, size));
    ChangeJournal journal = opened();
    const std::size_t complete = size + 1 >= whole.size() ? 2U : size + 1 >= first ? 1U : 0U;
    ASSERT_EQ(journal.records().size(), complete) << size;
    ASSERT_TRUE(journal.put(two_));
    EXPECT_EQ(opened().records().back(), two_) << size;
  }
}

TEST_F(JournalTest, CountsWhatItCannotReadInTheMiddle) {
  ASSERT_TRUE(opened().put(one_));
  set_text("garbage\n{\"boot\":\"boot-1\"}\n" + text());
  const auto journal = ChangeJournal::read_only(dir_, "boot-1");
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->unreadable(), 2U);
  EXPECT_EQ(journal->records().size(), 1U);
}

TEST_F(JournalTest, DoesNotGrowForEver) {
  ChangeJournal journal = opened();
  ASSERT_TRUE(journal.put(one_));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(journal.put(two_) && journal.remove("b"));
  EXPECT_LT(text().size(), 100000U);
}

}  // namespace
}  // namespace podlane::nodeconfig
