#include "ctl/bench_command.hpp"

#include <sched.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>

#include "ctl/bench_pingpong.hpp"
#include "lib/json/json.hpp"

namespace podlane::ctl {

namespace {

constexpr int kStatusFailed = 1;
constexpr int kStatusLost = 3;  // Some datagrams did not come back.

std::atomic<bool> g_stop{false};  // The one thing a signal handler can reach.
void on_signal(int) { g_stop = true; }

struct Arguments {
  bool server = false, json = false, histogram = false;
  std::string to, bind, lane, wait = "spinning", label;
  int cpu = -1;
  PingPongOptions options;
  std::uint64_t timeout_ms = 1000;
};

Result<void> pin(int cpu) {
  if (cpu < 0) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) return fail_errno("pin to CPU", std::to_string(cpu));
  return {};
}

Result<std::unique_ptr<BenchEndpoint>> open_endpoint(const Arguments& arguments, std::optional<UdpAddress>& peer) {
  EndpointOptions options;
  options.wait = arguments.wait == "spinning" ? BenchWait::kSpinning : BenchWait::kBlocking;
  if (!arguments.to.empty()) {
    PODLANE_TRY_ASSIGN(peer, parse_udp_address(arguments.to));
    options.peer = &*peer;
  }
  if (!arguments.bind.empty()) {
    PODLANE_TRY_ASSIGN(options.local, parse_udp_address(arguments.bind));
  }
  if (!arguments.lane.empty()) return open_lane_endpoint(arguments.lane, options);
  return open_socket_endpoint(options);
}

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

json::Value result_json(const Arguments& arguments, const BenchEndpoint& endpoint, const PingPongResult& result) {
  json::Value out;
  out["bench"] = "pingpong";
  if (!arguments.label.empty()) out["label"] = arguments.label;
  for (const auto& [key, value] : bench_environment()) out["environment"][key] = value;
  out["endpoint"] = endpoint.description();
  out["sizeBytes"] = arguments.options.size_bytes;
  out["rate"] = arguments.options.rate;
  out["sent"] = result.sent;
  out["lost"] = result.lost;
  const Histogram& rtt = result.rtt_ns;
  out["rttNs"] = {{"min", rtt.min()},          {"p50", rtt.percentile(50)},     {"p90", rtt.percentile(90)},
                  {"p99", rtt.percentile(99)}, {"p99.9", rtt.percentile(99.9)}, {"max", rtt.max()}};
  const double seconds = std::chrono::duration<double>(result.elapsed).count();
  out["packetsPerSecond"] = seconds > 0 ? static_cast<double>(rtt.count()) / seconds : 0.0;
  out["cpuPercent"] = seconds > 0 ? static_cast<double>(result.usage.cpu_ns) / 1e7 / seconds : 0.0;
  out["systemCallsPerPacket"] =
      result.sent != 0 ? static_cast<double>(result.system_calls) / static_cast<double>(result.sent) : 0.0;
  out["stealTicks"] = result.usage.steal_ticks;
  out["involuntarySwitches"] = result.usage.involuntary_switches;
  if (arguments.histogram) {
    json::Value buckets = json::Value::array();
    rtt.each([&](std::uint64_t upper_ns, std::uint64_t records) { buckets.push_back({upper_ns, records}); });
    out["histogramNs"] = std::move(buckets);
  }
  return out;
}

void print_text(const json::Value& out) {
  for (const auto& [key, value] : out["environment"].items()) {
    std::printf("%-10s %s\n", key.c_str(), value.get<std::string>().c_str());
  }
  std::printf("%-10s %s\n", "endpoint", out["endpoint"].get<std::string>().c_str());
  std::printf("round trips %llu, lost %llu, %llu bytes, %s\n", out["sent"].get<unsigned long long>(),
              out["lost"].get<unsigned long long>(), out["sizeBytes"].get<unsigned long long>(),
              out["rate"].get<std::uint64_t>() == 0 ? "back to back" : "paced, timed from the intended moment");
  const auto& rtt = out["rttNs"];
  std::printf("RTT us     min %.2f  p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f\n", us(rtt["min"]), us(rtt["p50"]),
              us(rtt["p90"]), us(rtt["p99"]), us(rtt["p99.9"]), us(rtt["max"]));
  std::printf("%.0f packets/s, CPU %.0f %%, %.2f system calls per packet (this side), steal %llu ticks, "
              "%llu involuntary switches\n",
              out["packetsPerSecond"].get<double>(), out["cpuPercent"].get<double>(),
              out["systemCallsPerPacket"].get<double>(), out["stealTicks"].get<unsigned long long>(),
              out["involuntarySwitches"].get<unsigned long long>());
}

Result<int> ping_pong(const Arguments& arguments) {
  PODLANE_TRY(pin(arguments.cpu));
  std::optional<UdpAddress> peer;
  PODLANE_TRY_ASSIGN(const std::unique_ptr<BenchEndpoint> endpoint, open_endpoint(arguments, peer));
  ::signal(SIGINT, on_signal);
  ::signal(SIGTERM, on_signal);
  if (arguments.server) {
    std::fprintf(stderr, "echo server: %s\n", endpoint->description().c_str());
    PODLANE_TRY_ASSIGN(const std::uint64_t count, run_echo(*endpoint, g_stop));
    std::fprintf(stderr, "echoed %llu datagrams\n", static_cast<unsigned long long>(count));
    return 0;
  }
  PingPongOptions options = arguments.options;
  options.timeout = std::chrono::milliseconds(arguments.timeout_ms);
  PODLANE_TRY_ASSIGN(const PingPongResult result, run_ping_pong(*endpoint, options, g_stop));
  const json::Value out = result_json(arguments, *endpoint, result);
  if (arguments.json) std::printf("%s\n", json::dump(out).c_str());
  else print_text(out);
  return result.lost == 0 ? 0 : kStatusLost;
}

}  // namespace

void register_bench(CLI::App& app, int& status) {
  CLI::App* bench = app.add_subcommand("bench", "Measure lanes");
  bench->require_subcommand(1);
  CLI::App* command = bench->add_subcommand("pingpong", "Round trips of UDP datagrams by sockets or by a lane's rings");
  auto arguments = std::make_shared<Arguments>();
  command->add_flag("--server", arguments->server, "Send every datagram back (with --bind)");
  command->add_option("--to", arguments->to, "Server: 10.9.0.1:7 or [fd09::1]:7");
  command->add_option("--bind", arguments->bind, "Own address and port; for a lane only port and family count");
  command->add_option("--lane", arguments->lane, "Lane directory: use its rings by libpodlane instead of a socket");
  command->add_option("--wait", arguments->wait, "How to wait for a datagram")
      ->check(CLI::IsMember({"spinning", "blocking"}))
      ->capture_default_str();
  command->add_option("--size", arguments->options.size_bytes, "UDP payload, bytes")->check(CLI::Range(16, 65000));
  command->add_option("--count", arguments->options.count, "Round trips")->capture_default_str();
  command->add_option("--warm-up", arguments->options.warm_up, "Round trips before")->capture_default_str();
  command->add_option("--rate", arguments->options.rate, "Round trips a second; 0: back to back")->check(CLI::Range(0, 10000000));
  command->add_option("--timeout", arguments->timeout_ms, "ms until a round trip is lost")->check(CLI::Range(1, 60000));
  command->add_option("--cpu", arguments->cpu, "Pin to this CPU")->check(CLI::Range(0, 1023));
  command->add_option("--label", arguments->label, "Copied into the JSON");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--histogram", arguments->histogram, "Put the histogram into the JSON");
  command->callback([arguments, &status] {
    if (arguments->server == !arguments->to.empty() || (arguments->server && arguments->bind.empty())) {
      throw CLI::ValidationError("pingpong", "needs --to, or --server with --bind");
    }
    const auto done = ping_pong(*arguments);
    if (!done) std::fprintf(stderr, "podlanectl: %s\n", done.error().message().c_str());
    status = done ? *done : kStatusFailed;
  });
}

}  // namespace podlane::ctl
