// bench_rtt: round trips of UDP datagrams, by kernel sockets or by a bare AF_XDP ring, as client or as echo.
//   bench_rtt --by udp  --bind 10.9.0.50 --to 10.9.0.2:7 …       bench_rtt --by udp --serve --bind 10.9.0.2:7 …
//   bench_rtt --by ring --device nic0 --to-mac … --bind … --to … bench_rtt --by ring --serve --device wire-nic0
// One datagram is in flight at a time; the next leaves when the answer has come or after --timeout-ms (then it is lost).
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "lib/base/unique_fd.hpp"
#include "tests/bench/bare_xsk.hpp"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

volatile std::sig_atomic_t stop = 0;

struct Options {
  std::string by = "udp", mode = "spinning", bind = "0.0.0.0:0", to, device, to_mac, name;
  bool serve = false;
  int cpu = -1;
  std::size_t count = 20000, warm_up = 2000, size_bytes = 64;
  int timeout_ms = 200;
};

sockaddr_in parse_endpoint(const std::string& text) {
  sockaddr_in endpoint{};
  endpoint.sin_family = AF_INET;
  const auto colon = text.find(':');
  if (::inet_pton(AF_INET, text.substr(0, colon).c_str(), &endpoint.sin_addr) != 1) {
    throw std::runtime_error("'" + text + "' must be ADDRESS[:PORT]");
  }
  if (colon != std::string::npos) endpoint.sin_port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1))));
  return endpoint;
}

UniqueFd udp_socket(const Options& options) {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in here = parse_endpoint(options.bind);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0) {
    throw std::runtime_error("bind " + options.bind + ": " + std::strerror(errno));
  }
  return fd;
}

// Waits as the mode says; false at the deadline. Counts its system calls.
template <typename TryReceive>
bool wait_for(int fd, const Options& options, std::uint64_t& system_calls, TryReceive try_receive) {
  const std::int64_t deadline = now_ns() + options.timeout_ms * 1'000'000LL;
  const bool sleeps = options.mode == "interrupt";
  for (std::uint32_t tries = 0;; ++tries) {
    if (try_receive()) return true;
    if (sleeps) {
      pollfd wait{fd, POLLIN, 0};
      ++system_calls;
      if (::poll(&wait, 1, options.timeout_ms) <= 0) return false;
    } else if ((tries & 255) == 255 && (stop != 0 || now_ns() > deadline)) {
      return false;
    }
  }
}

// A far side that does not answer at all is a failure, not a slow round.
void count_loss(RoundResult& result, std::size_t answered) {
  ++result.lost;
  if (answered == 0 && result.lost >= 20) throw std::runtime_error("no answer to the first 20 datagrams");
}

void udp_client(const Options& options) {
  const UniqueFd fd = udp_socket(options);
  const sockaddr_in there = parse_endpoint(options.to);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
    throw std::runtime_error("connect " + options.to + ": " + std::strerror(errno));
  }
  std::string payload(options.size_bytes, 'p'), answer(2048, '\0');
  RoundResult result{.what = options.name.empty() ? "udp" : options.name};
  Samples samples(options.count);
  Usage before{};
  for (std::size_t i = 0; i < options.warm_up + options.count && stop == 0; ++i) {
    if (i == options.warm_up) before = usage_now(), result = {.what = result.what};
    std::memcpy(payload.data(), &i, sizeof(i));
    const std::int64_t sent_ns = now_ns();
    ++result.system_calls;
    if (::send(fd.get(), payload.data(), payload.size(), 0) < 0 && errno != ECONNREFUSED) ++result.lost;
    const bool answered = wait_for(fd.get(), options, result.system_calls, [&] {
      ++result.system_calls;
      const ssize_t n = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
      return n == static_cast<ssize_t>(payload.size()) && std::memcmp(answer.data(), &i, sizeof(i)) == 0;
    });
    if (!answered) count_loss(result, samples.count());
    if (answered && i >= options.warm_up) samples.add(now_ns() - sent_ns);
  }
  print_round(result, samples, before, usage_now());
}

void udp_server(const Options& options) {
  const UniqueFd fd = udp_socket(options);
  char buffer[2048];
  const int flags = options.mode == "interrupt" ? 0 : MSG_DONTWAIT;
  while (stop == 0) {
    sockaddr_in peer{};
    socklen_t length = sizeof(peer);
    const ssize_t n = ::recvfrom(fd.get(), buffer, sizeof(buffer), flags, reinterpret_cast<sockaddr*>(&peer), &length);
    if (n >= 0) ::sendto(fd.get(), buffer, static_cast<std::size_t>(n), 0, reinterpret_cast<sockaddr*>(&peer), length);
  }
}

struct [[gnu::packed]] UdpFrame {
  std::uint8_t to_mac[6], from_mac[6];
  std::uint16_t eth_type_be;
  iphdr ip;
  udphdr udp;
  std::uint64_t number;
};

std::uint16_t ip_checksum(const iphdr& ip) {
  std::uint32_t sum = 0;
  std::uint16_t words[sizeof(ip) / 2];
  std::memcpy(words, &ip, sizeof(ip));
  for (const std::uint16_t word : words) sum += word;
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

void ring_client(const Options& options) {
  BareXsk xsk(options.device);
  auto* frame = reinterpret_cast<UdpFrame*>(xsk.transmit_frame());
  const auto frame_bytes = static_cast<std::uint32_t>(offsetof(UdpFrame, number) + options.size_bytes);
  std::memset(frame, 0, frame_bytes);
  if (std::sscanf(options.to_mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &frame->to_mac[0], &frame->to_mac[1],
                  &frame->to_mac[2], &frame->to_mac[3], &frame->to_mac[4], &frame->to_mac[5]) != 6) {
    throw std::runtime_error("--to-mac '" + options.to_mac + "' must be six bytes in hex");
  }
  const UniqueFd query(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, options.device.c_str(), IFNAMSIZ - 1);
  if (::ioctl(query.get(), SIOCGIFHWADDR, &request) != 0) throw std::runtime_error("SIOCGIFHWADDR");
  std::memcpy(frame->from_mac, request.ifr_hwaddr.sa_data, 6);
  const sockaddr_in here = parse_endpoint(options.bind), there = parse_endpoint(options.to);
  frame->eth_type_be = htons(0x0800);
  frame->ip = {};
  frame->ip.version = 4;
  frame->ip.ihl = 5;
  frame->ip.ttl = 64;
  frame->ip.protocol = IPPROTO_UDP;
  frame->ip.tot_len = htons(static_cast<std::uint16_t>(sizeof(iphdr) + sizeof(udphdr) + options.size_bytes));
  frame->ip.saddr = here.sin_addr.s_addr;
  frame->ip.daddr = there.sin_addr.s_addr;
  frame->ip.check = ip_checksum(frame->ip);
  frame->udp.source = here.sin_port;
  frame->udp.dest = there.sin_port;
  frame->udp.len = htons(static_cast<std::uint16_t>(sizeof(udphdr) + options.size_bytes));

  RoundResult result{.what = options.name.empty() ? "bare ring" : options.name};
  Samples samples(options.count);
  Usage before{};
  for (std::size_t i = 0; i < options.warm_up + options.count && stop == 0; ++i) {
    if (i == options.warm_up) before = usage_now(), result = {.what = result.what};
    frame->number = i;
    const std::int64_t sent_ns = now_ns();
    ++result.system_calls;
    xsk.transmit(frame_bytes);
    const bool answered = wait_for(xsk.fd(), options, result.system_calls, [&] {
      std::uint32_t length = 0;
      const std::uint8_t* received = xsk.receive(&length);
      if (received == nullptr) return false;
      const bool ours = length == frame_bytes && reinterpret_cast<const UdpFrame*>(received)->number == i;
      xsk.release_received();
      return ours;
    });
    if (!answered) count_loss(result, samples.count());
    if (answered && i >= options.warm_up) samples.add(now_ns() - sent_ns);
  }
  print_round(result, samples, before, usage_now());
}

// Echoes UDP frames: addresses of both layers and ports swapped, so all checksums stay right.
void ring_server(const Options& options) {
  BareXsk xsk(options.device);
  const bool sleeps = options.mode == "interrupt";
  while (stop == 0) {
    std::uint32_t length = 0;
    const std::uint8_t* received = xsk.receive(&length);
    if (received == nullptr) {
      if (sleeps) {
        pollfd wait{xsk.fd(), POLLIN, 0};
        ::poll(&wait, 1, 100);
      }
      continue;
    }
    const auto* in = reinterpret_cast<const UdpFrame*>(received);
    if (length >= offsetof(UdpFrame, number) && in->eth_type_be == htons(0x0800) && in->ip.protocol == IPPROTO_UDP) {
      auto* out = reinterpret_cast<UdpFrame*>(xsk.transmit_frame());
      std::memcpy(out, in, length);
      std::memcpy(out->to_mac, in->from_mac, 6);
      std::memcpy(out->from_mac, in->to_mac, 6);
      out->ip.saddr = in->ip.daddr;
      out->ip.daddr = in->ip.saddr;
      out->udp.source = in->udp.dest;
      out->udp.dest = in->udp.source;
      xsk.release_received();
      xsk.transmit(length);
    } else {
      xsk.release_received();
    }
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("UDP round trips by kernel sockets or a bare AF_XDP ring");
  app.add_option("--by", options.by)->check(CLI::IsMember({"udp", "ring"}));
  app.add_option("--mode", options.mode)->check(CLI::IsMember({"spinning", "interrupt"}));
  app.add_flag("--serve", options.serve, "echo instead of asking");
  app.add_option("--bind", options.bind, "own ADDRESS[:PORT]");
  app.add_option("--to", options.to, "the echo's ADDRESS:PORT");
  app.add_option("--device", options.device, "ring: the interface");
  app.add_option("--to-mac", options.to_mac, "ring: the next hop's MAC");
  app.add_option("--name", options.name, "what the round is called in the result");
  app.add_option("--cpu", options.cpu);
  app.add_option("--count", options.count)->check(CLI::Range(1, 10000000));
  app.add_option("--warm-up", options.warm_up);
  app.add_option("--size", options.size_bytes, "bytes of UDP payload")->check(CLI::Range(8, 1400));
  app.add_option("--timeout-ms", options.timeout_ms);
  CLI11_PARSE(app, argc, argv);
  struct sigaction on_stop {};
  on_stop.sa_handler = [](int) { stop = 1; };  // No SA_RESTART: a blocking call ends.
  ::sigaction(SIGTERM, &on_stop, nullptr);
  ::sigaction(SIGINT, &on_stop, nullptr);
  pin_to_cpu(options.cpu);
  if (options.by == "udp") {
    options.serve ? udp_server(options) : udp_client(options);
  } else {
    options.serve ? ring_server(options) : ring_client(options);
  }
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_rtt: %s\n", failure.what());
    return 1;
  }
}
