// libpodlane's C ABI over a real lane: what a program may get wrong, frames moved in place, the device gone; and the two
// programs that use it, feed_reader and `podlanectl bench pingpong`.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <array>
#include <cstring>

#include "lib/json/json.hpp"
#include "lib/podlane/podlane.h"
#include "tests/kernel/relay/lane_rig.hpp"

namespace podlane::test {
namespace {

struct Closer {
  void operator()(podlane_lane* lane) const { podlane_close(lane); }
};
using Lane = std::unique_ptr<podlane_lane, Closer>;

// The session is the pod's: its socket belongs to the pod's namespace.
Lane open_lane(LaneRig& rig, podlane_options options = PODLANE_OPTIONS_INIT) {
  podlane_lane* lane = nullptr;
  std::array<char, 512> error{};
  rig.pod.inside([&] {
    EXPECT_EQ(podlane_open(rig.directory().c_str(), &options, &lane, error.data(), error.size()), 0) << error.data();
  });
  return Lane(lane);
}

// A UDP datagram to the peer, checksums left out: IPv4 allows it, and the peer's kernel counts what it gets.
std::uint32_t write_datagram(const LaneRig& rig, std::uint8_t* frame, std::uint16_t port, std::string_view text) {
  std::memset(frame, 0, 42);
  std::memcpy(frame, rig.peer_mac.data(), 6);
  std::memcpy(frame + 6, rig.pod_mac.data(), 6);
  frame[12] = 0x08;
  std::uint8_t* ip = frame + 14;
  const auto total = static_cast<std::uint16_t>(28 + text.size());
  const std::uint8_t head[20] = {0x45, 0, static_cast<std::uint8_t>(total >> 8), static_cast<std::uint8_t>(total), 0, 0, 0x40, 0,
                                 64, 17, 0, 0, 10, 9, 0, 5, 10, 9, 0, 1};
  std::memcpy(ip, head, 20);
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  ip[10] = static_cast<std::uint8_t>(~sum >> 8);
  ip[11] = static_cast<std::uint8_t>(~sum);
  std::uint8_t* udp = ip + 20;
  const auto udp_bytes = static_cast<std::uint16_t>(8 + text.size());
  udp[0] = 0x30, udp[2] = static_cast<std::uint8_t>(port >> 8), udp[3] = static_cast<std::uint8_t>(port);
  udp[4] = static_cast<std::uint8_t>(udp_bytes >> 8), udp[5] = static_cast<std::uint8_t>(udp_bytes);
  std::memcpy(udp + 8, text.data(), text.size());
  return 14U + total;
}

TEST(Abi, OpenSaysWhatIsWrong) {
  LaneRig rig;
  podlane_options wrong_mode = PODLANE_OPTIONS_INIT, negative = PODLANE_OPTIONS_INIT, hurry = PODLANE_OPTIONS_INIT;
  wrong_mode.mode = 9;
  negative.deadline_ms = -1;
  hurry.deadline_ms = 50;
  struct Row {
    const char* name;
    std::string directory;
    const podlane_options* options;
    int code;
    const char* words;
  };
  const Row rows[] = {
      {"wrong mode", rig.directory(), &wrong_mode, PODLANE_EINVAL, "mode 9"},
      {"negative deadline", rig.directory(), &negative, PODLANE_EINVAL, "deadline_ms"},
      {"nowhere", "/nowhere/0", &hurry, PODLANE_ETIMEDOUT, "/nowhere/0/handover.sock"},
  };
  for (const Row& row : rows) {
    podlane_lane* lane = nullptr;
    std::array<char, 512> error{};
    rig.pod.inside([&] {
      EXPECT_EQ(podlane_open(row.directory.c_str(), row.options, &lane, error.data(), error.size()), row.code) << row.name;
    });
    EXPECT_NE(std::string(error.data()).find(row.words), std::string::npos) << row.name << ": " << error.data();
    EXPECT_EQ(lane, nullptr) << row.name;
  }
  podlane_lane* lane = nullptr;
  EXPECT_EQ(podlane_open(nullptr, nullptr, &lane, nullptr, 0), PODLANE_EINVAL);
  std::array<char, 8> little{};
  EXPECT_EQ(podlane_open("/nowhere/0", &hurry, &lane, little.data(), little.size()), PODLANE_ETIMEDOUT);
  EXPECT_EQ(std::strlen(little.data()), little.size() - 1) << "the reason is cut to fit";
  podlane_close(nullptr);
}

TEST(Abi, AnotherNamespaceIsDenied) {
  LaneRig rig;
  podlane_lane* lane = nullptr;
  std::array<char, 512> error{};
  podlane_options options = PODLANE_OPTIONS_INIT;
  options.deadline_ms = 2000;
  rig.peer.inside([&] {
    EXPECT_EQ(podlane_open(rig.directory().c_str(), &options, &lane, error.data(), error.size()), PODLANE_EDENIED)
        << error.data();
  });
}

TEST(Abi, OneLiveOwner) {
  LaneRig rig;
  const Lane first = open_lane(rig);
  podlane_options options = PODLANE_OPTIONS_INIT;
  options.deadline_ms = 3000;
  podlane_lane* second = nullptr;
  std::array<char, 512> error{};
  rig.pod.inside([&] {
    EXPECT_EQ(podlane_open(rig.directory().c_str(), &options, &second, error.data(), error.size()), PODLANE_EBUSY)
        << error.data();
  });
}

TEST(Abi, WhatIsNotHeldIsRefusedAndNothingIsLost) {
  LaneRig rig;
  const Lane lane = open_lane(rig);
  const podlane_info* info = podlane_describe(lane.get());
  podlane_frame frame{};
  ASSERT_EQ(podlane_tx_reserve(lane.get(), &frame, 1), 1);
  EXPECT_EQ(frame.length, 0u);
  EXPECT_GE(frame.capacity, info->mtu + 14);
  // Length: none, shorter than a header, longer than the MTU; address: outside, of the memory's end, given back already.
  for (const std::uint32_t length : {0U, 13U, info->mtu + 15}) {
    podlane_frame wrong = frame;
    wrong.length = length;
    EXPECT_EQ(podlane_tx_burst(lane.get(), &wrong, 1), PODLANE_EINVAL) << length;
  }
  std::uint8_t outside[64] = {};
  podlane_frame foreign{outside, 60, 64};
  EXPECT_EQ(podlane_tx_burst(lane.get(), &foreign, 1), PODLANE_EINVAL);
  EXPECT_EQ(podlane_free(lane.get(), &foreign, 1), PODLANE_EINVAL);
  EXPECT_EQ(podlane_pass_to_tun(lane.get(), &foreign, 1), 0);
  podlane_frame beyond{frame.data + std::size_t{info->frames} * info->frame_size, 60, 64};
  EXPECT_EQ(podlane_free(lane.get(), &beyond, 1), PODLANE_EINVAL);
  EXPECT_EQ(podlane_pass_to_tun(lane.get(), &frame, 1), 0) << "a frame made for sending is not passed up";
  EXPECT_EQ(podlane_free(lane.get(), &frame, 1), 0);
  EXPECT_EQ(podlane_free(lane.get(), &frame, 1), PODLANE_EINVAL) << "twice";
  frame.length = 60;
  EXPECT_EQ(podlane_tx_burst(lane.get(), &frame, 1), PODLANE_EINVAL) << "after it was freed";
  EXPECT_EQ(podlane_tx_copy(lane.get(), outside, 13), PODLANE_EINVAL);
  EXPECT_EQ(podlane_tx_copy(lane.get(), outside, info->mtu + 15), PODLANE_EINVAL);
  EXPECT_EQ(podlane_rx_burst(lane.get(), nullptr, 0), 0);
  EXPECT_EQ(podlane_tx_burst(lane.get(), nullptr, 0), 0);
  std::uint8_t mac[6];
  EXPECT_EQ(podlane_resolve(lane.get(), outside, 5, mac), PODLANE_EINVAL);
  const std::uint8_t nowhere[4] = {192, 0, 2, 1};
  EXPECT_EQ(podlane_resolve(lane.get(), nowhere, 4, mac), PODLANE_ENOROUTE);
  EXPECT_EQ(podlane_check_frames(lane.get()), 0);
  EXPECT_EQ(podlane_counter_name(9999), nullptr);
  EXPECT_STREQ(podlane_strerror(-99), "unknown error");
}

TEST(Abi, AllFramesCanBeHeldAndComeBack) {
  LaneRig rig({.frames = 256, .ring_size = 64});
  const Lane lane = open_lane(rig);
  std::vector<podlane_frame> held;
  std::array<podlane_frame, 32> some{};
  for (int count = 0; (count = podlane_tx_reserve(lane.get(), some.data(), some.size())) > 0;) {
    held.insert(held.end(), some.begin(), some.begin() + count);
  }
  EXPECT_GE(held.size(), 64u);
  EXPECT_LE(held.size(), 256u);
  std::uint8_t ethernet[60] = {};
  EXPECT_EQ(podlane_tx_copy(lane.get(), ethernet, sizeof(ethernet)), PODLANE_EAGAIN);
  EXPECT_EQ(podlane_check_frames(lane.get()), 0);
  EXPECT_EQ(podlane_free(lane.get(), held.data(), static_cast<unsigned>(held.size())), 0);
  EXPECT_EQ(podlane_tx_reserve(lane.get(), some.data(), 1), 1);
  EXPECT_EQ(podlane_free(lane.get(), some.data(), 1), 0);
  EXPECT_EQ(podlane_check_frames(lane.get()), 0);
}

TEST(Abi, SendsAFrameThatWasMovedWithinItsRoom) {
  LaneRig rig;
  const Lane lane = open_lane(rig);
  const UniqueFd peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
  bind_to(peer, "10.9.0.1", 0);
  podlane_frame frame{};
  ASSERT_EQ(podlane_tx_reserve(lane.get(), &frame, 1), 1);
  frame.data += 8;  // A header taken off in front, say.
  frame.length = write_datagram(rig, frame.data, port_of(peer), "moved");
  EXPECT_EQ(podlane_tx_burst(lane.get(), &frame, 1), 1);
  EXPECT_EQ(receive(peer), "moved");
  std::array<std::uint8_t, 128> copy{};
  const std::uint32_t length = write_datagram(rig, copy.data(), port_of(peer), "copied");
  EXPECT_EQ(podlane_tx_copy(lane.get(), copy.data(), length), 0);
  EXPECT_EQ(receive(peer), "copied");
  EXPECT_EQ(podlane_check_frames(lane.get()), 0);
}

TEST(Abi, SaysThatTheDeviceIsGone) {
  LaneRig rig;
  const Lane lane = open_lane(rig);
  podlane_frame frame{};
  ASSERT_EQ(podlane_tx_reserve(lane.get(), &frame, 1), 1);
  frame.length = write_datagram(rig, frame.data, 9, "late");
  rig.remove_device();
  EXPECT_TRUE(eventually(5s, [&] { return podlane_wait(lane.get(), 1000) == PODLANE_EGONE; }));
  EXPECT_EQ(podlane_tx_burst(lane.get(), &frame, 1), PODLANE_EGONE);
  EXPECT_EQ(podlane_pump_tun(lane.get(), 32), PODLANE_EGONE);
  EXPECT_EQ(podlane_free(lane.get(), &frame, 1), 0) << "frames can still be given back";
}

TEST(FeedReader, CountsMessagesGapsAndWhatCameTwice) {
  for (const char* mode : {"interrupt", "spinning"}) {
    SCOPED_TRACE(mode);
    LaneRig rig;
    Child reader(rig.pod, {program("feed_reader"), "-d", rig.directory(), "-p", "14310", "-m", mode, "-n", "6"});
    ASSERT_TRUE(eventually(10s, [&] { return reader.output().find("UDP port 14310") != std::string::npos; })) << reader.output();
    const UniqueFd peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
    const Address to("10.9.0.5", 14310), other("10.9.0.5", 14311);
    for (const int sequence : {10, 11, 14, 13, 14, 15}) {  // A gap of two; one of it late; one twice.
      std::array<std::uint8_t, 12> message{};
      message[7] = static_cast<std::uint8_t>(sequence);
      ASSERT_EQ(::sendto(peer.get(), message.data(), message.size(), 0, to.get(), to.length), 12);
      ASSERT_EQ(::sendto(peer.get(), message.data(), 4, 0, other.get(), other.length), 4);  // Not the feed's.
    }
    EXPECT_EQ(reader.wait(), 0) << reader.output();
    const std::string output = reader.output();
    for (const char* part : {"\"messages\":6", "\"bytes\":72", "\"gaps\":1", "\"lost\":2", "\"late\":2"}) {
      EXPECT_NE(output.find(part), std::string::npos) << part << " in " << output;
    }
  }
}

TEST(Bench, MeasuresOverALaneAndBySockets) {
  LaneRig rig;
  Child server(rig.peer, {program("podlanectl"), "bench", "pingpong", "--server", "--bind", "10.9.0.1:7007", "--wait", "blocking"});
  ASSERT_TRUE(eventually(10s, [&] { return server.output().find("echo server") != std::string::npos; })) << server.output();
  Child client(rig.pod, {program("podlanectl"), "bench", "pingpong", "--json", "--lane", rig.directory(), "--wait", "blocking",
                         "--to", "10.9.0.1:7007", "--count", "200"});
  EXPECT_EQ(client.wait(30s), 0) << client.output();
  const std::string output = client.output();
  const auto start = output.find('{');
  ASSERT_NE(start, std::string::npos) << output;
  const auto answer = json::parse(std::string_view(output).substr(start));
  ASSERT_TRUE(answer) << output;
  EXPECT_EQ((*answer)["sent"], 200);
  EXPECT_EQ((*answer)["lost"], 0);
  EXPECT_GT((*answer)["rttNs"]["p50"].get<double>(), 0);
  EXPECT_LE((*answer)["rttNs"]["p50"].get<double>(), (*answer)["rttNs"]["p99"].get<double>());
  EXPECT_LE((*answer)["rttNs"]["p99"].get<double>(), (*answer)["rttNs"]["max"].get<double>());
  Child nowhere(rig.pod, {program("podlanectl"), "bench", "pingpong", "--lane", "/nowhere/0", "--to", "10.9.0.1:7007"});
  EXPECT_NE(nowhere.wait(30s), 0);
  EXPECT_NE(nowhere.output().find("/nowhere/0"), std::string::npos) << nowhere.output();
}

}  // namespace
}  // namespace podlane::test
