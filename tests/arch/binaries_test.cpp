// What the built programs are: static where promised, without what they must not hold, small; BTF layout = C++ layout.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "bpf/abi/lane_abi.h"
#include "tests/testlib/testlib.hpp"

namespace {

using podlane::test::must_run;

const std::string kBuildType = PODLANE_BUILD_TYPE;
const bool kSanitized = std::string(PODLANE_SANITIZER) != "none";
std::string program(const std::string& name) {
  return std::string(std::getenv("PODLANE_BIN")) + "/" + name;
}

// Sanitizers forbid static links, and only the release build is what ships.
bool is_what_ships() {
  return kBuildType == "Release" && !kSanitized;
}

TEST(Binaries, CniRelayAndNodeConfigNeedNoLibrary) {
  if (kSanitized) return;
  for (const char* name : {"podlane", "podlane-relay", "podlane-nodeconfig"}) {
    const std::string dynamic = must_run("readelf -d " + program(name));
    EXPECT_EQ(dynamic.find("NEEDED"), std::string::npos) << name << ": " << dynamic;
  }
}

TEST(Binaries, CniRelayAndNodeConfigHoldNoGrpcNorBpfLoader) {
  for (const char* name : {"podlane", "podlane-relay", "podlane-nodeconfig"}) {
    std::istringstream symbols(must_run("nm -C " + program(name)));
    for (std::string line; std::getline(symbols, line);) {
      for (const char* forbidden :
           {" grpc::", " grpc_", " google::protobuf", " bpf_object__", " bpf_prog_load", " xsk_socket__", " btf__"}) {
        ASSERT_EQ(line.find(forbidden), std::string::npos) << name << " holds " << line;
      }
    }
  }
}

TEST(Binaries, CniIsAtMostTwoMegabytesStripped) {
  if (!is_what_ships()) return;
  // Images carry the stripped program (scripts/images.sh).
  const std::string copy = std::filesystem::temp_directory_path() / podlane::test::random_name("podlane-size-");
  must_run("strip -o " + copy + " " + program("podlane"));
  const auto bytes = std::filesystem::file_size(copy);
  std::filesystem::remove(copy);
  std::printf("podlane: %zu bytes stripped\n", static_cast<std::size_t>(bytes));
  EXPECT_LE(bytes, 2U * 1024 * 1024);
}

// The two files of the relay image (scripts/images.sh).
TEST(Binaries, RelayImageIsAtMostFourMegabytes) {
  if (!is_what_ships()) return;
  const auto bytes =
      std::filesystem::file_size(program("podlane-relay")) + std::filesystem::file_size(program("podlanectl-pod"));
  std::printf("relay image: %zu bytes unpacked\n", static_cast<std::size_t>(bytes));
  EXPECT_LE(bytes, 4U * 1024 * 1024);
}

// "struct size vlen" and "member bits_offset" of one struct in bpftool's raw dump, as one line of text.
std::string layout_in_btf(const std::string& dump, const std::string& name) {
  std::istringstream lines(dump);
  std::string layout;
  for (std::string line; std::getline(lines, line);) {
    const bool head = line.find("] STRUCT '" + name + "' ") != std::string::npos;
    if (!layout.empty() && (line.empty() || line[0] != '\t')) break;
    if (head) {
      layout = "size=" + line.substr(line.find("size=") + 5, line.find(" vlen") - line.find("size=") - 5);
    } else if (!layout.empty()) {
      const std::size_t open = line.find('\''), close = line.find('\'', open + 1), bits = line.find("bits_offset=");
      layout +=
          " " + line.substr(open + 1, close - open - 1) + "@" + std::to_string(std::stoul(line.substr(bits + 12)) / 8);
    }
  }
  return layout;
}

#define PODLANE_AT(type, member) (" " #member "@" + std::to_string(offsetof(type, member)))
#define PODLANE_SIZE(type) ("size=" + std::to_string(sizeof(type)))

TEST(Binaries, LaneAbiIsTheSameInBtfAndInCpp) {
  std::string dump;
  for (const auto& entry : std::filesystem::directory_iterator(PODLANE_BPF_OBJECTS)) {
    if (entry.path().string().ends_with(".bpf.o")) {
      dump += must_run("bpftool btf dump file " + entry.path().string() + " format raw");
    }
  }
  ASSERT_FALSE(dump.empty());
  struct Row {
    const char* name;
    std::string layout;
  };
  for (const Row& row : {
           Row{"lane_key", PODLANE_SIZE(lane_key) + PODLANE_AT(lane_key, ifindex) + PODLANE_AT(lane_key, addr)},
           Row{"lane_entry", PODLANE_SIZE(lane_entry) + PODLANE_AT(lane_entry, slot) + PODLANE_AT(lane_entry, kind) +
                                 PODLANE_AT(lane_entry, rx_queue) + PODLANE_AT(lane_entry, veth_ifindex)},
           Row{"veth_entry", PODLANE_SIZE(veth_entry) + PODLANE_AT(veth_entry, slot) +
                                 PODLANE_AT(veth_entry, nic_ifindex) + PODLANE_AT(veth_entry, nic_mac) +
                                 PODLANE_AT(veth_entry, pad)},
           Row{"nic_mac", PODLANE_SIZE(nic_mac) + PODLANE_AT(nic_mac, mac) +
                                 PODLANE_AT(nic_mac, answer_by_redirect) + PODLANE_AT(nic_mac, pad)},
           Row{"lane_counters", PODLANE_SIZE(lane_counters) + PODLANE_AT(lane_counters, value)},
           Row{"nic_counters",
               PODLANE_SIZE(nic_counters) + PODLANE_AT(nic_counters, passed) + PODLANE_AT(nic_counters, malformed)},
       }) {
    EXPECT_EQ(layout_in_btf(dump, row.name), row.layout) << row.name;
  }
}

}  // namespace
