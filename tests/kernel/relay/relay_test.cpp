// The relay's loops between a real TUN and a real AF_XDP socket, in this process: unmodified sockets in the pod, a plain
// kernel host at the far end of the veth.
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>

#include <cstring>
#include <thread>

#include "tests/kernel/relay/lane_rig.hpp"

namespace podlane::test {
namespace {

struct ModeRow {
  const char* name;
  xsk::WaitMode mode;
  lane::HandoverStyle style;
  bool generic_xdp;
};
constexpr ModeRow kModes[] = {
    {"interrupt, finished socket", xsk::WaitMode::kInterrupt, lane::HandoverStyle::kFinished, false},
    {"spinning, finished socket", xsk::WaitMode::kSpinning, lane::HandoverStyle::kFinished, false},
    {"interrupt, unbound socket", xsk::WaitMode::kInterrupt, lane::HandoverStyle::kUnbound, false},
    {"interrupt, generic XDP", xsk::WaitMode::kInterrupt, lane::HandoverStyle::kFinished, true},
};

// A datagram each way; both sockets are the kernel's own.
void expect_udp_round_trip(LaneRig& rig, const std::string& pod_ip, const std::string& peer_ip, std::size_t bytes) {
  const int family = pod_ip.find(':') == std::string::npos ? AF_INET : AF_INET6;
  const UniqueFd pod = rig.pod_socket(family, SOCK_DGRAM), peer = rig.peer_socket(family, SOCK_DGRAM);
  bind_to(pod, pod_ip, 0);
  bind_to(peer, peer_ip, 0);
  const std::string there(bytes, 'a'), back(bytes, 'b');
  const Address to_peer(peer_ip, port_of(peer)), to_pod(pod_ip, port_of(pod));
  ASSERT_EQ(::sendto(pod.get(), there.data(), there.size(), 0, to_peer.get(), to_peer.length),
            static_cast<ssize_t>(bytes));
  EXPECT_EQ(receive(peer), there) << pod_ip;
  ASSERT_EQ(::sendto(peer.get(), back.data(), back.size(), 0, to_pod.get(), to_pod.length),
            static_cast<ssize_t>(bytes));
  EXPECT_EQ(receive(pod), back) << pod_ip;
}

// Sends `bytes` in writes of `chunk` from one socket to the other and compares them all.
void expect_tcp_stream(const UniqueFd& from, const UniqueFd& to, std::size_t bytes, std::size_t chunk) {
  std::string sent(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 131 + (i >> 9));
  std::thread writer([&] {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t n = ::send(from.get(), sent.data() + at, std::min(chunk, bytes - at), MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
  });
  std::string got;
  while (got.size() < bytes) {
    const std::string part = receive(to, 5s);
    if (part.empty()) break;
    got += part;
  }
  writer.join();
  EXPECT_EQ(got.size(), bytes);
  EXPECT_TRUE(got == sent);
}

struct TcpPair {
  TcpPair(LaneRig& rig, const std::string& pod_ip, const std::string& peer_ip) {
    const int family = pod_ip.find(':') == std::string::npos ? AF_INET : AF_INET6;
    const UniqueFd listener = rig.peer_socket(family, SOCK_STREAM);
    pod = rig.pod_socket(family, SOCK_STREAM);
    bind_to(listener, peer_ip, 0);
    bind_to(pod, pod_ip, 0);
    if (::listen(listener.get(), 1) != 0) return;
    const Address to_peer(peer_ip, port_of(listener));
    if (::connect(pod.get(), to_peer.get(), to_peer.length) != 0) return;
    peer.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd pod, peer;
};

TEST(Relay, CarriesPingUdpAndTcpOfBothFamiliesInEveryMode) {
  for (const ModeRow& row : kModes) {
    SCOPED_TRACE(row.name);
    if (row.style == lane::HandoverStyle::kFinished && !finished_sockets()) {
      differs("without finished sockets");
      continue;
    }
    LaneRig rig({.style = row.style, .generic_xdp = row.generic_xdp});
    RunningRelay relay(rig, row.mode);
    EXPECT_EQ(run({"ip", "netns", "exec", rig.pod.name(), "ping", "-c2", "-i0.05", "-W2", "10.9.0.1"}).status, 0);
    EXPECT_EQ(run({"ip", "netns", "exec", rig.peer.name(), "ping", "-c2", "-i0.05", "-W2", "fd09::5"}).status, 0);
    for (const std::size_t bytes : {1UL, 64UL, 1400UL, 9000UL}) {
      expect_udp_round_trip(rig, "10.9.0.5", "10.9.0.1", bytes);
      expect_udp_round_trip(rig, "fd09::5", "fd09::1", bytes);
    }
    for (const auto& [pod, peer] : {std::pair("10.9.0.5", "10.9.0.1"), std::pair("fd09::5", "fd09::1")}) {
      TcpPair tcp(rig, pod, peer);
      ASSERT_TRUE(tcp.peer.valid());
      expect_tcp_stream(tcp.pod, tcp.peer, 4 << 20, 65536);
      expect_tcp_stream(tcp.pod, tcp.peer, 900000, 9000);
      expect_tcp_stream(tcp.peer, tcp.pod, 4 << 20, 65536);
    }
    relay.end();
    EXPECT_GT(relay.count(Counter::kTxGsoPackets), 0U);
    expect_sums(relay.port().counters);
    expect_no_leak(relay.port());
  }
}

}  // namespace
}  // namespace podlane::test
