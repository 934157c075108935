// podlane-deviceplugin: builds the parts, gives each what it needs, and waits for a signal. Mounts nothing.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <variant>

#include "deviceplugin/inventory/config.hpp"
#include "deviceplugin/kubelet/daemon_options.hpp"
#include "deviceplugin/kubelet/http_endpoints.hpp"
#include "deviceplugin/kubelet/kubelet_link.hpp"
#include "deviceplugin/kubelet/metrics.hpp"
#include "deviceplugin/kubelet/pod_resources.hpp"
#include "deviceplugin/kubelet/run_lock.hpp"
#include "deviceplugin/lanes/lane_table.hpp"
#include "lib/base/file.hpp"

namespace podlane::dp {

namespace {

std::vector<std::string> pool_names(const Config& config) {
  std::vector<std::string> names;
  for (const PoolConfig& pool : config.pools) names.push_back(pool.name);
  return names;
}

Result<Config> load_config(const std::string& path) {
  PODLANE_TRY_ASSIGN(const std::string text, read_file(path));
  auto config = parse_config(text);
  if (!config) return std::unexpected(std::move(config).error().with("config", path));
  return config;
}

Result<void> all_registered(const KubeletLink& link) {
  std::string missing;
  for (const PoolStatus& pool : link.status()) {
    if (!pool.registered) missing.append(missing.empty() ? "" : ", ").append(pool.pool);
  }
  if (!missing.empty()) return fail(Errc::kUnavailable, "not registered with the kubelet: " + missing);
  return {};
}

MetricsInput gather(const Config& config, LaneTable& table, const KubeletLink& link) {
  MetricsInput input;
  input.pools = link.status();
  for (const std::string& pool : pool_names(config)) input.devices.emplace_back(pool, table.devices(pool));
  input.lanes = table.report();
  input.table = table.counters();
  return input;
}

HttpHandlers handlers(const Config& config, LaneTable& table, const KubeletLink& link) {
  return {.healthy = [&table]() -> Result<void> {
            table.counters();  // Waits for the event thread: a stuck one lets the probe time out.
            return {};
          },
          .ready = [&link] { return all_registered(link); },
          .metrics = [&config, &table, &link] { return render_metrics(gather(config, table, link)); }};
}

// Every thread inherits this, so that sigwait() below is the only taker.
sigset_t block_stop_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

int failed(Log& log, std::string_view what, const Error& error, int exit_code = kExitFailed) {
  log.error(what, {{"error", error.message()}});
  return exit_code;
}

int run(const DaemonOptions& options, const Config& config, const HttpAddress& http, Log& log) {
  const sigset_t stop_signals = block_stop_signals();
  const auto lock = RunLock::acquire(options.run_dir);
  if (!lock) {
    return failed(log, "cannot start", lock.error(), lock.error().code() == Errc::kBusy ? kExitLocked : kExitFailed);
  }
  if (config.pools.empty()) log.info("no pools are configured: nothing to offer", {{"config", options.config}});
  auto table =
      LaneTable::start(config, {.run_dir = options.run_dir,
                        .state_dir = options.state_dir,
                        .bpffs_dir = options.bpffs,
                        .host_root = options.host_root},
                       make_pod_resources_query(options.kubelet_dir), log);
  if (!table) return failed(log, "cannot start the lane table", table.error());
  auto link = KubeletLink::start(pool_names(config), **table, {.kubelet_dir = options.kubelet_dir}, log);
  if (!link) return failed(log, "cannot watch the kubelet", link.error());
  auto endpoints = HttpEndpoints::start(http, handlers(config, **table, **link));
  if (!endpoints) return failed(log, "cannot serve HTTP", endpoints.error());
  log.info("running", {{"version", PODLANE_VERSION},
                       {"pools", std::to_string(config.pools.size())},
                       {"http", options.http},
                       {"http_port", std::to_string((*endpoints)->port())}});
  int signal = 0;
  ::sigwait(&stop_signals, &signal);
  log.info("stopping; lanes live on", {{"signal", ::strsignal(signal)}});
  // In this order: no reader of link and table is left when they go.
  endpoints->reset();
  link->reset();
  table->reset();
  return 0;
}

int main_inner(int argc, char** argv) {
  // gRPC's threads would each get a heap of their own and keep it: two are enough, and 25 MB is the daemon's bound.
  ::mallopt(M_ARENA_MAX, 2);
  // What a burst of pods took (lists, documents) goes back to the kernel; glibc would raise its thresholds and keep it.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
  const auto parsed = parse_command_line(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const DaemonOptions& options = std::get<DaemonOptions>(parsed);
  const auto level = parse_log_level(options.log_level);
  const auto http = parse_http_address(options.http);
  if (!level || !http) {
    std::fprintf(stderr, "%s\n", (!level ? level.error() : http.error()).message().c_str());
    return kExitUsage;
  }
  Log log(STDERR_FILENO, "deviceplugin", *level);
  const auto config = load_config(options.config);
  if (options.check_config) {
    if (!config) {
      std::fprintf(stderr, "%s\n", config.error().message().c_str());
      return kExitConfig;
    }
    std::printf("configuration is right: %zu pool%s\n", config->pools.size(), config->pools.size() == 1 ? "" : "s");
    return 0;
  }
  if (!config) return failed(log, "the configuration is wrong", config.error(), kExitConfig);
  return run(options, *config, *http, log);
}

}  // namespace

}  // namespace podlane::dp

int main(int argc, char** argv) {
  return podlane::dp::main_inner(argc, argv);
}
