// bench_naive_relay: the "before" of the benchmarks. What the field's user-space tunnels do on a slow TUN: one thread
// blocks in read(2) on the TUN and sends the datagram by a kernel UDP socket, another blocks in recv(2) on that socket
// and writes the packet back. One packet per system call, every hop a wake-up. UDP to one far address only.
//   bench_naive_relay --tun tun0 --address 10.8.0.2/24 --to 10.9.0.2:7
// Makes the TUN itself: it needs CAP_NET_ADMIN, which podlane's ways do not.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "lib/base/unique_fd.hpp"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

constexpr std::size_t kHeaders = sizeof(iphdr) + sizeof(udphdr);

std::uint16_t ip_checksum(const iphdr& ip) {
  std::uint16_t words[sizeof(ip) / 2];
  std::memcpy(words, &ip, sizeof(ip));
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) sum += word;
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

UniqueFd make_tun(const std::string& name, const std::string& cidr) {
  UniqueFd tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!tun.valid() || ::ioctl(tun.get(), TUNSETIFF, &request) != 0) throw std::runtime_error("make TUN " + name);
  const UniqueFd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  *address = {};
  address->sin_family = AF_INET;
  const auto slash = cidr.find('/');
  if (slash == std::string::npos || ::inet_pton(AF_INET, cidr.substr(0, slash).c_str(), &address->sin_addr) != 1 ||
      ::ioctl(control.get(), SIOCSIFADDR, &request) != 0) {
    throw std::runtime_error("--address '" + cidr + "' must be IPv4/prefix");
  }
  address->sin_addr.s_addr = htonl(~0U << (32 - std::stoi(cidr.substr(slash + 1))));
  if (::ioctl(control.get(), SIOCSIFNETMASK, &request) != 0) throw std::runtime_error("SIOCSIFNETMASK");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(control.get(), SIOCSIFFLAGS, &request) != 0) throw std::runtime_error("SIOCSIFFLAGS");
  return tun;
}

// The flow that the answers belong to: source and destination of the last packet from the TUN.
std::atomic<std::uint64_t> flow_addresses, flow_ports;

void tun_to_socket(int tun, int socket) {
  std::uint8_t packet[2048];
  for (;;) {
    const ssize_t n = ::read(tun, packet, sizeof(packet));
    if (n < 0) return;
    iphdr ip;
    udphdr udp;
    if (n < static_cast<ssize_t>(kHeaders)) continue;
    std::memcpy(&ip, packet, sizeof(ip));
    std::memcpy(&udp, packet + sizeof(ip), sizeof(udp));
    if (ip.version != 4 || ip.protocol != IPPROTO_UDP) continue;
    flow_addresses = std::uint64_t{ip.saddr} << 32 | ip.daddr;
    flow_ports = std::uint64_t{udp.source} << 32 | udp.dest;
    ::send(socket, packet + kHeaders, static_cast<std::size_t>(n) - kHeaders, 0);
  }
}

void socket_to_tun(int socket, int tun) {
  std::uint8_t packet[2048];
  for (;;) {
    const ssize_t n = ::recv(socket, packet + kHeaders, sizeof(packet) - kHeaders, 0);
    if (n < 0) {
      if (errno == ECONNREFUSED) continue;
      return;
    }
    const std::uint64_t addresses = flow_addresses, ports = flow_ports;
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.ttl = 64;
    ip.protocol = IPPROTO_UDP;
    ip.tot_len = htons(static_cast<std::uint16_t>(kHeaders + static_cast<std::size_t>(n)));
    ip.saddr = static_cast<std::uint32_t>(addresses);
    ip.daddr = static_cast<std::uint32_t>(addresses >> 32);
    ip.check = ip_checksum(ip);
    udphdr udp{};
    udp.source = static_cast<std::uint16_t>(ports);
    udp.dest = static_cast<std::uint16_t>(ports >> 32);
    udp.len = htons(static_cast<std::uint16_t>(sizeof(udp) + static_cast<std::size_t>(n)));
    std::memcpy(packet, &ip, sizeof(ip));
    std::memcpy(packet + sizeof(ip), &udp, sizeof(udp));
    if (::write(tun, packet, kHeaders + static_cast<std::size_t>(n)) < 0 && errno != EIO) return;
  }
}

int run(int argc, char** argv) {
  std::string name = "tun0", address, to;
  int cpu = -1;
  CLI::App app("A naive blocking TUN relay: the benchmarks' \"before\"");
  app.add_option("--tun", name);
  app.add_option("--address", address)->required();
  app.add_option("--to", to, "ADDRESS:PORT")->required();
  app.add_option("--cpu", cpu);
  CLI11_PARSE(app, argc, argv);
  pin_to_cpu(cpu);  // Before the second thread starts, which inherits it.
  ::signal(SIGTERM, [](int) { ::_exit(0); });
  const UniqueFd tun = make_tun(name, address);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  const auto colon = to.find(':');
  if (colon == std::string::npos || ::inet_pton(AF_INET, to.substr(0, colon).c_str(), &there.sin_addr) != 1) {
    throw std::runtime_error("--to '" + to + "' must be ADDRESS:PORT");
  }
  there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(to.substr(colon + 1))));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
    throw std::runtime_error("connect " + to);
  }
  std::thread back(socket_to_tun, socket.get(), tun.get());
  tun_to_socket(tun.get(), socket.get());
  ::_exit(1);  // The other thread blocks; nothing here needs an orderly end.
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_naive_relay: %s: %s\n", failure.what(), std::strerror(errno));
    return 1;
  }
}
