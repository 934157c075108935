// The records' text: round trips, and what is refused.
#include "lib/journal/attachment_record.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace podlane::journal {
namespace {

const AttachmentKey kKey{"base", "c1", "eth0"};

AttachmentRecord attachment() {
  return {.key = kKey,
          .boot_id = "b-1",
          .netns_path = "/run/netns/a",
          .pod_namespace = "default",
          .pod_name = "engine-0",
          .pod_uid = "u-1",
          .with_daemon = true,
          .state = RecordState::kMade,
          .lanes = {{.pool = "feed",
                     .device = "feed-3",
                     .ifname = "lane0",
                     .ifindex = 7,
                     .table = 20007,
                     .mtu = 1400,
                     .queues = 3,
                     .owner = 4294967294,
                     .addresses = {"10.9.0.5/24", "fd00:9::5/64"}},
                    {.ifname = "lane1"}}};
}

AddressRecord addresses() {
  return {.key = kKey,
          .boot_id = "b-1",
          .netns_path = "/run/netns/a",
          .calls = {{.plugin = "host-local",
                     .cni_path = "/opt/cni/bin:/usr/lib/cni",
                     .container_id = "c1",
                     .netns_path = "/run/netns/a",
                     .ifname = "lane0",
                     .args = "K8S_POD_NAME=engine-0",
                     .config = {{"cniVersion", "1.0.0"}, {"ipam", {{"type", "host-local"}}}}}}};
}

TEST(AttachmentRecord, RoundTrips) {
  const std::string text = encode(attachment());
  const auto read = decode_attachment_record(text);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(encode(*read), text);
  EXPECT_EQ(read->key, kKey);
  EXPECT_EQ(read->state, RecordState::kMade);
  ASSERT_EQ(read->lanes.size(), 2U);
  EXPECT_EQ(read->lanes[0].queues, 3U);
  EXPECT_EQ(read->lanes[0].owner, 4294967294U);
  EXPECT_EQ(read->lanes[0].addresses[1], "fd00:9::5/64");
  EXPECT_EQ(read->lanes[1].queues, 1U);
}

TEST(AddressRecord, RoundTrips) {
  const std::string text = encode(addresses());
  const auto read = decode_address_record(text);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(encode(*read), text);
  ASSERT_EQ(read->calls.size(), 1U);
  EXPECT_EQ(read->calls[0].cni_path, "/opt/cni/bin:/usr/lib/cni");
  EXPECT_EQ(read->calls[0].config["ipam"]["type"], "host-local");
}

TEST(Records, AnEarlierPodlanesRecordIsReadAndALaterOnesExtraKeysAreIgnored) {
  const auto read = decode_attachment_record(
      R"({"version":1,"key":{"network":"n","containerId":"c","ifname":"i","new":1},"bootId":"b","later":{"x":[]},)"
      R"("lanes":[{"ifname":"lane0","ifindex":1,"table":0,"mtu":1500,"owner":0}]})");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->state, RecordState::kAdding);
  EXPECT_FALSE(read->with_daemon);
  EXPECT_EQ(read->lanes[0].queues, 1U);
}

TEST(Records, WhatIsNoRecordIsRefusedInWords) {
  struct Row {
    const char* name;
    const char* text;
  };
  const Row rows[] = {
      {"empty", ""},
      {"cut", R"({"version":1,"key":{"network":"n","conta)"},
      {"a list", "[]"},
      {"nothing", "{}"},
      {"later version", R"({"version":2,"key":{"network":"n","containerId":"c","ifname":"i"},"bootId":"b"})"},
      {"no key", R"({"version":1,"bootId":"b"})"},
      {"half a key", R"({"version":1,"key":{"network":"n","containerId":"c"},"bootId":"b"})"},
      {"no boot id", R"({"version":1,"key":{"network":"n","containerId":"c","ifname":"i"}})"},
      {"nul bytes", "\0\0\0\0"},
      {"lanes of another kind",
       R"({"version":1,"key":{"network":"n","containerId":"c","ifname":"i"},"bootId":"b","lanes":[1],"calls":[1]})"},
      {"numbers out of range",
       R"({"version":1,"key":{"network":"n","containerId":"c","ifname":"i"},"bootId":"b",
           "lanes":[{"ifname":"x","ifindex":-1,"table":0,"mtu":0,"owner":0}],"calls":[{"plugin":"p"}]})"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto attachment = decode_attachment_record(row.text);
    const auto address = decode_address_record(row.text);
    EXPECT_FALSE(attachment.has_value());
    EXPECT_FALSE(address.has_value());
    if (!attachment) {
      EXPECT_FALSE(attachment.error().message().empty());
    }
  }
}

TEST(Records, CutAnywhereIsRefused) {
  const std::string whole = encode(attachment()), lease = encode(addresses()), key = encode(kKey);
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(decode_attachment_record(whole.substr(0, n)).has_value()) << n;
  for (std::size_t n = 0; n < lease.size(); ++n) EXPECT_FALSE(decode_address_record(lease.substr(0, n)).has_value()) << n;
  for (std::size_t n = 0; n < key.size(); ++n) EXPECT_FALSE(decode_key(key.substr(0, n)).has_value()) << n;
  const auto read = decode_key(key);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(*read, kKey);
}

TEST(FileStem, IsAPlainLeafAndDiffersWithEachPart) {
  const AttachmentKey keys[] = {kKey,
                                {"base2", "c1", "eth0"},
                                {"base", "c2", "eth0"},
                                {"base", "c1", "eth1"},
                                {"basec", "1", "eth0"},
                                {"base", "../../etc/passwd", "eth0"},
                                {"base", std::string(300, 'a'), "eth0"},
                                {"base", std::string(300, 'a') + "b", "eth0"},
                                {"base", "", ""}};
  std::vector<std::string> stems;
  for (const AttachmentKey& key : keys) {
    const std::string stem = file_stem_of(key);
    EXPECT_EQ(stem.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
              std::string::npos)
        << stem;
    EXPECT_LE(stem.size(), 200U);  // With ".json" and the temporary's suffix still below NAME_MAX.
    EXPECT_EQ(std::count(stems.begin(), stems.end(), stem), 0) << stem;
    stems.push_back(stem);
  }
}

}  // namespace
}  // namespace podlane::journal
