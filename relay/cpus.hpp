// CPUs of this process: which are allowed, which thread gets which, and whether a quota would throttle a spinning one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"

namespace podlane::relay {

struct CpuPlan {
  std::vector<std::optional<CpuId>> workers;  // By lane; empty: where the scheduler puts it.
  std::optional<CpuId> control;
};

// Spinning lanes get a CPU of their own, the last allowed ones first (interrupts of a node tend to be on the first); the
// control thread gets one that is left, if there is one. Lanes that sleep are left to the scheduler, because in a pod
// without exclusive CPUs all of them would choose the same. `wanted` overrules, lane by lane.
// kInvalid when a wanted CPU is not allowed, or more lanes spin than CPUs are there.
Result<CpuPlan> plan_cpus(const std::vector<CpuId>& allowed, const std::vector<CpuId>& wanted,
                          const std::vector<bool>& spinning);

Result<std::vector<CpuId>> allowed_cpus();
Result<void> pin_this_thread(CpuId cpu);

// A CFS quota on this cgroup, in words ("50000 of 100000 us"); empty: none, or not to be seen. cgroup_root:
// "/sys/fs/cgroup" as a container sees its own cgroup.
std::optional<std::string> cfs_quota(const std::string& cgroup_root);

}  // namespace podlane::relay
