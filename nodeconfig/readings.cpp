#include "nodeconfig/readings.hpp"

#include <array>
#include <string_view>

namespace podlane::nodeconfig {

namespace {

// What the '%' of a path stands for.
enum class Each { kOnce, kNic, kPci, kCpu, kPolicy, kIrq, kRxQueue, kTxQueue, kNumaNode };

struct Row {
  std::string_view path;
  Each each = Each::kOnce;
  bool only_looked_for = false;
};

constexpr std::string_view kCpu = "/sys/devices/system/cpu/cpu%/";

constexpr std::array kRows = {
    // Processors and kernel.
    Row{"/proc/sys/kernel/osrelease"},
    Row{"/proc/sys/kernel/version"},
    Row{"/proc/cpuinfo"},
    Row{"/proc/stat"},
    Row{"/proc/mounts"},
    Row{"/proc/swaps"},
    Row{"/proc/loadavg"},
    Row{"/proc/net/softnet_stat"},
    Row{"/proc/net/protocols"},
    Row{"/sys/devices/system/cpu/isolated"},
    Row{"/sys/devices/system/cpu/nohz_full"},
    Row{"/sys/devices/system/cpu/smt/active"},
    Row{"/sys/devices/system/cpu/intel_pstate/status"},
    Row{"/sys/devices/system/cpu/intel_pstate/no_turbo"},
    Row{"/sys/devices/system/cpu/cpufreq/boost"},
    Row{"/sys/devices/system/clocksource/clocksource0/current_clocksource"},
    Row{"/sys/devices/system/clocksource/clocksource0/available_clocksource"},
    Row{"/sys/devices/virtual/workqueue/cpumask"},
    Row{"/sys/module/pcie_aspm/parameters/policy"},
    Row{"/sys/kernel/security/lockdown"},
    Row{"/sys/kernel/tracing/current_tracer"},
    Row{"/sys/kernel/realtime"},
    Row{"/sys/fs/cgroup/cpuset.cpus.isolated"},
    Row{"/sys/fs/cgroup/kubepods.slice/cpuset.cpus.partition"},
    Row{"/sys/fs/cgroup/kubepods/cpuset.cpus.partition"},
    Row{"/sys/fs/cgroup/podlane/cpuset.cpus.partition"},
    Row{"/sys/fs/cgroup/system.slice/cpuset.cpus.effective"},
    Row{"/proc/sys/kernel/numa_balancing"},
    Row{"/proc/sys/kernel/nmi_watchdog"},
    Row{"/proc/sys/kernel/watchdog_cpumask"},
    Row{"/proc/sys/kernel/sched_rt_runtime_us"},
    Row{"/proc/sys/kernel/bpf_stats_enabled"},
    Row{"/proc/sys/kernel/unprivileged_bpf_disabled"},
    Row{"/proc/sys/kernel/printk"},
    Row{"/proc/sys/net/core/bpf_jit_enable"},
    Row{"/proc/sys/net/core/bpf_jit_harden"},
    Row{"/proc/sys/net/core/rps_default_mask"},
    Row{"/proc/sys/vm/stat_interval"},
    Row{"/proc/sys/vm/compaction_proactiveness"},
    Row{"/proc/sys/vm/swappiness"},
    Row{"/sys/kernel/mm/transparent_hugepage/enabled"},
    Row{"/sys/kernel/mm/transparent_hugepage/defrag"},
    Row{"/sys/kernel/mm/ksm/run"},
    Row{"/proc/irq/default_smp_affinity"},
    Row{"/etc/default/irqbalance"},
    Row{"/etc/sysconfig/irqbalance"},
    Row{.path = "/dev/net/tun", .only_looked_for = true},
    Row{.path = "/dev/onload", .only_looked_for = true},
    Row{"/sys/module/onload/version"},
    Row{"/sys/module/onload/parameters/oof_shared_keep_thresh"},
    Row{kLanesFile},
    Row{kStatusFile},
    Row{kChangesFile},
    // Per CPU.
    Row{"/sys/devices/system/cpu/cpu%/power/pm_qos_resume_latency_us", Each::kCpu},
    Row{"/sys/devices/system/cpu/cpu%/power/energy_perf_bias", Each::kCpu},
    Row{"/sys/devices/system/cpu/cpu%/thermal_throttle/core_throttle_count", Each::kCpu},
    Row{"/sys/devices/system/cpu/cpufreq/policy%/scaling_governor", Each::kPolicy},
    Row{"/sys/devices/system/cpu/cpufreq/policy%/scaling_driver", Each::kPolicy},
    Row{"/sys/devices/system/cpu/cpufreq/policy%/scaling_min_freq", Each::kPolicy},
    Row{"/sys/devices/system/cpu/cpufreq/policy%/scaling_max_freq", Each::kPolicy},
    Row{"/sys/devices/system/cpu/cpufreq/policy%/energy_performance_preference", Each::kPolicy},
    // Interrupts.
    Row{"/proc/irq/%/smp_affinity_list", Each::kIrq},
    Row{"/proc/irq/%/effective_affinity_list", Each::kIrq},
    // NICs.
    Row{"/sys/class/net/%/mtu", Each::kNic},
    Row{"/sys/class/net/%/operstate", Each::kNic},
    Row{"/sys/class/net/%/duplex", Each::kNic},
    Row{"/sys/class/net/%/carrier_changes", Each::kNic},
    Row{"/sys/class/net/%/napi_defer_hard_irqs", Each::kNic},
    Row{"/sys/class/net/%/gro_flush_timeout", Each::kNic},
    Row{"/sys/class/net/%/threaded", Each::kNic},
    Row{"/sys/class/net/%/statistics/rx_dropped", Each::kNic},
    Row{"/sys/class/net/%/statistics/rx_missed_errors", Each::kNic},
    Row{"/sys/class/net/%/statistics/rx_fifo_errors", Each::kNic},
    Row{"/sys/class/net/%/queues/rx-%/rps_cpus", Each::kRxQueue},
    Row{"/sys/class/net/%/queues/tx-%/xps_cpus", Each::kTxQueue},
    Row{.path = "/sys/class/net/%/master", .each = Each::kNic, .only_looked_for = true},
    Row{"/ethtool/%/channels/combined", Each::kNic},
    Row{"/ethtool/%/channels/combined-max", Each::kNic},
    Row{"/ethtool/%/rings/rx", Each::kNic},
    Row{"/ethtool/%/coalesce/rx-usecs", Each::kNic},
    Row{"/ethtool/%/coalesce/adaptive-rx", Each::kNic},
    Row{"/ethtool/%/coalesce/adaptive-tx", Each::kNic},
    Row{"/ethtool/%/features/lro", Each::kNic},
    Row{"/ethtool/%/features/ntuple", Each::kNic},
    Row{"/ethtool/%/driver/firmware-version", Each::kNic},
    Row{"/ethtool/%/rss/queues", Each::kNic},
    Row{"/ethtool/%/pause/rx", Each::kNic},
    Row{"/ethtool/%/pause/tx", Each::kNic},
    Row{"/sys/bus/pci/devices/%/current_link_width", Each::kPci},
    Row{"/sys/bus/pci/devices/%/max_link_width", Each::kPci},
    Row{"/sys/bus/pci/devices/%/current_link_speed", Each::kPci},
    Row{"/sys/bus/pci/devices/%/max_link_speed", Each::kPci},
    Row{"/sys/bus/pci/devices/%/power/control", Each::kPci},
    Row{"/sys/bus/pci/devices/%/link/l1_aspm", Each::kPci},
    Row{"/sys/bus/pci/devices/%/aer_dev_correctable", Each::kPci},
    Row{"/sys/bus/pci/devices/%/sfc_resource/enable", Each::kPci},
    // Memory.
    Row{"/sys/devices/system/node/node%/hugepages/hugepages-2048kB/free_hugepages", Each::kNumaNode},
};

std::string filled(std::string_view path, const std::string& with) {
  const std::size_t at = path.find('%');
  return std::string(path.substr(0, at)).append(with).append(path.substr(at + 1));
}

std::vector<std::string> paths_of(const Row& row, const Facts& facts) {
  std::vector<std::string> paths;
  const auto add = [&](const auto& name) {
    if constexpr (std::is_integral_v<std::decay_t<decltype(name)>>)
      paths.push_back(filled(row.path, std::to_string(name)));
    else paths.push_back(filled(row.path, name));
  };
  switch (row.each) {
    case Each::kOnce: paths.emplace_back(row.path); break;
    case Each::kCpu:
      for (const unsigned cpu : facts.online.cpus()) add(cpu);
      break;
    case Each::kPolicy:
      for (const FrequencyPolicy& policy : facts.policies) add(policy.id);
      break;
    case Each::kIrq:
      for (const Irq& irq : facts.irqs) add(irq.number);
      break;
    case Each::kNumaNode:
      for (const NumaNode& node : facts.numa_nodes) add(node.id);
      break;
    case Each::kNic:
      for (const Nic& nic : facts.nics) add(nic.name);
      break;
    case Each::kPci:
      for (const Nic& nic : facts.nics) {
        if (!nic.pci.empty()) add(nic.pci);
      }
      break;
    case Each::kRxQueue:
    case Each::kTxQueue:
      for (const Nic& nic : facts.nics) {
        const std::string of_nic = filled(row.path, nic.name);
        for (const unsigned queue : row.each == Each::kRxQueue ? nic.rx_queues : nic.tx_queues) {
          paths.push_back(filled(of_nic, std::to_string(queue)));
        }
      }
      break;
  }
  return paths;
}

void read_into(Readings& readings, const Tree& tree, const std::string& path, bool only_looked_for, bool with_mode) {
  Readings::File& file = readings.files[path];
  if (only_looked_for) {
    if (tree.exists(path)) file.text = kPresent;
    return;
  }
  auto text = tree.read(path, 16 << 20);  // lanes.json of some thousand lanes; /proc/stat of some thousand interrupts.
  if (text) file.text = std::move(*text);
  else file.denied = text.error().code() == Errc::kDenied;
  if (with_mode) file.mode = tree.mode(path);
}

// Idle states have the same number on each CPU; how many there are, the first one says.
void read_idle_states(Readings& readings, const Tree& tree, const Facts& facts) {
  const std::vector<unsigned> cpus = facts.online.cpus();
  if (cpus.empty()) return;
  const std::string first = filled(kCpu, std::to_string(cpus.front())) + "cpuidle";
  for (const std::string& state : tree.list(first)) {
    read_into(readings, tree, first + "/" + state + "/name", false, false);
    for (const unsigned cpu : cpus) {
      const std::string path = filled(kCpu, std::to_string(cpu)) + "cpuidle/" + state;
      read_into(readings, tree, path + "/latency", false, false);
      read_into(readings, tree, path + "/disable", false, false);
    }
  }
}

}  // namespace

Readings take_readings(const Tree& tree, const Facts& facts) {
  Readings readings;
  for (const Row& row : kRows) {
    for (const std::string& path : paths_of(row, facts)) {
      read_into(readings, tree, path, row.only_looked_for, row.each == Each::kIrq);
    }
  }
  read_idle_states(readings, tree, facts);
  return readings;
}

}  // namespace podlane::nodeconfig
