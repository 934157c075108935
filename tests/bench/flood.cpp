// bench_flood: numbered UDP datagrams one way, as fast as the sender can or paced on a schedule, and their receiver.
//   bench_flood --bind 10.9.0.50 --to 10.9.0.2:9 --seconds 2 [--rate 20000]
//   bench_flood --receive --bind 10.9.0.50:5000 [--expect 40000]      counts numbers seen, missing, twice; ends on TERM,
//                                                                     or when all expected came, or 1 s after the last
// Each prints one JSON line.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/unique_fd.hpp"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

volatile std::sig_atomic_t stop = 0;

struct Options {
  std::string bind = "0.0.0.0:0", to;
  bool receive = false;
  int cpu = -1;
  double seconds = 2, rate = 0;
  std::uint64_t expect = 0;
  std::size_t size_bytes = 22;  // 64-byte frames.
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

// Numbered datagrams, handed to the kernel together: one at a time, the sender would be slower than what it measures.
class Burst {
 public:
  static constexpr std::size_t kMost = 32;
  explicit Burst(std::size_t size_bytes) : payloads_(kMost, std::vector<char>(size_bytes, 'f')) {
    for (std::size_t i = 0; i < kMost; ++i) {
      parts_[i] = {payloads_[i].data(), size_bytes};
      messages_[i].msg_hdr.msg_iov = &parts_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  // Returns how many failed.
  std::uint64_t send(int fd, std::uint64_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t number = first + i;
      std::memcpy(payloads_[i].data(), &number, sizeof(number));
    }
    const int done = ::sendmmsg(fd, messages_.data(), static_cast<unsigned>(count), 0);
    return count - static_cast<std::size_t>(std::max(done, 0));
  }

 private:
  std::vector<std::vector<char>> payloads_;
  std::array<iovec, kMost> parts_{};
  std::array<mmsghdr, kMost> messages_{};
};

// Paced: each packet has its intended moment, and a late one is followed at once by those that are due (style.md 53).
void send_flood(const Options& options, int fd) {
  const sockaddr_in there = parse_endpoint(options.to);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) throw std::runtime_error("connect");
  Burst burst(options.size_bytes);
  std::uint64_t sent = 0, failed = 0;
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  const std::int64_t start_ns = now_ns(), end_ns = start_ns + static_cast<std::int64_t>(options.seconds * 1e9);
  const auto goal = static_cast<std::uint64_t>(options.rate * options.seconds);
  while (stop == 0 && (options.rate > 0 ? sent < goal : now_ns() < end_ns)) {
    if (options.rate > 0) {
      const std::int64_t due_ns = start_ns + static_cast<std::int64_t>(static_cast<double>(sent) * 1e9 / options.rate);
      const std::int64_t wait_ns = due_ns - now_ns();
      if (wait_ns > 0) {
        const timespec pause{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
        ::nanosleep(&pause, nullptr);
        continue;
      }
    }
    const std::size_t count = options.rate > 0 ? 1 : Burst::kMost;
    failed += burst.send(fd, sent, count);
    sent += count;
  }
  const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
  std::printf("{\"sent\":%llu,\"failed\":%llu,\"per_second\":%.0f}\n", static_cast<unsigned long long>(sent),
              static_cast<unsigned long long>(failed), static_cast<double>(sent) / seconds);
}

void receive_flood(const Options& options, int fd) {
  const int bytes = 64 << 20;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));  // Without the capability: as much as allowed.
  std::vector<bool> seen;
  std::uint64_t received = 0, twice = 0, highest = 0;
  std::int64_t longest_gap_ns = 0, last_ns = 0;
  while (stop == 0 && (options.expect == 0 || received < options.expect)) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, received > 0 && options.expect > 0 ? 1000 : -1) <= 0) {
      if (stop == 0 && received > 0) break;
      continue;
    }
    char payload[2048];
    if (::recv(fd, payload, sizeof(payload), MSG_DONTWAIT) < static_cast<ssize_t>(sizeof(std::uint64_t))) continue;
    std::uint64_t number = 0;
    std::memcpy(&number, payload, sizeof(number));
    if (number > 100'000'000) continue;
    if (number >= seen.size()) seen.resize(number + 1);
    const std::int64_t at_ns = now_ns();
    if (last_ns != 0 && at_ns - last_ns > longest_gap_ns) longest_gap_ns = at_ns - last_ns;
    last_ns = at_ns;
    if (seen[number]) {
      ++twice;
    } else {
      ++received;
    }
    seen[number] = true;
    if (number > highest) highest = number;
  }
  const std::uint64_t wanted = options.expect > 0 ? options.expect : (received > 0 ? highest + 1 : 0);
  std::printf("{\"received\":%llu,\"missing\":%llu,\"twice\":%llu,\"longest_gap_ms\":%.1f}\n",
              static_cast<unsigned long long>(received), static_cast<unsigned long long>(wanted - received),
              static_cast<unsigned long long>(twice), static_cast<double>(longest_gap_ns) / 1e6);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("UDP one way: sender and counting receiver");
  app.add_option("--bind", options.bind, "own ADDRESS[:PORT]");
  app.add_option("--to", options.to, "ADDRESS:PORT");
  app.add_flag("--receive", options.receive);
  app.add_option("--seconds", options.seconds);
  app.add_option("--rate", options.rate, "packets a second; 0: as fast as it goes");
  app.add_option("--expect", options.expect, "receiver: end after this many");
  app.add_option("--size", options.size_bytes, "bytes of UDP payload")->check(CLI::Range(8, 1400));
  app.add_option("--cpu", options.cpu);
  CLI11_PARSE(app, argc, argv);
  struct sigaction on_stop {};
  on_stop.sa_handler = [](int) { stop = 1; };
  ::sigaction(SIGTERM, &on_stop, nullptr);
  ::sigaction(SIGINT, &on_stop, nullptr);
  pin_to_cpu(options.cpu);
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in here = parse_endpoint(options.bind);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0) {
    throw std::runtime_error("bind " + options.bind + ": " + std::strerror(errno));
  }
  options.receive ? receive_flood(options, fd.get()) : send_flood(options, fd.get());
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_flood: %s\n", failure.what());
    return 1;
  }
}
