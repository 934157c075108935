// LaneStore and inventory: decisions without a kernel.
#include <gtest/gtest.h>

#include <filesystem>

#include "deviceplugin/lanes/lane_store.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::dp {
namespace {

PoolConfig pool_of(const std::string& name, lane::Kind kind, std::uint32_t lanes, std::vector<std::string> netdevs = {}) {
  PoolConfig pool{.name = name, .kind = kind, .netdevs = std::move(netdevs), .lanes = lanes, .trusted = true};
  pool.subnets = {"10.9.0.0/24"};
  return pool;
}

class LaneStoreTest : public ::testing::Test {
 protected:
  LaneStoreTest() : directory_("/tmp/" + test::random_name("plt")) {
    config_.pools = {pool_of("feed", lane::Kind::kVeth, 12, {"nic0"}), pool_of("vpn", lane::Kind::kTun, 2)};
  }
  ~LaneStoreTest() override { std::filesystem::remove_all(directory_); }
  LaneStore make_store() {
    auto journal = LaneJournal::open(directory_, "boot-1");
    LaneStore store(config_, *list_devices(config_), std::move(*journal));
    for (auto& [name, nic] : store.nics()) nic = {.facts = {.index = IfIndex(7), .name = name}, .present = true, .why = {}};
    return store;
  }
  std::size_t records() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }
  std::string directory_;
  Config config_;
};

TEST_F(LaneStoreTest, ValidateRefusesWhatIsNotADeviceOfThePool) {
  LaneStore store = make_store();
  struct Row {
    const char* pool;
    std::vector<std::string> ids;
    const char* words;
  };
  const Row rows[] = {{"gold", {"gold-0"}, "no pool 'gold'"},
                      {"feed", {"feed-12"}, "'feed-12' is not one of pool 'feed'"},
                      {"feed", {"vpn-0"}, "'vpn-0' is not one of pool 'feed'"},
                      {"feed", {"feed-1", "feed-0", "feed-1"}, "'feed-1' was given twice"},
                      {"feed", {}, "no device id"}};
  for (const Row& row : rows) {
    const auto result = store.validate(row.pool, row.ids);
    ASSERT_FALSE(result) << row.words;
    EXPECT_NE(result.error().message().find(row.words), std::string::npos) << result.error().message();
  }
  EXPECT_EQ(*store.validate("feed", {"feed-10", "feed-2"}), (std::vector<std::string>{"feed-2", "feed-10"}));
  store.nics().at("nic0").why = "there is no interface 'nic0'";
  const auto unhealthy = store.validate("feed", {"feed-0"});
  ASSERT_FALSE(unhealthy);
  EXPECT_EQ(unhealthy.error().code(), Errc::kGone);
  EXPECT_TRUE(store.validate("vpn", {"vpn-0"}));
}

TEST_F(LaneStoreTest, SmallestFreeSlotIsTakenAndKeptUntilRelease) {
  LaneStore store = make_store();
  ASSERT_TRUE(store.reserve({"feed-0", "feed-1"}, "/d/a"));
  ASSERT_TRUE(store.reserve({"vpn-0"}, "/d/b"));
  EXPECT_EQ(store.find("feed-1")->record.slot.value, 1U);
  EXPECT_EQ(store.find("feed-1")->record.index, 1U);
  EXPECT_EQ(store.find("vpn-0")->record.slot.value, 2U);
  EXPECT_EQ(records(), 3U);
  ASSERT_TRUE(store.release("feed-0"));
  EXPECT_EQ(records(), 2U);
  ASSERT_TRUE(store.reserve({"feed-5"}, "/d/c"));
  EXPECT_EQ(store.find("feed-5")->record.slot.value, 0U);
}

TEST_F(LaneStoreTest, ReserveTakesAllOrNone) {
  LaneStore store = make_store();
  ASSERT_TRUE(store.reserve({"feed-1"}, "/d/a"));
  EXPECT_FALSE(store.reserve({"feed-0", "feed-1"}, "/d/b"));
  EXPECT_EQ(store.find("feed-0")->record.state, LaneState::kFree);
  std::filesystem::remove_all(directory_);  // The journal cannot be written.
  EXPECT_FALSE(store.reserve({"feed-2", "feed-3"}, "/d/b"));
  EXPECT_EQ(store.find("feed-2")->record.state, LaneState::kFree);
}

TEST_F(LaneStoreTest, RecordsOfARestartKeepSlotAndOwner) {
  {
    LaneStore store = make_store();
    ASSERT_TRUE(store.reserve({"feed-0", "feed-3"}, "/d/a"));
    ASSERT_TRUE(store.release("feed-0"));
  }
  config_.pools.front().lanes = 2;  // feed-3 is no longer configured.
  LaneStore store = make_store();
  const auto loaded = store.journal().load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->of_this_boot.size(), 1U);
  ASSERT_TRUE(store.adopt(loaded->of_this_boot.front()));
  EXPECT_EQ(store.find("feed-3")->record.slot.value, 1U);
  EXPECT_EQ(store.find("feed-3")->pool, nullptr);
  EXPECT_FALSE(store.why_unhealthy(*store.find("feed-3")).empty());
  ASSERT_TRUE(store.reserve({"feed-0", "feed-1"}, "/d/b"));
  EXPECT_EQ(store.find("feed-1")->record.slot.value, 2U);
  ASSERT_TRUE(store.release("feed-3"));
  EXPECT_EQ(store.find("feed-3"), nullptr);
}

TEST_F(LaneStoreTest, AddressOfAnotherLaneIsFoundOnTheSameNicOnly) {
  LaneStore store = make_store();
  ASSERT_TRUE(store.reserve({"feed-0", "feed-1"}, "/d/a"));
  ASSERT_TRUE(store.reserve({"vpn-0"}, "/d/b"));
  Lane& holder = *store.find("feed-0");
  holder.record.state = LaneState::kReady;
  holder.record.host.nic_name = "nic0";
  holder.record.tun.addresses = {"10.9.0.5/24", "fd00::5/64"};
  EXPECT_EQ(store.holder_of({"10.9.0.5/24"}, *store.find("feed-1")), &holder);
  EXPECT_EQ(store.holder_of({"fd00:0::5"}, *store.find("feed-1")), &holder);
  EXPECT_EQ(store.holder_of({"10.9.0.6/24"}, *store.find("feed-1")), nullptr);
  EXPECT_EQ(store.holder_of({"10.9.0.5/24"}, holder), nullptr);
  EXPECT_EQ(store.holder_of({"10.9.0.5/24"}, *store.find("vpn-0")), nullptr);
  EXPECT_EQ(store.of_attachment({}).size(), 1U);
}

TEST(Inventory, DevicesOfEachKind) {
  Config config;
  config.pools = {pool_of("q", lane::Kind::kQueue, 0, {"a", "b"}), pool_of("v", lane::Kind::kVeth, 2, {"a"}),
                  pool_of("t", lane::Kind::kTun, 1)};
  const auto devices = list_devices(config);
  ASSERT_TRUE(devices) << devices.error().message();
  std::string text;
  for (const DeviceSpec& device : *devices) text += device.id + ":" + device.netdev + " ";
  EXPECT_EQ(text, "q-0:a q-1:b v-0:a v-1:a t-0: ");
  EXPECT_EQ(list_nics(config), (std::vector<std::string>{"a", "b"}));
}

TEST(Inventory, RefusesInWords) {
  Config shared;
  shared.pools = {pool_of("q", lane::Kind::kQueue, 0, {"a"}), pool_of("r", lane::Kind::kQueue, 0, {"b", "a"})};
  EXPECT_NE(list_devices(shared).error().message().find("pools[1].devices.names 'a'"), std::string::npos);
  Config untrusted;
  untrusted.pools = {pool_of("q", lane::Kind::kQueue, 0, {"a"})};
  untrusted.pools[0].trusted = false;
  EXPECT_NE(list_devices(untrusted).error().message().find("pools[0].trusted"), std::string::npos);
  Config unbound;
  unbound.pools = {pool_of("q", lane::Kind::kQueue, 0, {"a"})};
  unbound.pools[0].handover = HandoverChoice::kUnbound;
  EXPECT_NE(list_devices(unbound).error().message().find("'unbound'"), std::string::npos);
  EXPECT_NE(why_unfit(unbound.pools[0], "a", 4).find("ethtool -L a combined 1"), std::string::npos);
  EXPECT_EQ(why_unfit(unbound.pools[0], "a", 1), "");
  EXPECT_EQ(why_unfit(pool_of("v", lane::Kind::kVeth, 1, {"a"}), "a", 4), "");
  EXPECT_TRUE(check_kernel(unbound, "6.4.0-1-amd64"));
  EXPECT_FALSE(check_kernel(unbound, "6.1.0-28-amd64"));
}

TEST(Inventory, KernelsThatHandOverFinishedSockets) {
  for (const auto& [release, can] : std::initializer_list<std::pair<const char*, bool>>{
           {"6.4.0", true}, {"6.3.99", false}, {"6.18.44+", true}, {"7.0-rc1", true}, {"5.15.0", false}, {"", false}, {"6", false}}) {
    EXPECT_EQ(kernel_hands_over_finished(release), can) << release;
  }
}

}  // namespace
}  // namespace podlane::dp
