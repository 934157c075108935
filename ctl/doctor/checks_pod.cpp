// Family G: the pod that was asked about (--pod), and what the kernel does to its processes.
#include <algorithm>

#include "ctl/doctor/pod.hpp"
#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

// Judges the pod's processes; without a pod or processes there is nothing to judge.
template <typename Judge>
Verdict of_each_process(const Sight& sight, Judge judge) {
  if (sight.pod == nullptr) return not_applicable("no pod was asked about (--pod)");
  std::vector<Verdict> verdicts;
  for (const PodProcess& process : sight.pod->processes) verdicts.push_back(judge(process));
  return worst_of(std::move(verdicts), unknown("no process of the pod was found in /proc"));
}

std::string named(const PodProcess& process) {
  return process.name + " (" + std::to_string(process.pid) + ")";
}

bool pod_spins(const Sight& sight) {
  return std::any_of(sight.lanes.begin(), sight.lanes.end(), [&](const Lane& lane) {
    return lane.pod == sight.pod->name && lane.name_space == sight.pod->name_space && lane.mode == "spinning";
  });
}

Verdict look_exclusive(const Sight& sight) {
  if (sight.pod == nullptr) return not_applicable("no pod was asked about (--pod)");
  const Pod& pod = *sight.pod;
  if (pod.processes.empty()) return unknown("no process of the pod was found in /proc");
  CpuSet owned;
  for (const auto& entry : sight.facts.kubelet.exclusive) {
    if (!pod.uid.empty() && entry.pod_uid == pod.uid) owned = owned | entry.cpus;
  }
  if (!owned.empty()) return pass("the pod owns CPUs " + owned.list());
  return bad("the pod owns no CPU; its processes may run on " + pod.cpus.list());
}

Verdict look_affinity(const Sight& sight) {
  return of_each_process(sight, [&](const PodProcess& process) {
    if (process.allowed.empty() || sight.pod->effective.empty()) {
      return unknown("the CPUs of " + named(process) + " or of its cgroup cannot be read");
    }
    const std::string is = named(process) + " may run on CPUs " + process.allowed.list();
    if (process.allowed == sight.pod->effective || pod_spins(sight)) return pass(is);
    return bad(is + ", its cgroup allows " + sight.pod->effective.list(),
               "taskset -cp " + sight.pod->effective.list() + " " + std::to_string(process.pid) +
                   "; newer runc, or no CPUAffinity= in the runtime's unit");
  });
}

Verdict look_memory_lock(const Sight& sight) {
  return of_each_process(sight, [](const PodProcess& process) {
    const std::string is = named(process) + " may lock " + process.memory_lock + " bytes";
    if (process.memory_lock == "unlimited") return pass(is);
    const auto limit = to_integer(process.memory_lock);
    if (!limit) return unknown("the limit of locked memory of " + named(process) + " cannot be read");
    // The device plugin registers the memory of AF_XDP; 8 MiB is what a lane of 4096 frames has.
    return *limit >= 8 << 20 ? pass(is) : warn(is);
  });
}

Verdict look_swapped(const Sight& sight) {
  return of_each_process(sight, [](const PodProcess& process) {
    const std::string is = std::to_string(process.swap_kib) + " KiB of " + named(process) + " are on disk";
    return process.swap_kib == 0 ? pass(is) : bad(is);
  });
}

Verdict look_throttling(const Sight& sight) {
  if (sight.pod == nullptr) return not_applicable("no pod was asked about (--pod)");
  std::vector<Verdict> verdicts;
  for (const Throttle& throttle : sight.pod->throttles) {
    const std::string is = throttle.path + ": throttled " + std::to_string(throttle.times) + " times, " +
                           std::to_string(throttle.us) + " us in all; quota " +
                           (throttle.quota.empty() ? "not known" : throttle.quota);
    if (throttle.times == 0) verdicts.push_back(pass(is));
    else
      verdicts.push_back(
          bad(is).with_effect(static_cast<double>(throttle.us) / static_cast<double>(throttle.times), true));
  }
  return worst_of(std::move(verdicts), unknown("no cpu.stat of the pod was found"));
}

Verdict look_quota(const Sight& sight) {
  if (sight.pod == nullptr) return not_applicable("no pod was asked about (--pod)");
  std::vector<Verdict> verdicts;
  for (const Throttle& throttle : sight.pod->throttles) {
    if (throttle.quota.empty()) verdicts.push_back(unknown("the quota of " + throttle.path + " cannot be read"));
    else if (throttle.quota == "max") verdicts.push_back(pass("no quota"));
    else verdicts.push_back(pod_spins(sight) ? bad("quota " + throttle.quota) : warn("quota " + throttle.quota));
  }
  return worst_of(std::move(verdicts), unknown("no cpu.stat of the pod was found"));
}

Verdict look_qos(const Sight& sight) {
  return of_each_process(sight, [](const PodProcess& process) {
    if (process.cgroup.find("kubepods") == std::string::npos) {
      return unknown("the cgroup of " + named(process) + " is not the kubelet's");
    }
    for (const char* word : {"burstable", "besteffort"}) {
      if (process.cgroup.find(word) != std::string::npos) return bad(std::string("the pod is ") + word);
    }
    return pass("the pod is Guaranteed");
  });
}

Verdict look_involuntary(const Sight& sight) {
  if (sight.pod != nullptr && sight.probe == nullptr)
    return unknown("nothing was measured: it needs two looks, without --no-probe");
  return of_each_process(sight, [&](const PodProcess& process) {
    if (!process.involuntary_later || *process.involuntary_later < process.involuntary || sight.probe->seconds <= 0) {
      return unknown(named(process) + " was gone at the second look");
    }
    const double rate = static_cast<double>(*process.involuntary_later - process.involuntary) / sight.probe->seconds;
    const std::string is = named(process) + " was put aside " + shown(rate) + " times a second";
    return rate < 5 ? pass(is) : bad(is);
  });
}

Verdict look_busy(const Sight& sight) {
  if (sight.pod != nullptr && sight.probe == nullptr)
    return unknown("nothing was measured: it needs two looks, without --no-probe");
  return of_each_process(sight, [&](const PodProcess& process) {
    const auto before = sight.probe->before.tasks.find(process.pid), after = sight.probe->after.tasks.find(process.pid);
    if (before == sight.probe->before.tasks.end() || after == sight.probe->after.tasks.end() ||
        after->second.ticks < before->second.ticks || sight.probe->seconds <= 0) {
      return unknown(named(process) + " was not there at both looks");
    }
    const double cores = static_cast<double>(after->second.ticks - before->second.ticks) / 100 / sight.probe->seconds;
    const std::string is = named(process) + " used " + shown(cores) + " CPUs";
    const auto own = static_cast<double>(process.allowed.count());
    if (!pod_spins(sight) && cores > 0.95) return warn(is + ", and none of the pod's lanes spins");
    if (cores > own + 0.05) return bad(is + " of the " + shown(own) + " it may use");
    return pass(is);
  });
}

Verdict look_lane_drops(const Sight& sight) {
  if (sight.pod == nullptr) return not_applicable("no pod was asked about (--pod)");
  std::vector<Verdict> verdicts;
  for (const LaneDrops& drops : sight.pod->drops) {
    const std::string is = drops.ifname + " dropped " + std::to_string(drops.received_dropped) +
                           " packets received and " + std::to_string(drops.sent_dropped) + " to be sent";
    verdicts.push_back(drops.received_dropped + drops.sent_dropped == 0 ? pass(is) : bad(is));
  }
  return worst_of(std::move(verdicts), unknown("no interface of the pod's lanes was seen in its /proc/<pid>/net/dev"));
}

Verdict look_others(const Sight& sight) {
  if (sight.lane_cpus.empty()) return not_applicable("no CPU is set apart for lanes (--cpus names some)");
  if (sight.probe == nullptr) return unknown("nothing was measured: it needs two looks, without --no-probe");
  std::string found;
  for (const auto& [pid, after] : sight.probe->after.tasks) {
    const auto before = sight.probe->before.tasks.find(pid);
    if (before == sight.probe->before.tasks.end() || after.ticks <= before->second.ticks || after.of_kernel) continue;
    if (!sight.lane_cpus.contains(after.cpu) || after.name == "podlanectl") continue;
    const bool own =
        sight.pod != nullptr && std::any_of(sight.pod->processes.begin(), sight.pod->processes.end(),
                                            [&, id = pid](const PodProcess& one) { return one.pid == id; });
    if (own) continue;
    found +=
        (found.empty() ? "" : ", ") + after.name + " (" + std::to_string(pid) + ") on CPU " + std::to_string(after.cpu);
  }
  if (found.empty()) return pass("nobody else was seen on the lanes' CPUs");
  return sight.pod != nullptr ? bad(found + " also ran there") : warn(found + " ran there, whoever owns it");
}

constexpr Check kChecks[] = {
    {"A02", "the pod owns CPUs", Severity::kHigh, 4000, "cpu_manager_state, Cpus_allowed_list",
     "CPUs of its own (also V11)",
     "A pod that asks for a fraction of a CPU, or whose requests and limits differ, shares its CPUs.",
     "requests.cpu = limits.cpu = a whole number, memory likewise, in every container", look_exclusive},
    {"A06", "nobody else on lanes' CPUs", Severity::kHigh, 100, "probe: /proc/<pid>/stat twice", "no other task",
     "While somebody else runs on the CPU, the lane's thread waits.",
     "systemctl set-property system.slice AllowedCPUs=<housekeeping>; taskset -cp <housekeeping> <pid>", look_others},
    {"A16", "the pod's processes may use all their CPUs", Severity::kHigh, 4000,
     "Cpus_allowed_list, cpuset.cpus.effective", "equal",
     "The runtime was started on few CPUs, and the pod inherited that instead of its own.",
     "taskset -cp <CPUs> <pid>; newer runc, or no CPUAffinity= in the runtime's unit", look_affinity},
    {"E05", "locked memory", Severity::kMed, 0, "/proc/<pid>/limits", "unlimited, or 8 MiB and more",
     "A program that locks its memory, as low-latency programs do, is refused.",
     "LimitMEMLOCK=infinity in a drop-in of the runtime's unit; systemctl restart it on a drained node",
     look_memory_lock},
    {"E15", "nothing of the pod is swapped", Severity::kHigh, 5000, "/proc/<pid>/status: VmSwap", "0",
     "The next touch of such a page waits for the disk.",
     "swapoff -a, while memory suffices; mlockall() in the program", look_swapped},
    {"F11", "the lane's interface drops nothing", Severity::kHigh, 200, "/proc/<pid>/net/dev", "0 (also F10)",
     "Nobody read quickly enough, and packets were lost.",
     "a CPU of its own for the relay; ip link set <lane> txqueuelen 2000 against bursts alone", look_lane_drops},
    {"G01", "no CPU throttling", Severity::kCrit, 50000, "cpu.stat of the pod's cgroups", "nr_throttled 0",
     "The kernel stops the pod for the rest of each period once its CPU limit is used up, though the core is its own.",
     "Kubernetes 1.33 and later with DisableCPUQuotaWithExclusiveCPUs, or cpuCFSQuota: false in the kubelet's "
     "configuration",
     look_throttling},
    {"G02", "the pod is Guaranteed", Severity::kHigh, 4000, "/proc/<pid>/cgroup", "neither burstable nor besteffort",
     "Only Guaranteed pods can own CPUs.", "requests = limits for CPU and memory in all containers", look_qos},
    {"G04", "the pod's threads are not put aside", Severity::kHigh, 100, "probe: nonvoluntary_ctxt_switches twice",
     "below 5 a second (also V26)", "Something else took the CPU while the program wanted to run.",
     "A06 says who; taskset -cp <other CPUs> <pid> moves them", look_involuntary},
    {"V13", "no CPU quota", Severity::kMed, 50000, "cpu.max or cpu.cfs_quota_us", "max",
     "A quota can stop a thread that spins although it owns its CPU.",
     "cpuCFSQuota: false in the kubelet's configuration, or DisableCPUQuotaWithExclusiveCPUs", look_quota},
    {"V27", "the pod uses as much CPU as its mode says", Severity::kMed, 0, "probe: /proc/<pid>/stat twice",
     "a core when it spins, little when it waits", "Something spins in a pod whose lanes wait for interrupts.",
     "podlane.io/mode: spinning with a core more, or stop what spins; top -H -p <pid> names the thread", look_busy},
};

}  // namespace

std::span<const Check> pod_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
