// How it works
//
// Goal: the kubelet's devices become pods' lanes and come back as devices, whatever dies in between, and no frame of a
// live lane is lost on the way.
//
// States of a lane, see lane_state.hpp: free -> reserved (Allocate) -> attached (ADD begins) -> ready (ADD committed),
// and back. Who may do what:
//   free       Allocate takes it. Nothing exists.
//   reserved   Allocate may take it again; ADD attaches it; the reconcile frees it when no pod is listed with it. The
//              hand-over socket listens and answers not-attached.
//   attached   The owner is journaled, the host side is being built. Only its attachment may commit; DEL, a newer ADD
//   of
//              the device or the reconcile undo it.
//   ready      The hand-over gives sockets, one live session at a time. Undone as above.
//
// Threads: the state thread owns LaneStore, the steering thread owns bpf::Steering. Everything that may block runs on
// its caller's thread (the kubelet's calls), on a worker (control requests), or on the housekeeping thread (timers),
// and goes to the owners for each step. A thread of low priority writes lanes.json. DeviceClaims keeps two operations
// from interleaving on one device. Allocate of a free device takes no claim: reserve() on the state thread is one step.
//
// A crash may come between any two steps. Each is journaled before the kernel is changed, every undo step tolerates
// that its object was never made, and start() goes over all records before it serves anybody.
#include "deviceplugin/lanes/lane_table.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "deviceplugin/lanes/lanes_json.hpp"
#include "deviceplugin/lanes/table.hpp"
#include "lib/base/file.hpp"
#include "lib/journal/journal.hpp"

namespace podlane::dp {

namespace {

// ADDs that wait for the kubelet's listing hold a worker each, so there are more of them than CPUs.
constexpr std::size_t kWorkers = 32;
constexpr std::size_t kWaitingRequests = 1024;
// A burst of changes costs one file, not one each; and however long the file, its writer has 2 % of a CPU and leaves
// the rest to what the kubelet waits for.
constexpr auto kJsonPause = std::chrono::milliseconds(20);
constexpr auto kJsonPauseMost = std::chrono::milliseconds(250);
constexpr int kJsonPauses = 49;
constexpr int kScribeNice = 10;

}  // namespace

Result<std::unique_ptr<LaneTable>> LaneTable::start(const Config& config, const LaneTableOptions& options,
                                                    PodResourcesQuery pod_resources, Log& log) {
  PODLANE_TRY_ASSIGN(const std::vector<DeviceSpec> devices, list_devices(config));
  utsname kernel_name{};
  if (::uname(&kernel_name) != 0) return fail_errno("uname");
  PODLANE_TRY(check_kernel(config, kernel_name.release));
  PODLANE_TRY(make_directories(options.run_dir));
  const std::string lanes_directory = options.run_dir + "/lanes";
  PODLANE_TRY(make_directories(lanes_directory));
  // Directories in it are named by chance and protect by that: not to be listed by others.
  if (::chmod(lanes_directory.c_str(), 0711) != 0) return fail_errno("chmod", lanes_directory);
  PODLANE_TRY_ASSIGN(std::string boot_id, journal::read_boot_id());
  PODLANE_TRY_ASSIGN(LaneJournal journal, LaneJournal::open(options.run_dir + "/lanes-journal", boot_id));
  PODLANE_TRY_ASSIGN(bpf::Steering steering, bpf::Steering::open(options.bpffs_dir));
  auto table = std::make_unique<Table>(config, devices, std::move(journal), std::move(steering), options, boot_id,
                                       kernel_hands_over_finished(kernel_name.release), std::move(pod_resources), log);
  PODLANE_TRY(table->run());
  return table;
}

Table::Table(const Config& config, const std::vector<DeviceSpec>& devices, LaneJournal journal, bpf::Steering steering,
             LaneTableOptions options, std::string boot_id, bool kernel_is_finished, PodResourcesQuery pod_resources,
             Log& log)
    : options_(std::move(options)),
      boot_id_(std::move(boot_id)),
      kernel_is_finished_(kernel_is_finished),
      log_(log),
      pod_resources_(std::move(pod_resources)),
      attachments_(options_.run_dir, options_.state_dir),
      onload_reader_({.sysfs = options_.sysfs_root, .proc = options_.proc_root, .host = options_.host_root}),
      store_(config, devices, std::move(journal)),
      steering_(std::move(steering)) {}

Result<void> Table::run() {
  PODLANE_TRY(in_state([&](LaneStore&) { return adopt(); }));
  PODLANE_TRY_ASSIGN(neighbors_, Neighbors::start([this](IfIndex nic, const lane::Neighbor& neighbor) {
                       neighbor_changed(nic, neighbor);
                     }));
  PODLANE_TRY_ASSIGN(handover_, HandoverServer::start(*this, log_));
  // With 500 lanes a file costs milliseconds of CPU; a kubelet's call that wakes up meanwhile goes first.
  scribe_thread_.post([] { (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kScribeNice); });
  workers_ = std::make_unique<BlockingWorkers>("lane-worker", kWorkers, kWaitingRequests);
  PODLANE_TRY(look_at_nics(true));
  look_at_onload();
  std::vector<LaneRecord> adopted;
  in_state([&](LaneStore& store) {
    for (const auto& [device, lane] : store.lanes()) {
      if (lane.record.state != LaneState::kFree) adopted.push_back(lane.record);
    }
  });
  for (const LaneRecord& record : adopted) adopt_lane(record);
  sweep();
  in_state([&](LaneStore&) { lanes_changed(); });
  PODLANE_TRY_ASSIGN(control_,
                     ControlServer::start(options_.run_dir + "/control.sock", *workers_,
                                          [this](const lane::ControlRequest& request, std::vector<UniqueFd> fds,
                                                 const ControlServer::IsAbandoned& is_abandoned) {
                                            return handle_control(request, std::move(fds), is_abandoned);
                                          }));
  housekeeping_thread_ = std::thread([this] { housekeeping(); });
  return {};
}

Table::~Table() {
  control_.reset();
  if (housekeeping_thread_.joinable()) {
    {
      const std::lock_guard lock(housekeeping_mutex_);
      stopping_ = true;
      housekeeping_wake_.notify_all();
    }
    housekeeping_thread_.join();
  }
  // From here on the state thread calls nobody. Then those that call it go: first the workers, whose last requests
  // still need the hand-over server.
  in_state([&](LaneStore&) { ending_ = true; });
  workers_.reset();
  handover_.reset();
  neighbors_.reset();
}

std::vector<DeviceState> Table::devices(const std::string& pool) {
  return in_state([&](LaneStore& store) {
    std::vector<DeviceState> states;
    for (const auto& [device, lane] : store.lanes()) {
      if (lane.pool == nullptr || lane.spec.pool != pool) continue;
      std::string why = store.why_unhealthy(lane);
      states.push_back({.id = device, .healthy = why.empty(), .why = std::move(why)});
    }
    std::sort(states.begin(), states.end(), [](const DeviceState& a, const DeviceState& b) {
      return a.id.size() != b.id.size() ? a.id.size() < b.id.size() : a.id < b.id;
    });
    return states;
  });
}

void Table::on_health_change(std::function<void(const std::string& pool)> callback) {
  in_state([&](LaneStore&) { health_callback_ = std::move(callback); });
}

LaneReport Table::report_of(const Lane& lane) const {
  const LaneRecord& record = lane.record;
  const bool is_serving = record.state == LaneState::kReady && lane.session;
  LaneReport report{.pool = lane.spec.pool,
                    .device = lane.spec.id,
                    .state = is_serving ? "serving" : std::string(to_string(record.state)),
                    .kind = std::string(lane::to_string(lane.spec.kind)),
                    .netdev = lane.spec.netdev,
                    .queue = lane.spec.queue.value,
                    .slot = record.slot.value,
                    .zero_copy = record.in_force.zero_copy,
                    .native_xdp = record.in_force.native_xdp,
                    .busy_poll = record.in_force.busy_poll,
                    .owner_counters = lane.owner_counters};
  if (lane.spec.kind == lane::Kind::kOnload) {
    report.netdev = lane.pool == nullptr ? std::string() : lane.pool->interface;
    report.mode = lane.pool == nullptr ? std::string() : std::string(lane::to_string(lane.pool->default_mode));
    report.pod_namespace = lane.listed_pod.name_space;
    report.pod = lane.listed_pod.name;
    report.container = lane.listed_container;
  }
  if (!lane.is_bound()) return report;
  report.pod_namespace = record.owner.pod.name_space;
  report.pod = record.owner.pod.name;
  report.container = record.owner.container;
  if (record.owner.path) report.path = std::string(lane::to_string(*record.owner.path));
  report.mode = std::string(lane::to_string(record.owner.mode));
  report.ifname = record.tun.name;
  report.addresses = record.tun.addresses;
  return report;
}

std::vector<LaneReport> Table::report() {
  std::vector<LaneReport> reports;
  in_state([&](LaneStore& store) {
    for (const auto& [device, lane] : store.lanes()) reports.push_back(report_of(lane));
  });
  steer([&](bpf::Steering& steering) {
    for (LaneReport& lane : reports) {
      if (lane.state == "free" || lane.kind == "tun" || lane.kind == "onload") continue;
      const auto values = steering.counters(LaneSlot(lane.slot));
      if (!values) continue;  // A report without them is better than none.
      for (std::size_t at = 0; at < values->size(); ++at) {
        lane.kernel_counters.emplace_back(bpf::kLaneCounterNames[at], (*values)[at]);
      }
    }
  });
  return reports;
}

TableCounters Table::counters() {
  return in_state([&](LaneStore&) { return counters_; });
}

// Many changes make one file: while a writer runs, changes only mark it stale.
void Table::lanes_changed() {
  json_dirty_ = true;
  if (json_running_ || ending_) return;
  json_running_ = true;
  scribe_thread_.post([this] { write_lanes_json(); });
}

void Table::write_lanes_json() {
  for (;;) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<LaneReport> reports;
    const bool is_stale = in_state([&](LaneStore& store) {
      json_running_ = json_dirty_;
      json_dirty_ = false;
      if (!json_running_) return false;
      for (const auto& [device, lane] : store.lanes()) {
        if (lane.record.state != LaneState::kFree) reports.push_back(report_of(lane));
      }
      return true;
    });
    if (!is_stale) return;
    const auto written =
        write_file_atomic(options_.run_dir + "/lanes.json", encode_lanes_json(reports), Durability::kMemory, 0644);
    if (!written) log_.error("lanes.json is not written", {{"why", written.error().message()}});
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(
        (std::chrono::steady_clock::now() - start) * kJsonPauses, kJsonPause, kJsonPauseMost));
  }
}

}  // namespace podlane::dp
