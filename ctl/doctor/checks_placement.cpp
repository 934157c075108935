// Family A: who may run on the lanes' CPUs.
#include <algorithm>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

constexpr const char* kStateFile = nodeconfig::kCpuManagerState;

Verdict no_lane_cpus() {
  return not_applicable("no CPU is set apart for lanes (--cpus names some)");
}

Verdict look_cpu_manager(const Sight& sight) {
  const auto& kubelet = sight.facts.kubelet;
  if (!kubelet.problems.empty() && kubelet.cpu_policy.empty()) return unknown(kubelet.problems.front());
  if (kubelet.cpu_policy.empty()) {
    return kubelet.running ? unknown(std::string("there is no ") + kStateFile)
                           : not_applicable("no kubelet runs here and it left no state");
  }
  const std::string is = std::string(kStateFile) + " says policy " + kubelet.cpu_policy;
  return kubelet.cpu_policy == "static" ? pass(is) : bad(is);
}

Verdict look_numa_of_lanes(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  if (sight.facts.numa_nodes.size() < 2) return not_applicable("this node has one NUMA node");
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.numa_node < 0) return unknown("the firmware does not say where " + nic.name + " sits");
    for (const auto& node : sight.facts.numa_nodes) {
      if (static_cast<int>(node.id) != nic.numa_node) continue;
      const CpuSet far = sight.lane_cpus - node.cpus;
      const std::string on = nic.name + " is on NUMA node " + std::to_string(nic.numa_node);
      if (far.empty()) return pass(on + ", and so are the lanes' CPUs " + sight.lane_cpus.list());
      return bad(on + ", the lanes' CPUs " + far.list() + " are not",
                 "topologyManagerPolicy: single-numa-node in the kubelet's configuration, then restart the pod; "
                 "`lstopo --of console` and `numactl --hardware` show who is where");
    }
    return unknown("there is no NUMA node " + std::to_string(nic.numa_node) + " for " + nic.name);
  });
}

Verdict look_siblings(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  const CpuSet others = (sight.facts.siblings_of(sight.lane_cpus) - sight.lane_cpus) & sight.facts.online;
  if (others.empty()) return pass("the lanes' CPUs " + sight.lane_cpus.list() + " are whole cores");
  const CpuSet shared = others & sight.facts.kubelet.shared;
  if (!shared.empty()) {
    return bad("CPUs " + shared.list() + " are the other halves of lanes' cores, and any pod may run there");
  }
  return warn("CPUs " + others.list() + " are the other halves of lanes' cores, and belong to no lane");
}

Verdict look_partition(const Sight& sight) {
  std::vector<Verdict> verdicts;
  for (const char* path :
       {"/sys/fs/cgroup/kubepods.slice/cpuset.cpus.partition", "/sys/fs/cgroup/kubepods/cpuset.cpus.partition",
        "/sys/fs/cgroup/podlane/cpuset.cpus.partition"}) {
    const auto text = sight.text(path);
    if (!text) {
      if (text.error().outcome == Outcome::kUnknown) verdicts.push_back(text.error());
      continue;
    }
    const std::string is = std::string(path) + " reads " + *text;
    if (text->find("invalid") != std::string::npos) verdicts.push_back(bad(is));
    else if (*text == "member" || *text == "root" || *text == "isolated") verdicts.push_back(pass(is));
    else verdicts.push_back(unknown(std::string(path) + " reads something that no kernel writes"));
  }
  return worst_of(std::move(verdicts), not_applicable("no cpuset partition on this node (cgroup v1, or none made)"));
}

Verdict look_isolated_shared(const Sight& sight) {
  const auto isolated = sight.list("/sys/devices/system/cpu/isolated");
  if (!isolated) return isolated.error();
  if (isolated->empty()) return not_applicable("no CPU was isolated at boot");
  if (sight.facts.kubelet.cpu_policy.empty()) return not_applicable("no kubelet hands out CPUs here");
  const CpuSet both = *isolated & sight.facts.kubelet.shared;
  if (both.empty()) return pass("no isolated CPU is in the kubelet's shared pool");
  return bad("CPUs " + both.list() + " are isolated at boot and in the kubelet's shared pool");
}

Verdict look_workqueues(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  const std::string path = "/sys/devices/virtual/workqueue/cpumask";
  const auto mask = sight.mask(path);
  if (!mask) return mask.error();
  const CpuSet both = *mask & sight.lane_cpus;
  if (both.empty()) return pass(path + " leaves the lanes' CPUs out");
  const CpuSet rest = sight.facts.online - sight.lane_cpus;
  return bad(path + " has the lanes' CPUs " + both.list(), "echo " + rest.mask() + " > " + path);
}

Verdict look_rt_throttle(const Sight& sight) {
  const std::string path = "/proc/sys/kernel/sched_rt_runtime_us";
  const auto value = sight.number(path);
  if (!value) return value.error();
  const std::string is = path + " is " + std::to_string(*value);
  if (*value == -1 || *value >= 1000000) return warn(is + ": a real-time thread that spins can starve the kernel");
  return pass(is + ": only harmful to a real-time thread that spins, and lanes have none");
}

Verdict look_reserved_cores(const Sight& sight) {
  const CpuSet reserved = sight.facts.kubelet.reserved() & sight.facts.online;
  if (reserved.empty()) return not_applicable("the kubelet reserves no CPUs");
  const CpuSet halves = (sight.facts.siblings_of(reserved) - reserved) & sight.facts.online;
  if (halves.empty()) return pass("reservedSystemCPUs " + reserved.list() + " are whole cores");
  return bad("reservedSystemCPUs " + reserved.list() + " leave out the other halves " + halves.list(),
             "reservedSystemCPUs: \"" + (reserved | halves).list() +
                 "\" in the kubelet's configuration; drain, remove cpu_manager_state, restart it");
}

Verdict look_state_file(const Sight& sight) {
  const auto& kubelet = sight.facts.kubelet;
  if (!kubelet.problems.empty()) {
    const bool contradiction = kubelet.problems.front().find("at once") != std::string::npos;
    return contradiction ? bad(kubelet.problems.front()) : unknown(kubelet.problems.front());
  }
  if (kubelet.cpu_policy.empty()) return not_applicable("the kubelet left no state here");
  const CpuSet named = kubelet.shared | kubelet.exclusive_cpus();
  const CpuSet gone = named - sight.facts.present;
  if (!gone.empty()) return bad(std::string(kStateFile) + " names CPUs " + gone.list() + ", which are not here");
  const auto configured = kubelet.configured.find("cpuManagerPolicy");
  if (configured != kubelet.configured.end() && configured->second.value != kubelet.cpu_policy) {
    return bad(std::string(kStateFile) + " says policy " + kubelet.cpu_policy + ", " + configured->second.source +
               " says " + configured->second.value);
  }
  return pass(std::string(kStateFile) + " agrees with the CPUs that are here and with the configuration");
}

Verdict look_system_slice(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  const std::string path = "/sys/fs/cgroup/system.slice/cpuset.cpus.effective";
  const auto cpus = sight.list(path);
  if (!cpus) return cpus.error();
  if (cpus->empty()) return unknown(path + " is empty");
  const CpuSet both = *cpus & sight.lane_cpus;
  if (both.empty()) return pass(path + " leaves the lanes' CPUs out");
  return bad("services of the node may run on the lanes' CPUs " + both.list(),
             "systemctl set-property system.slice AllowedCPUs=" + (sight.facts.online - sight.lane_cpus).list());
}

Verdict look_cpu0(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  if (!sight.lane_cpus.contains(0)) return pass("CPU 0 is no lane's");
  return bad("CPU 0 is one of the lanes' CPUs " + sight.lane_cpus.list());
}

Verdict look_smt(const Sight& sight) {
  const auto active = sight.number("/sys/devices/system/cpu/smt/active");
  if (!active) return active.error();
  if (*active == 0) return pass("one thread a core runs");
  if (!sight.has_mode("spinning")) return pass("two threads a core run, and no lane spins");
  return warn("two threads a core run while lanes spin: the other half of each such core has to stay idle");
}

constexpr Check kChecks[] = {
    {"A01", "kubelet hands out whole CPUs", Severity::kHigh, 4000, kStateFile, "policyName static",
     "With the policy none the kubelet gives no CPU to a single pod, so any pod may run beside the lane.",
     "cpuManagerPolicy: static in the kubelet's configuration; kubectl drain, systemctl stop kubelet, rm "
     "/var/lib/kubelet/cpu_manager_state, systemctl start kubelet",
     look_cpu_manager},
    {"A03", "lanes' CPUs are near the NIC", Severity::kHigh, 1, "/sys/bus/pci/devices/<bdf>/numa_node, node*/cpulist",
     "every lane's CPU on the NIC's NUMA node", "Each packet and each descriptor crosses the link between sockets.",
     "topologyManagerPolicy: single-numa-node in the kubelet's configuration; look with lstopo and numactl --hardware",
     look_numa_of_lanes},
    {"A04", "lanes own whole cores", Severity::kHigh, 2, "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
     "the other thread of each lane's core is in the same pod or unused (also V12)",
     "Two threads of one core share its execution units and caches, so a neighbour slows the lane down.",
     "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"} in the kubelet's configuration, or boot with nosmt",
     look_siblings},
    {"A07", "system services stay off lanes' CPUs", Severity::kMed, 50,
     "/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "no lane's CPU",
     "The kubelet keeps only pods off an exclusive CPU; services of the node may still run there.",
     "systemctl set-property system.slice AllowedCPUs=<housekeeping CPUs>", look_system_slice},
    {"A08", "cpuset partitions are valid", Severity::kHigh, 50, "/sys/fs/cgroup/*/cpuset.cpus.partition",
     "member, root or isolated; never invalid",
     "The kernel refused the isolation that somebody asked for, and CPUs are shared as before.",
     "cat the file: the words in brackets are the cause; often isolcpus= of the same CPUs in /proc/cmdline",
     look_partition},
    {"A09", "no pod on boot-isolated CPUs by accident", Severity::kHigh, 4000,
     "/sys/devices/system/cpu/isolated, cpu_manager_state", "isolated CPUs are not in defaultCpuSet",
     "Isolated CPUs have no load balancing, so ordinary pods pile up on one of them.",
     "reservedSystemCPUs with strict-cpu-reservation: \"true\", or boot without isolcpus=domain", look_isolated_shared},
    {"A11", "kernel work queues stay off lanes' CPUs", Severity::kMed, 20, "/sys/devices/virtual/workqueue/cpumask",
     "no lane's CPU", "Unbound work of the kernel may be run on any CPU of this mask.",
     "echo <mask> > /sys/devices/virtual/workqueue/cpumask (cpus.workqueues of the node profile)", look_workqueues},
    {"A12", "real-time throttle is on", Severity::kInfo, 0, "/proc/sys/kernel/sched_rt_runtime_us",
     "below the period while no thread spins in a real-time class",
     "Without the throttle a real-time thread that never sleeps takes its CPU from the kernel for good.",
     "sysctl kernel.sched_rt_runtime_us=950000; spin in the ordinary class: chrt -o -p 0 <tid>", look_rt_throttle},
    {"A13", "reserved CPUs are whole cores", Severity::kMed, 2, "reservedSystemCPUs, thread_siblings_list",
     "no core is half reserved", "Housekeeping and a lane would share one core.",
     "reservedSystemCPUs with every thread of its cores", look_reserved_cores},
    {"A14", "kubelet's CPU state is consistent", Severity::kCrit, 0, kStateFile,
     "agrees with the CPUs here and with the configuration",
     "The kubelet does not start, or gives CPUs out twice, while its state contradicts the node.",
     "kubectl drain <node>; systemctl stop kubelet; rm /var/lib/kubelet/cpu_manager_state; systemctl start kubelet",
     look_state_file},
    {"V15", "no lane on CPU 0", Severity::kMed, 10, "lanes' CPUs", "CPU 0 is left to the node",
     "The kernel's own timers, interrupts without affinity and boot-time work end up on CPU 0.",
     "reservedSystemCPUs with CPU 0 in it; taskset -cp <cpu> <pid> for one process", look_cpu0},
    {"V19", "what SMT means for spinning lanes", Severity::kInfo, 0, "/sys/devices/system/cpu/smt/active",
     "one thread a core, or no spinning lane",
     "A thread that spins takes half of what its core can do from the other thread.",
     "full-pcpus-only in the kubelet's configuration, or boot with nosmt", look_smt},
};

}  // namespace

std::span<const Check> placement_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
