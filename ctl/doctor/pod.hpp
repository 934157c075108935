// Pod: the processes of one pod that has lanes, found by the CNI plugin's record of it: the sandbox's id or the pod's
// uid stands in the cgroup path of each of its processes (containerd and CRI-O, systemd and cgroupfs driver). Where
// there is no record, the network namespace decides: it holds the lane's address. Reads only; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/doctor/lanes_file.hpp"
#include "lib/base/result.hpp"
#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/tree.hpp"

namespace podlane::doctor {

struct PodProcess {
  unsigned pid = 0;
  std::string name, cgroup;
  nodeconfig::CpuSet allowed;
  std::uint64_t involuntary = 0, swap_kib = 0;
  std::optional<std::uint64_t> involuntary_later;  // After the probe.
  std::string memory_lock;                         // "unlimited", a number of bytes, or "" when it is not known.
};

struct Throttle {
  std::string path, quota;  // "max", "50000 of 100000 us"
  std::uint64_t times = 0, us = 0;
  std::optional<std::uint64_t> times_later;
};

struct LaneDrops {
  std::string ifname;
  std::uint64_t received_dropped = 0, sent_dropped = 0;
};

struct Pod {
  std::string name_space, name, uid;
  std::vector<PodProcess> processes;
  std::vector<Throttle> throttles;  // One a cgroup.
  std::vector<LaneDrops> drops;
  nodeconfig::CpuSet cpus;       // That its processes may run on.
  nodeconfig::CpuSet effective;  // That its cpusets allow; empty: not known.
};

// "trading/md-0", or "md-0" when one namespace alone has such a pod. kNotFound: a sentence with the pods that have
// lanes.
Result<Pod> find_pod(const nodeconfig::Tree& tree, const std::vector<Lane>& lanes, const std::string& wanted);

// The counters once more, after the probe.
void look_again(const nodeconfig::Tree& tree, Pod& pod);

// Pieces of /proc and cgroups, for tests: any bytes may stand in them.
std::string cgroup_of(std::string_view proc_cgroup, bool& v2);
Throttle parse_cpu_stat(std::string_view text);

}  // namespace podlane::doctor
