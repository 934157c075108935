#include "relay/cpus.hpp"

#include <sched.h>

#include <algorithm>

#include "lib/base/file.hpp"

namespace podlane::relay {

Result<CpuPlan> plan_cpus(const std::vector<CpuId>& allowed, const std::vector<CpuId>& wanted,
                          const std::vector<bool>& spinning) {
  CpuPlan plan;
  std::vector<CpuId> left = allowed;
  for (const CpuId cpu : wanted) {
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
      return fail(Errc::kInvalid, "CPU " + std::to_string(cpu.value) + " is not one of the " +
                                      std::to_string(allowed.size()) + " that this container may use");
    }
    std::erase(left, cpu);
  }
  for (std::size_t i = 0; i < spinning.size(); ++i) {
    std::optional<CpuId> cpu;
    if (i < wanted.size()) {
      cpu = wanted[i];
    } else if (spinning[i]) {
      if (left.empty()) {
        return fail(Errc::kInvalid, std::to_string(spinning.size()) + " lanes on " + std::to_string(allowed.size()) +
                                        " CPUs: each spinning lane needs one of its own");
      }
      cpu = left.back();
      left.pop_back();
    }
    plan.workers.push_back(cpu);
  }
  if (!left.empty() && left.size() < allowed.size()) plan.control = left.front();
  return plan;
}

Result<std::vector<CpuId>> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return fail_errno("sched_getaffinity");
  std::vector<CpuId> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(CpuId(cpu));
  }
  return cpus;
}

Result<void> pin_this_thread(CpuId cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu.value, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) {
    return fail_errno("sched_setaffinity", "CPU " + std::to_string(cpu.value));
  }
  return {};
}

std::optional<std::string> cfs_quota(const std::string& cgroup_root) {
  // cpu.max of cgroup v2: "max 100000" or "50000 100000" (Documentation/admin-guide/cgroup-v2.rst).
  const auto text = read_file(cgroup_root + "/cpu.max", 256);
  if (!text || text->starts_with("max")) return std::nullopt;
  const std::size_t blank = text->find(' ');
  if (blank == std::string::npos) return std::nullopt;
  std::string period = text->substr(blank + 1);
  period.erase(period.find_last_not_of(" \n") + 1);
  return text->substr(0, blank) + " of " + period + " us";
}

}  // namespace podlane::relay
