// bench_lane_flood: UDP frames out of a lane's rings through libpodlane, as fast as it goes, in bursts.
//   bench_lane_flood --lane /run/podlane/lanes/feed/0 --to 10.9.0.1:9 --seconds 2
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "lib/podlane/podlane.h"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

constexpr unsigned kBurst = 32;
constexpr std::size_t kPayload = 22;  // 64-byte frames with their checksum.

struct [[gnu::packed]] Frame {
  std::uint8_t to_mac[6], from_mac[6];
  std::uint16_t eth_type_be;
  iphdr ip;
  udphdr udp;
  std::uint8_t payload[kPayload];
};

std::uint16_t checksum(const iphdr& ip) {
  std::uint16_t words[sizeof(ip) / 2];
  std::memcpy(words, &ip, sizeof(ip));
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) sum += word;
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

Frame make_frame(podlane_lane* lane, const in_addr& to, std::uint16_t port) {
  const podlane_info* info = podlane_describe(lane);
  Frame frame{};
  const std::int64_t deadline_ns = now_ns() + 5'000'000'000;
  for (int result; (result = podlane_resolve(lane, &to, sizeof(to), frame.to_mac)) != 0; podlane_wait(lane, 1000)) {
    if (result != PODLANE_EAGAIN || now_ns() > deadline_ns) throw std::runtime_error(podlane_strerror(result));
  }
  std::memcpy(frame.from_mac, info->mac, 6);
  frame.eth_type_be = htons(0x0800);
  frame.ip.version = 4;
  frame.ip.ihl = 5;
  frame.ip.ttl = 64;
  frame.ip.protocol = IPPROTO_UDP;
  frame.ip.tot_len = htons(sizeof(Frame) - 14);
  const std::string own = info->addresses[0];
  ::inet_pton(AF_INET, own.substr(0, own.find('/')).c_str(), &frame.ip.saddr);
  frame.ip.daddr = to.s_addr;
  frame.ip.check = checksum(frame.ip);
  frame.udp.source = htons(40000);
  frame.udp.dest = htons(port);
  frame.udp.len = htons(sizeof(udphdr) + kPayload);
  return frame;
}

int run(int argc, char** argv) {
  std::string directory, to;
  double seconds = 2;
  int cpu = -1;
  CLI::App app("Floods a lane through libpodlane");
  app.add_option("--lane", directory)->required();
  app.add_option("--to", to, "ADDRESS:PORT")->required();
  app.add_option("--seconds", seconds);
  app.add_option("--cpu", cpu);
  CLI11_PARSE(app, argc, argv);
  pin_to_cpu(cpu);
  in_addr address{};
  const auto colon = to.find(':');
  if (colon == std::string::npos || ::inet_pton(AF_INET, to.substr(0, colon).c_str(), &address) != 1) {
    throw std::runtime_error("--to '" + to + "' must be ADDRESS:PORT");
  }
  podlane_lane* lane = nullptr;
  char error[256] = "";
  if (podlane_open(directory.c_str(), nullptr, &lane, error, sizeof(error)) != 0) throw std::runtime_error(error);
  const Frame model = make_frame(lane, address, static_cast<std::uint16_t>(std::stoi(to.substr(colon + 1))));
  std::uint64_t sent = 0;
  const std::int64_t start_ns = now_ns(), end_ns = start_ns + static_cast<std::int64_t>(seconds * 1e9);
  while (now_ns() < end_ns) {
    podlane_frame frames[kBurst];
    const int got = podlane_tx_reserve(lane, frames, kBurst);
    for (int i = 0; i < got; ++i) {
      std::memcpy(frames[i].data, &model, sizeof(model));
      frames[i].length = sizeof(model);
    }
    for (int done = 0; done < got;) {
      const int taken = podlane_tx_burst(lane, frames + done, static_cast<unsigned>(got - done));
      if (taken < 0) throw std::runtime_error(podlane_strerror(taken));
      done += taken;
      sent += static_cast<std::uint64_t>(taken);
    }
  }
  std::printf("{\"sent\":%llu,\"per_second\":%.0f}\n", static_cast<unsigned long long>(sent),
              static_cast<double>(sent) * 1e9 / static_cast<double>(now_ns() - start_ns));
  podlane_close(lane);
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_lane_flood: %s\n", failure.what());
    return 1;
  }
}
