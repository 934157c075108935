#include "relay/cpus.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace podlane::relay {
namespace {

std::vector<CpuId> cpus(std::initializer_list<unsigned> numbers) {
  std::vector<CpuId> list;
  for (const unsigned number : numbers) list.push_back(CpuId(number));
  return list;
}

TEST(PlanCpus, PlacesSpinningLanesFromTheEnd) {
  struct Row {
    const char* name;
    std::vector<CpuId> allowed, wanted;
    std::vector<bool> spinning;
    bool good;
    std::vector<int> workers;  // -1: anywhere.
    int control;
  };
  const Row rows[] = {
      {"one lane, two CPUs", cpus({0, 1}), {}, {true}, true, {1}, 0},
      {"one lane, one CPU", cpus({3}), {}, {true}, true, {3}, -1},
      {"sleeping lanes", cpus({0, 1}), {}, {false, false}, true, {-1, -1}, -1},
      {"mixed", cpus({0, 1, 2}), {}, {true, false}, true, {2, -1}, 0},
      {"wanted", cpus({0, 1, 2}), cpus({1}), {true, true}, true, {1, 2}, 0},
      {"more than there are", cpus({0}), {}, {true, true}, false, {}, -1},
      {"not allowed", cpus({0, 1}), cpus({5}), {true}, false, {}, -1},
  };
  for (const Row& row : rows) {
    const auto plan = plan_cpus(row.allowed, row.wanted, row.spinning);
    ASSERT_EQ(plan.has_value(), row.good) << row.name;
    if (!plan) continue;
    for (std::size_t i = 0; i < row.workers.size(); ++i) {
      EXPECT_EQ(plan->workers[i] ? static_cast<int>(plan->workers[i]->value) : -1, row.workers[i]) << row.name;
    }
    EXPECT_EQ(plan->control ? static_cast<int>(plan->control->value) : -1, row.control) << row.name;
  }
}

TEST(CfsQuota, ReadsCgroupV2) {
  std::string root = (std::filesystem::temp_directory_path() / "pltXXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  EXPECT_FALSE(cfs_quota(root).has_value());
  std::ofstream(root + "/cpu.max") << "max 100000\n";
  EXPECT_FALSE(cfs_quota(root).has_value());
  std::ofstream(root + "/cpu.max") << "25000 100000\n";
  EXPECT_EQ(cfs_quota(root), "25000 of 100000 us");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace podlane::relay
