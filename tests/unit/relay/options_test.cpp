#include "relay/options.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace podlane::relay {
namespace {

TEST(RelayOptions, TakesCommandLineBeforeVariables) {
  const auto options = parse_options({"--mode=interrupt", "--cpu", "2-3"},
                                     {"PODLANE_MODE=spinning", "PODLANE_WAIT=5", "PODLANE_LANES_ORDERS=/b",
                                      "PODLANE_LANES_FEED=/a", "PATH=/bin"});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->mode, xsk::WaitMode::kInterrupt);
  EXPECT_EQ(options->wait.count(), 5);
  EXPECT_EQ(options->cpus, (std::vector<CpuId>{CpuId(2), CpuId(3)}));
  EXPECT_EQ(options->lane_dirs, (std::vector<std::string>{"/a", "/b"}));
}

TEST(RelayOptions, GivenDirectoryReplacesTheEnvironments) {
  const auto options = parse_options({"--lane-dir", "/x:/y"}, {"PODLANE_LANES_FEED=/a"});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->lane_dirs, (std::vector<std::string>{"/x", "/y"}));
}

TEST(RelayOptions, NamesOptionValueAndWhatWouldBeRight) {
  struct Row {
    std::vector<std::string> arguments, environment;
    const char* words;
  };
  const Row rows[] = {
      {{"--mode", "fast", "--lane-dir=/a"}, {}, "'fast' is not one of spinning, interrupt"},
      {{"--mode", "adaptive", "--lane-dir=/a"}, {}, "not built yet"},
      {{"--lane-dir=/a"}, {"PODLANE_CPU=a"}, "PODLANE_CPU"},
      {{"--cpu", "3-2"}, {}, "like 2 or 2-3"},
      {{"--wait", "-1"}, {}, "0 to 86400"},
      {{"--wait"}, {}, "needs a value"},
      {{"--frames", "1"}, {}, "unknown option"},
      {{}, {}, "PODLANE_LANES_<POOL>"},
  };
  for (const Row& row : rows) {
    const auto options = parse_options(row.arguments, row.environment);
    ASSERT_FALSE(options.has_value()) << row.words;
    EXPECT_NE(options.error().message().find(row.words), std::string::npos) << options.error().message();
  }
}

TEST(FindLanes, TakesNumbersInOrderAndLaneDirectoriesThemselves) {
  std::string root = (std::filesystem::temp_directory_path() / "pltXXXXXX").string();
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  for (const char* name : {"10", "2", "0", "notes"}) std::filesystem::create_directory(root + "/" + name);
  std::ofstream(root + "/2/handover.sock") << "";
  EXPECT_EQ(*find_lanes({root}), (std::vector<std::string>{root + "/0", root + "/2", root + "/10"}));
  EXPECT_EQ(*find_lanes({root + "/2"}), (std::vector<std::string>{root + "/2"}));
  EXPECT_FALSE(find_lanes({root + "/notes"}).has_value());
  EXPECT_FALSE(find_lanes({root + "/missing"}).has_value());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace podlane::relay
