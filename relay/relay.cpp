#include "relay/relay.hpp"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "lib/podlane/control.hpp"
#include "relay/cpus.hpp"
#include "relay/lane_worker.hpp"

namespace podlane::relay {

namespace {

constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
constexpr std::chrono::milliseconds kControlTick{1000};

struct Lanes {
  std::vector<std::unique_ptr<LanePort>> ports;
  std::vector<std::unique_ptr<LaneWorker>> workers;  // Declared later: joined before their ports go.
};

bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

int exit_code_of(const Error& error) {
  switch (error.code()) {
    case Errc::kUnavailable:
    case Errc::kBusy: return kExitNoAnswer;
    case Errc::kGone: return kExitDeviceGone;
    case Errc::kDenied:
    case Errc::kProtocol:
    case Errc::kUnsupported:
    case Errc::kInvalid: return kExitRefused;
    default: return kExitCannotRun;
  }
}

// The lane as logs call it: "feed-3 (lane0)".
std::string name_of(const LanePort& port) { return port.description.device + " (" + port.description.ifname + ")"; }

std::string counters_text(const LanePort& port) {
  std::string text;
  for (const auto& [name, value] : port.counters.snapshot()) {
    if (value != 0) text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  }
  return text;
}

Result<xsk::WaitMode> mode_of(const LanePort& port, const Options& options) {
  if (options.mode) return *options.mode;
  switch (port.description.mode) {
    case lane::Mode::kSpinning: return xsk::WaitMode::kSpinning;
    case lane::Mode::kInterrupt: return xsk::WaitMode::kInterrupt;
    case lane::Mode::kAdaptive: break;
  }
  return fail(Errc::kUnsupported, "mode adaptive is not built yet: annotate spinning or interrupt, or give --mode");
}

Result<void> run_relay_open(Lanes& lanes, const Options& options, const std::vector<std::string>& directories,
                            int signal_fd, Log& log) {
  const auto deadline = std::chrono::steady_clock::now() + options.wait;
  for (const std::string& directory : directories) {
    lane::HandoverOptions handover;
    handover.socket_path = directory + "/handover.sock";
    handover.client = "podlane-relay " PODLANE_VERSION;
    handover.cancel_fd = signal_fd;
    handover.on_wait = [&](std::string_view why) { log.info("waiting for the lane", {{"lane", directory}, {"why", why}}); };
    auto port = LanePort::open(handover, deadline);
    if (!port) return std::unexpected(std::move(port).error().with("lane", directory));
    lanes.ports.push_back(std::move(*port));
  }
  return {};
}

Result<void> run_relay_start(Lanes& lanes, const Options& options, Log& log) {
  std::vector<bool> spinning;
  std::vector<xsk::WaitMode> modes;
  for (const auto& port : lanes.ports) {
    PODLANE_TRY_ASSIGN(const xsk::WaitMode mode, mode_of(*port, options));
    modes.push_back(mode);
    spinning.push_back(mode == xsk::WaitMode::kSpinning);
  }
  PODLANE_TRY_ASSIGN(const std::vector<CpuId> allowed, allowed_cpus());
  PODLANE_TRY_ASSIGN(const CpuPlan plan, plan_cpus(allowed, options.cpus, spinning));
  const bool any_spins = std::find(spinning.begin(), spinning.end(), true) != spinning.end();
  if (const auto quota = cfs_quota(kCgroupRoot); quota && any_spins) {
    log.warn("spinning under a CPU quota: the kernel stops this container when it is used up; ask for whole CPUs",
             {{"quota", *quota}});
  }
  for (std::size_t i = 0; i < lanes.ports.size(); ++i) {
    LanePort& port = *lanes.ports[i];
    lanes.workers.push_back(std::make_unique<LaneWorker>(port, modes[i], plan.workers[i]));
    PODLANE_TRY(lanes.workers.back()->start());
    PODLANE_TRY(port.set_carrier(true));
    const std::string cpu = plan.workers[i] ? std::to_string(plan.workers[i]->value) : "any";
    log.info("lane is up", {{"lane", name_of(port)},
                            {"mode", spinning[i] ? "spinning" : "interrupt"},
                            {"cpu", cpu},
                            {"zero_copy", port.socket.zero_copy() ? "yes" : "no"}});
  }
  if (plan.control) {
    // From here on this thread only watches; it stays off the CPUs of the workers.
    if (auto pinned = pin_this_thread(*plan.control); !pinned) {
      log.warn("the control thread is not pinned", {{"why", pinned.error().message()}});
    }
  }
  return {};
}

// Until a signal or the end of a lane. The exit code.
int run_relay_watch(Lanes& lanes, int signal_fd, Log& log) {
  std::vector<LanePort*> ports;
  for (const auto& port : lanes.ports) ports.push_back(port.get());
  bool device_gone = false;
  Control control(std::move(ports), [&](const LanePort& port, ControlEvent event, std::string_view detail) {
    switch (event) {
      case ControlEvent::kSessionLost:
      case ControlEvent::kSessionRefused:
        log.warn(to_string(event), {{"lane", name_of(port)}, {"why", detail}});
        break;
      case ControlEvent::kSessionResumed: log.info(to_string(event), {{"lane", name_of(port)}}); break;
      case ControlEvent::kDeviceGone:
      case ControlEvent::kTunGone:
        log.error(to_string(event), {{"lane", name_of(port)}});
        device_gone = true;
        break;
    }
  });
  pollfd signalled{signal_fd, POLLIN, 0};
  while (!device_gone && signalled.revents == 0) control.step(kControlTick, {&signalled, 1});
  return device_gone ? kExitDeviceGone : kExitEnded;
}

void run_relay_end(Lanes& lanes, Log& log) {
  // Carrier first: routes move away while the workers drain.
  for (const auto& port : lanes.ports) {
    if (port->fate() == Fate::kTunGone) continue;
    if (auto dropped = port->set_carrier(false); !dropped) {
      log.warn("the carrier stays", {{"lane", name_of(*port)}, {"why", dropped.error().message()}});
    }
  }
  for (const auto& worker : lanes.workers) worker->stop();
  for (const auto& worker : lanes.workers) worker->join();
  for (const auto& port : lanes.ports) {
    log.info("lane has ended", {{"lane", name_of(*port)}, {"counters", counters_text(*port)}});
  }
}

}  // namespace

int run_relay(const Options& options, int signal_fd, Log& log) {
  const auto directories = find_lanes(options.lane_dirs);
  if (!directories) {
    log.error("no lanes", {{"why", directories.error().message()}});
    return kExitOptions;
  }
  Lanes lanes;
  if (auto opened = run_relay_open(lanes, options, *directories, signal_fd, log); !opened) {
    if (is_readable(signal_fd)) return kExitEnded;
    log.error("no lane", {{"why", opened.error().message()}});
    return exit_code_of(opened.error());
  }
  if (auto started = run_relay_start(lanes, options, log); !started) {
    log.error("cannot run", {{"why", started.error().message()}});
    run_relay_end(lanes, log);
    return started.error().code() == Errc::kInvalid || started.error().code() == Errc::kUnsupported ? kExitOptions
                                                                                                    : kExitCannotRun;
  }
  const int code = run_relay_watch(lanes, signal_fd, log);
  run_relay_end(lanes, log);
  return code;
}

int check_relay(const Options& options) {
  const auto directories = find_lanes(options.lane_dirs);
  if (!directories) {
    std::printf("lanes: %s\n", directories.error().message().c_str());
    return kExitOptions;
  }
  bool all_there = true;
  for (const std::string& directory : *directories) {
    struct stat status {};
    const bool there = ::stat((directory + "/handover.sock").c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
    all_there = all_there && there;
    std::printf("lane %s: %s\n", directory.c_str(), there ? "hand-over socket is there" : "no hand-over socket (yet)");
  }
  const auto allowed = allowed_cpus();
  std::string cpus;
  if (allowed) {
    for (const CpuId cpu : *allowed) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu.value);
  }
  std::printf("cpus: %s\n", allowed ? cpus.c_str() : allowed.error().message().c_str());
  const auto quota = cfs_quota(kCgroupRoot);
  std::printf("cpu quota: %s\n", quota ? quota->c_str() : "none");
  return all_there ? kExitEnded : kExitNoAnswer;
}

}  // namespace podlane::relay
