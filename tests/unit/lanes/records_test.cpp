// Journal records, lanes.json and what podlanectl makes of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ctl/lanes.hpp"
#include "deviceplugin/lanes/lane_journal.hpp"
#include "deviceplugin/lanes/lanes_json.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::dp {
namespace {

LaneRecord ready_record() {
  LaneRecord record{.device = "feed-3", .pool = "feed", .kind = lane::Kind::kVeth, .state = LaneState::kReady,
                    .slot = LaneSlot(9), .index = 1, .directory = "/run/podlane/lanes/00"};
  record.owner = {.attachment = {"net", "c1", "eth0"}, .pod = {"default", "p1", "u1"}, .container = "app",
                  .netns_path = "/run/netns/x", .netns_cookie = 0xffffffffffffffffULL, .path = lane::Path::kDirect,
                  .mode = lane::Mode::kSpinning, .fixed_addresses = {"10.9.0.5/24"}};
  record.host = {.nic_name = "nic0", .nic = IfIndex(4), .nic_mac = {2, 0, 0, 0, 0, 9}, .veth_host_name = "pl9xabc",
                 .veth_pod_name = "pv9", .veth_host = IfIndex(12), .veth_pod = IfIndex(3)};
  record.tun = {.name = "lane0", .ifindex = 5, .mtu = 1500, .addresses = {"10.9.0.5/24"}};
  record.in_force = {.zero_copy = true, .native_xdp = true};
  record.watched = {"10.9.0.1"};
  return record;
}

TEST(LaneRecordCodec, ComesBackAsItWas) {
  const std::string text = encode_record(ready_record(), "boot");
  const auto decoded = decode_record(text);
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(decoded->boot_id, "boot");
  EXPECT_EQ(encode_record(decoded->record, "boot"), text);
  EXPECT_EQ(decoded->record.owner.netns_cookie, 0xffffffffffffffffULL);
}

TEST(LaneRecordCodec, RefusesEveryTruncationAndBadFields) {
  const std::string text = encode_record(ready_record(), "boot");
  for (std::size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(decode_record(text.substr(0, length))) << length;
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"slot\":9", "\"slot\":4096"}, {"\"ready\"", "\"free\""}, {"\"owner\"", "\"owned\""},
           {"02:00:00:00:00:09", "02:00"}, {"\"version\":1", "\"version\":2"}}) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_FALSE(decode_record(changed)) << to;
  }
}

TEST(LaneJournal, TellsBootsApartAndSkipsWhatItCannotRead) {
  const std::string directory = "/tmp/" + test::random_name("plt");
  {
    auto journal = LaneJournal::open(directory, "old");
    ASSERT_TRUE(journal->save(ready_record()));
  }
  auto journal = LaneJournal::open(directory, "new");
  LaneRecord record = ready_record();
  record.device = "feed-4";
  ASSERT_TRUE(journal->save(record));
  std::ofstream(directory + "/feed-5.json") << "{";
  std::ofstream(directory + "/.feed-6.json.1.1") << "half";
  const auto loaded = journal->load();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->of_this_boot.size(), 1U);
  EXPECT_EQ(loaded->of_this_boot[0].device, "feed-4");
  ASSERT_EQ(loaded->of_older_boots.size(), 1U);
  EXPECT_EQ(loaded->unreadable.size(), 1U);
  EXPECT_TRUE(journal->remove("feed-4"));
  EXPECT_TRUE(journal->remove("feed-4"));
  std::filesystem::remove_all(directory);
}

TEST(LanesJson, IsReadByPodlanectl) {
  LaneReport serving{.pool = "feed", .device = "feed-0", .state = "serving", .kind = "queue", .netdev = "ens1", .pod_namespace = "ns",
                     .pod = "p", .container = "app", .path = "direct", .mode = "spinning", .ifname = "lane0",
                     .addresses = {"10.9.0.5/24", "fd00::5/64"}, .native_xdp = true};
  LaneReport reserved{.pool = "vpn", .device = "vpn-1", .state = "reserved", .kind = "tun"};
  LaneReport free{.pool = "vpn", .device = "vpn-2", .state = "free", .kind = "tun"};
  const LaneReport accel{.pool = "accel", .device = "accel-3", .state = "reserved", .kind = "onload", .netdev = "ens2f0",
                         .mode = "adaptive"};
  LaneReport of_pod = accel;
  of_pod.device = "accel-4";
  of_pod.pod_namespace = "ns", of_pod.pod = "p", of_pod.container = "engine";
  const auto table = ctl::render_lanes(encode_lanes_json({serving, reserved, free, accel, of_pod}));
  ASSERT_TRUE(table) << table.error().message();
  for (const char* piece : {"LANE", "feed-0", "ens1:0", "ns/p/app", "lane0 10.9.0.5/24,fd00::5/64", "copy,native", "vpn-1",
                            "accel-3", "ns/p/engine", "adaptive"}) {
    EXPECT_NE(table->find(piece), std::string::npos) << piece << "\n" << *table;
  }
  EXPECT_EQ(table->find("vpn-2"), std::string::npos);
  EXPECT_EQ(*ctl::render_lanes(encode_lanes_json({})), "No lane is in use on this node.\n");
  EXPECT_FALSE(ctl::render_lanes("{}"));
  EXPECT_FALSE(ctl::render_lanes("[]"));
  EXPECT_FALSE(ctl::render_lanes("{\"version\":2,\"lanes\":[]}"));
}

}  // namespace
}  // namespace podlane::dp
