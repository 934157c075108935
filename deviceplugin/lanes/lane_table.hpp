// LaneTable: the device plugin's one owner of lane state. Kubelet's calls, the control socket and the hand-over sockets
// all come here. See lane_table.cpp, "How it works", for the states of a lane and who may do what in each.
//
// Threads: every public function may be called from any thread; each runs on the table's event thread (or a worker that
// it owns, for what blocks) and the caller waits. No lock is held over a system call that can block.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/result.hpp"
#include "lib/lane/lane_types.hpp"
#include "deviceplugin/inventory/config.hpp"

namespace podlane::dp {

// What the kubelet's pod-resources service says of one pod's container. Plain values: no gRPC below kubelet/.
struct PodDevices {
  std::string name_space;
  std::string pod;
  std::string container;
  std::string pool;  // Resource name without "podlane.io/". Empty, without ids: a container that holds none.
  std::vector<std::string> device_ids;
};
// All containers of the pods of this node now, with the devices under podlane.io/ that they hold. Called from a worker thread; may block up to 2 s.
using PodResourcesQuery = std::function<Result<std::vector<PodDevices>>()>;

struct DeviceState {
  std::string id;  // "feed-3"
  bool healthy = true;
  std::string why;  // When not healthy.
};

struct AllocateAnswer {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string host_path;       // Directory to mount …
  std::string container_path;  // … here: /run/podlane/lanes/<pool>; both empty for an onload pool.
  std::vector<std::string> device_nodes;  // To be there, under the same path, for reading and writing.
  std::vector<std::string> files;         // To be mounted read-only, under the same path.
  std::string note;                       // For the log: what is in force.
};

struct LaneReport {  // One row of lanes.json and of the metrics.
  std::string pool, device, state, kind, netdev, pod_namespace, pod, container, path, mode, ifname;
  std::uint32_t queue = 0, slot = 0;
  std::vector<std::string> addresses;
  bool zero_copy = false, native_xdp = false, busy_poll = false;
  std::vector<std::pair<std::string, std::uint64_t>> kernel_counters;  // bpf::kLaneCounterNames
  std::vector<std::pair<std::string, std::uint64_t>> owner_counters;   // What the owner's session last reported.
};

struct TableCounters {  // For /metrics; all since start.
  std::uint64_t handovers_total = 0;
  std::vector<std::pair<std::string, std::uint64_t>> handover_refusals_total;  // By code.
  std::uint64_t attaches_total = 0, detaches_total = 0, reconciled_total = 0;
};

struct LaneTableOptions {
  std::string run_dir = "/run/podlane";
  std::string state_dir = "/var/lib/podlane";
  std::string bpffs_dir = "/sys/fs/bpf/podlane";
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  std::string host_root;  // Where the host's /dev and /usr are seen, for pools of kind onload. Empty: /.
  std::chrono::milliseconds reconcile_every{30000};
  std::chrono::milliseconds nic_look_every{1000};       // NICs that go, come back or change.
  std::chrono::milliseconds reserved_timeout{600000};  // A reserved device that no pod is listed with becomes free.
};

class LaneTable {
 public:
  // Adopts what an earlier life left (journal, pins, sockets), attaches the NIC programs of the pools, reconciles, and
  // serves control.sock and every hand-over socket. Fails with words on a foreign XDP program, a bad NIC, ….
  static Result<std::unique_ptr<LaneTable>> start(const Config& config, const LaneTableOptions& options,
                                                  PodResourcesQuery pod_resources, Log& log);
  virtual ~LaneTable() = default;  // Stops serving. Lanes live on.

  virtual std::vector<DeviceState> devices(const std::string& pool) = 0;
  // Called on the event thread whenever a device's health changes. Set once, before the kubelet is told of the pools.
  virtual void on_health_change(std::function<void(const std::string& pool)> callback) = 0;
  virtual Result<AllocateAnswer> allocate(const std::string& pool, const std::vector<std::string>& device_ids) = 0;
  virtual Result<std::vector<std::string>> prefer(const std::string& pool, const std::vector<std::string>& available,
                                                  const std::vector<std::string>& must_include, std::size_t count) = 0;
  virtual Result<void> pre_start(const std::string& pool, const std::vector<std::string>& device_ids) = 0;

  virtual std::vector<LaneReport> report() = 0;
  virtual TableCounters counters() = 0;
};

}  // namespace podlane::dp
