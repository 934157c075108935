#include "tests/kernel/hostside/node.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>

#include "lib/net/veth_pair.hpp"

namespace podlane::test {

namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  SocketAddress(const std::string& address, std::uint16_t port) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    if (address.find(':') != std::string::npos) {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(port);
      ::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr);
      length = sizeof(sockaddr_in6);
    } else {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(port);
      ::inet_pton(AF_INET, address.c_str(), &v4->sin_addr);
      length = sizeof(sockaddr_in);
    }
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

}  // namespace

Node::Node()
    : bpffs_("/sys/fs/bpf/" + random_name("pltest")), home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const VethPair wire(host_, far_, "nic0", "far0");
  // Without offload on the wire: a real one carries whole checksums.
  must_run("ip netns exec " + far_.name() + " ethtool -K far0 tx off");
  far_.ip("addr add 10.9.0.99/24 dev far0");
  far_.ip("addr add fd00:9::99/64 dev far0 nodad");
  if (::setns(host_.fd(), CLONE_NEWNET) != 0) throw std::runtime_error("setns");
  facts_ = must(dp::nic_facts("nic0", "/sys"));
}

Node::~Node() {
  if (steering_) (void)steering_->remove_all();
  (void)!::setns(home_.get(), CLONE_NEWNET);
}

dp::MacAddress Node::far_mac() const {
  dp::MacAddress mac{};
  far_.inside([&] { mac = must(dp::nic_facts("far0", "/sys")).mac; });
  return mac;
}

bpf::Steering Node::open_steering() const {
  return must(bpf::Steering::open(bpffs_));
}

bpf::Steering& Node::steering() {
  if (!steering_) {
    steering_.emplace(open_steering());
    must(steering_->attach_nic(nic()));
  }
  return *steering_;
}

std::unique_ptr<Node::Pod> Node::add_veth_pod(std::uint32_t slot, const std::vector<std::string>& addresses) {
  auto pod = std::make_unique<Pod>();
  pod->slot = LaneSlot(slot);
  pod->lane = must(dp::make_veth_lane(pod->netns.fd(), random_name("plv"), "lane0v",
                                      "feed-" + std::to_string(slot), pod->slot));
  must(net::open_veth_pair({pod->lane.host_end, pod->lane.pod_end}, pod->netns.fd(), 1500));
  veth_entry entry{.slot = slot, .nic_ifindex = static_cast<__u32>(nic().value), .nic_mac = {}, .pad = {}};
  std::copy(nic_mac().begin(), nic_mac().end(), entry.nic_mac);
  must(steering().attach_veth_host_end(pod->lane.host_end, entry));
  must(steering().attach_veth_pod_end(pod->netns.fd(), pod->lane.pod_end, pod->slot));
  pod->netns.inside([&] {
    pod->socket = std::make_unique<RawXsk>();
    pod->socket->set_up(pod->lane.pod_end.value, 0);
  });
  must(steering().set_socket(pod->slot, pod->socket->fd()));
  for (const std::string& address : addresses) {
    must(steering().set_lane(nic(), ip(address),
                             {.slot = slot,
                              .kind = LANE_KIND_VETH,
                              .rx_queue = 0,
                              .veth_ifindex = static_cast<__u32>(pod->lane.host_end.value)}));
  }
  return pod;
}

bool Node::send_from_far(const std::string& to, const std::string& text, std::uint16_t port) const {
  bool sent = false;
  far_.inside([&] {
    const SocketAddress address(to, port);
    const UniqueFd socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sent = ::sendto(socket.get(), text.data(), text.size(), 0, address.get(), address.length) > 0;
  });
  return sent;
}

std::string Node::far_neighbor(const std::string& address) const {
  const std::string shown = far_.ip("neigh show " + address + " dev far0");
  const std::size_t at = shown.find("lladdr ");
  return at == std::string::npos ? "" : shown.substr(at + 7, 17);
}

UdpEar::UdpEar(const ScratchNetns& netns, std::uint16_t port) {
  netns.inside([&] {
    socket_.reset(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SocketAddress address("::", port);
    if (::bind(socket_.get(), address.get(), address.length) != 0) throw std::runtime_error("bind UDP");
  });
}

std::string UdpEar::hear() {
  char buffer[2048];
  const ssize_t n = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
}

std::vector<std::string> collect(RawXsk& socket, const std::string& text, std::size_t count) {
  std::vector<std::string> found;
  eventually(std::chrono::seconds(3), [&] {
    for (std::string& frame : socket.receive()) {
      if (frame.find(text) != std::string::npos) found.push_back(std::move(frame));
    }
    return found.size() >= count;
  });
  return found;
}

Bytes udp_text(const std::string& text, std::uint16_t port) {
  Bytes datagram = udp(text.size());
  datagram[2] = static_cast<char>(port >> 8);
  datagram[3] = static_cast<char>(port);
  return datagram.substr(0, 8) + text;
}

}  // namespace podlane::test
