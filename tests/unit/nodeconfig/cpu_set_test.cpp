#include "nodeconfig/cpu_set.hpp"

#include <gtest/gtest.h>

#include <random>

namespace podlane::nodeconfig {
namespace {

TEST(CpuSet, ReadsWhatKernelsPrint) {
  struct Row {
    const char *list, *canonical, *mask;
  };
  for (const Row& row :
       {Row{"0-3,8", "0-3,8", "10f"}, Row{"0,1,2\n", "0-2", "7"}, Row{"", "", "0"}, Row{"(null)", "", "0"},
        Row{"31-32", "31-32", "1,80000000"}, Row{"64", "64", "1,00000000,00000000"}, Row{"8191", "8191", nullptr}}) {
    const auto set = CpuSet::parse_list(row.list);
    ASSERT_TRUE(set) << row.list << ": " << set.error().message();
    EXPECT_EQ(set->list(), row.canonical);
    if (row.mask == nullptr) continue;
    EXPECT_EQ(set->mask(), row.mask);
  }
  for (const auto& [mask, list] : {std::pair{"3", "0-1"},
                                   {"00000003", "0-1"},
                                   {"0000,00000003", "0-1"},
                                   {"1,00000000", "32"},
                                   {"ff\n", "0-7"},
                                   {"0", ""},
                                   {"FF", "0-7"}}) {
    const auto set = CpuSet::parse_mask(mask);
    ASSERT_TRUE(set) << mask << ": " << set.error().message();
    EXPECT_EQ(set->list(), list) << mask;
  }
}

TEST(CpuSet, RefusesWhatIsNoList) {
  for (const char* text :
       {"x", "1-", "-1", "3-1", "1,,2", "1,", ",1", "0-7:1/2", "all", "4-N", "8192", "99999999999", "1 2", "0x1"}) {
    const auto set = CpuSet::parse_list(text);
    ASSERT_FALSE(set) << text;
    EXPECT_NE(set.error().message().find("'" + std::string(text) + "'"), std::string::npos) << set.error().message();
  }
  for (const char* text : {"", "g", "123456789", "1,", ",1", "0x3", "1 2"})
    EXPECT_FALSE(CpuSet::parse_mask(text)) << text;
}

// Of every width: what is printed reads back as the same set, in both spellings.
TEST(CpuSet, RoundTripsAtEveryWidth) {
  std::mt19937 random(7);
  for (unsigned width = 1; width <= CpuSet::kMax; width += width < 130 ? 1 : 97) {
    CpuSet set;
    for (unsigned i = 0; i < 20; ++i) set.add(static_cast<unsigned>(random() % width));
    set.add(width - 1);
    const auto from_list = CpuSet::parse_list(set.list());
    const auto from_mask = CpuSet::parse_mask(set.mask());
    ASSERT_TRUE(from_list && from_mask) << width;
    EXPECT_EQ(*from_list, set);
    EXPECT_EQ(*from_mask, set);
    EXPECT_EQ(from_list->list(), set.list());
    EXPECT_EQ(set.cpus().back(), width - 1);
    EXPECT_EQ(set.count(), set.cpus().size());
  }
}

TEST(CpuSet, Algebra) {
  const CpuSet a = *CpuSet::parse_list("0-3,40"), b = *CpuSet::parse_list("2-5");
  EXPECT_EQ((a & b).list(), "2-3");
  EXPECT_EQ((a | b).list(), "0-5,40");
  EXPECT_EQ((b | a).list(), "0-5,40");
  EXPECT_EQ((a - b).list(), "0-1,40");
  EXPECT_EQ((a - a).mask(), "0");
  EXPECT_TRUE((a & b).within(a));
  EXPECT_FALSE(a.within(b));
  EXPECT_TRUE(CpuSet().within(a));
  EXPECT_FALSE(a.meets(CpuSet()));
}

}  // namespace
}  // namespace podlane::nodeconfig
