// What is lost, and that it is counted: garbage, long packets, full queues, unknown next hops. No frame is ever lost.
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <cstring>

#include "tests/kernel/relay/lane_rig.hpp"

namespace podlane::test {
namespace {

// Raw frames from the peer's end of the veth.
class RawSender {
 public:
  explicit RawSender(LaneRig& rig) : rig_(rig) {
    rig.peer.inside([&] {
      socket_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
      address_.sll_family = AF_PACKET;
      address_.sll_ifindex = static_cast<int>(::if_nametoindex("p0"));
    });
  }
  bool send(std::uint16_t ether_type, const std::string& payload) {
    std::string frame(rig_.pod_mac.begin(), rig_.pod_mac.end());
    frame.append(rig_.peer_mac.begin(), rig_.peer_mac.end());
    frame.push_back(static_cast<char>(ether_type >> 8));
    frame.push_back(static_cast<char>(ether_type));
    frame += payload;
    return ::sendto(socket_.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&address_),
                    sizeof(address_)) == static_cast<ssize_t>(frame.size());
  }

 private:
  LaneRig& rig_;
  UniqueFd socket_;
  sockaddr_ll address_{};
};

std::string ipv4(std::size_t total, std::size_t said) {
  std::string packet(total, '\0');
  packet[0] = 0x45;
  packet[2] = static_cast<char>(said >> 8);
  packet[3] = static_cast<char>(said);
  packet[9] = 17;
  return packet;
}

TEST(RelayLimits, CountsEachKindOfGarbage) {
  LaneRig rig({.mtu = 1400});
  RunningRelay relay(rig, xsk::WaitMode::kInterrupt);
  RawSender raw(rig);
  ASSERT_TRUE(raw.send(0x88b5, std::string(50, 'x')));
  ASSERT_TRUE(raw.send(0x0806, std::string(50, '\0')));
  ASSERT_TRUE(raw.send(0x0800, std::string(50, '\x20')));
  ASSERT_TRUE(raw.send(0x0800, ipv4(50, 51)));
  ASSERT_TRUE(raw.send(0x0800, ipv4(50, 10)));
  ASSERT_TRUE(raw.send(0x86dd, ipv4(50, 50)));
  ASSERT_TRUE(raw.send(0x0800, ipv4(1401, 1401)));
  ASSERT_TRUE(raw.send(0x0800, ipv4(1400, 1400)));
  // The peer's own stack may speak too (IPv6 neighbour discovery, MLD): its packets are proper ones.
  const auto dropped = [&] {
    return relay.count(Counter::kRxDropNotIp) + relay.count(Counter::kRxDropMalformed) +
           relay.count(Counter::kRxDropTooLong);
  };
  EXPECT_TRUE(eventually(5s, [&] { return dropped() == 7 && relay.count(Counter::kRxFrames) >= 8; }));
  relay.end();
  EXPECT_EQ(relay.count(Counter::kRxDropNotIp), 3U);
  EXPECT_EQ(relay.count(Counter::kRxDropMalformed), 3U);
  EXPECT_EQ(relay.count(Counter::kRxDropTooLong), 1U);
  EXPECT_GE(relay.count(Counter::kRxToTun), 1U);
  EXPECT_EQ(relay.count(Counter::kRxToTun), relay.count(Counter::kRxFrames) - 7);
  expect_sums(relay.port().counters);
  expect_no_leak(relay.port());
}

TEST(RelayLimits, LosesNoFrameOverManyPacketsAndFullRings) {
  LaneRig rig({.frames = 256, .ring_size = 128});
  RunningRelay relay(rig, xsk::WaitMode::kInterrupt);
  const UniqueFd pod = rig.pod_socket(AF_INET, SOCK_DGRAM), peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
  bind_to(pod, "10.9.0.5", 0);
  bind_to(peer, "10.9.0.1", 0);
  const Address to_peer("10.9.0.1", port_of(peer)), to_pod("10.9.0.5", port_of(pod));
  for (int i = 0; i < 50000; ++i) {  // Far faster than the rings are: a part is lost before us or at the full rings.
    ::sendto(pod.get(), "0123456789", 10, MSG_DONTWAIT, to_peer.get(), to_peer.length);
    ::sendto(peer.get(), "0123456789", 10, MSG_DONTWAIT, to_pod.get(), to_pod.length);
  }
  relay.end();
  EXPECT_GT(relay.count(Counter::kTxFrames), 10000U);
  EXPECT_GT(relay.count(Counter::kRxFrames), 10000U);
  expect_sums(relay.port().counters);
  expect_no_leak(relay.port());
}

TEST(RelayLimits, FindsTheTunQueueFullAndSendsWhatItHolds) {
  LaneRig rig({.tun_queue = 100});
  auto port = rig.open_port();
  ASSERT_TRUE(port->set_carrier(true).has_value());
  const UniqueFd pod = rig.pod_socket(AF_INET, SOCK_DGRAM), peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
  bind_to(pod, "10.9.0.5", 0);
  bind_to(peer, "10.9.0.1", 0);
  const Address to_peer("10.9.0.1", port_of(peer));
  for (int i = 0; i < 300; ++i) ::sendto(pod.get(), "x", 1, MSG_DONTWAIT, to_peer.get(), to_peer.length);
  relay::LaneWorker worker(*port, xsk::WaitMode::kInterrupt, std::nullopt);
  ASSERT_TRUE(worker.start().has_value());
  EXPECT_TRUE(eventually(5s, [&] { return port->counters.get(Counter::kTxFrames) >= 100; }));
  worker.stop();
  worker.join();
  EXPECT_LE(port->counters.get(Counter::kTxPackets), 110U);  // Neighbour chatter of the pod's stack may be with them.
  expect_sums(port->counters);
  expect_no_leak(*port);
}

TEST(RelayLimits, AsksForAnUnknownNextHopOnceAndDropsMeanwhile) {
  LaneRig rig({.peer_known = false});
  rig.answer_resolves(false);
  RunningRelay relay(rig, xsk::WaitMode::kInterrupt);
  const UniqueFd pod = rig.pod_socket(AF_INET, SOCK_DGRAM), peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
  bind_to(pod, "10.9.0.5", 0);
  bind_to(peer, "10.9.0.1", 0);
  const Address to_peer("10.9.0.1", port_of(peer));
  for (int i = 0; i < 20; ++i) ::sendto(pod.get(), "x", 1, 0, to_peer.get(), to_peer.length);
  EXPECT_TRUE(eventually(2s, [&] { return relay.count(Counter::kTxDropNoNeighbor) >= 20; }));
  EXPECT_TRUE(eventually(2s, [&] { return rig.resolves() == 1; }));
  // Not answered: after a while the next packet asks again, and is answered.
  rig.answer_resolves(true);
  EXPECT_TRUE(eventually(10s, [&] {
    ::sendto(pod.get(), "y", 1, 0, to_peer.get(), to_peer.length);
    return !receive(peer, 100ms).empty();
  }));
  relay.end();
  EXPECT_LE(rig.resolves(), 4);
  expect_sums(relay.port().counters);
}

TEST(RelayLimits, CompletesChecksumsThatAPeerLeftToItsDevice) {
  LaneRig rig({.peer_checksums = false});
  RunningRelay relay(rig, xsk::WaitMode::kInterrupt);
  const UniqueFd pod = rig.pod_socket(AF_INET, SOCK_DGRAM), peer = rig.peer_socket(AF_INET, SOCK_DGRAM);
  bind_to(pod, "10.9.0.5", 0);
  bind_to(peer, "10.9.0.1", 0);
  const Address to_pod("10.9.0.5", port_of(pod));
  ASSERT_EQ(::sendto(peer.get(), "partial", 7, 0, to_pod.get(), to_pod.length), 7);
  EXPECT_EQ(receive(pod), "partial");
}

}  // namespace
}  // namespace podlane::test
