#include "deviceplugin/lanes/wire.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "lib/net/rtnetlink.hpp"

namespace podlane::dp {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kProbes = 3;  // RFC 5227, 1.1: PROBE_NUM.

// Only neighbour messages wake the reader of a busy NIC: next header ICMPv6, type 135 or 136. Offsets from the Ethernet
// header on.
Result<void> filter_neighbor_messages(int socket) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 58, 0, 4),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 135, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 136, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  sock_fprog program{.len = sizeof(code) / sizeof(code[0]), .filter = code};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
    return fail_errno("attach filter to packet socket");
  }
  return {};
}

Result<net::IpPrefix> parse_lane_address(const std::string& text) {
  if (text.find('/') != std::string::npos) return net::parse_ip_prefix(text);
  PODLANE_TRY_ASSIGN(const net::IpAddress address, net::parse_ip(text));
  return net::host_prefix(address);
}

Result<bool> held_by_this_host(const net::IpAddress& address) {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  PODLANE_TRY_ASSIGN(const auto addresses, netlink.addresses());
  return std::ranges::any_of(addresses, [&](const net::Address& held) { return held.prefix.address == address; });
}

// Waits until `until` or a foreign claim of the address.
Result<bool> claimed_by(Wire& wire, const net::IpAddress& address, const MacAddress& own, steady_clock::time_point until) {
  bool taken = false;
  while (!taken) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd readable{.fd = wire.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return fail_errno("poll");
    wire.drain([&](const NeighborClaim& claim) { taken |= claim.address == address && claim.mac != own; });
  }
  return true;
}

}  // namespace

Result<Wire> Wire::open(IfIndex nic, net::Family family) {
  const auto protocol = static_cast<std::uint16_t>(family == net::Family::kIpv4 ? ETH_P_ARP : ETH_P_IPV6);
  // Protocol 0 first, so that nothing comes in before filter and device are set (packet(7)).
  Wire wire(UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), nic);
  if (!wire.socket_.valid()) return fail_errno("packet socket");
  if (family == net::Family::kIpv6) PODLANE_TRY(filter_neighbor_messages(wire.fd()));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = nic.value;
  if (::bind(wire.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail_errno("bind packet socket", "ifindex " + std::to_string(nic.value));
  }
  return wire;
}

Result<void> Wire::send(const Frame& frame) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = nic_.value;
  address.sll_halen = 6;
  std::copy_n(frame.begin(), 6, address.sll_addr);
  if (::sendto(fd(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0) {
    return fail_errno("send frame", "ifindex " + std::to_string(nic_.value));
  }
  return {};
}

Result<void> Wire::join(const MacAddress& group) {
  packet_mreq request{};
  request.mr_ifindex = nic_.value;
  request.mr_type = PACKET_MR_MULTICAST;
  request.mr_alen = 6;
  std::copy(group.begin(), group.end(), request.mr_address);
  if (::setsockopt(fd(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) != 0) {
    return fail_errno("join group", to_string(group));
  }
  return {};
}

void Wire::drain(const std::function<void(const NeighborClaim&)>& take) {
  std::array<std::uint8_t, 256> buffer;  // Longer ones are cut: what is read stands in the first 86 bytes.
  for (ssize_t n; (n = ::recv(fd(), buffer.data(), buffer.size(), 0)) > 0;) {
    if (const auto claim = read_claim(std::span(buffer).first(static_cast<std::size_t>(n)))) take(*claim);
  }
}

Result<void> announce(IfIndex nic, const MacAddress& mac, const std::vector<std::string>& addresses) {
  for (const std::string& text : addresses) {
    PODLANE_TRY_ASSIGN(const net::IpPrefix prefix, parse_lane_address(text));
    PODLANE_TRY_ASSIGN(Wire wire, Wire::open(nic, prefix.family()));
    PODLANE_TRY(wire.send(announcement(mac, prefix.address)));
  }
  return {};
}

Result<bool> probe_taken(IfIndex nic, const MacAddress& mac, const std::string& address, milliseconds wait) {
  PODLANE_TRY_ASSIGN(const net::IpPrefix prefix, parse_lane_address(address));
  const net::IpAddress& target = prefix.address;
  PODLANE_TRY_ASSIGN(const bool own, held_by_this_host(target));
  if (own) return true;
  PODLANE_TRY_ASSIGN(Wire wire, Wire::open(nic, target.family));
  const bool ipv4 = target.family == net::Family::kIpv4;
  if (!ipv4) {
    // Answers to a question from :: go to all nodes; another host that asks at the same time asks the group.
    PODLANE_TRY(wire.join({0x33, 0x33, 0, 0, 0, 1}));
    PODLANE_TRY(wire.join(solicited_node_mac(target)));
  }
  const Frame question =
      ipv4 ? arp_request(mac, std::nullopt, target) : neighbor_solicitation(mac, std::nullopt, target);
  const auto start = steady_clock::now();
  for (int i = 1; i <= kProbes; ++i) {
    PODLANE_TRY(wire.send(question));
    PODLANE_TRY_ASSIGN(const bool taken, claimed_by(wire, target, mac, start + wait * i / kProbes));
    if (taken) return true;
  }
  return false;
}

}  // namespace podlane::dp
