#include "tests/unit/doctor/check_cases.hpp"

#include "nodeconfig/change_journal.hpp"

namespace podlane::doctor::test {

namespace {

constexpr Outcome kPass = Outcome::kPass, kFail = Outcome::kFail, kWarn = Outcome::kWarn;
const std::string kPci = "/sys/bus/pci/devices/0000:3b:00.0";
const std::string kNic = "/sys/class/net/ens1f0";
const std::string kCpus = "/sys/devices/system/cpu/";

// A file that reads `good` on a healthy node and `bad` on another.
struct Pair {
  const char* id;
  std::string path, good, bad;
  Outcome when_bad = kFail;
};

std::vector<Pair> pairs() {
  return {
      {"A08", "/sys/fs/cgroup/kubepods.slice/cpuset.cpus.partition", "isolated", "isolated invalid (cpu list empty)"},
      {"A11", "/sys/devices/virtual/workqueue/cpumask", "3", "f"},
      {"A07", "/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1", "0-3"},
      {"A12", "/proc/sys/kernel/sched_rt_runtime_us", "950000", "-1", kWarn},
      {"B01", kCpus + "cpufreq/policy2/scaling_governor", "performance", "powersave"},
      {"B02", kCpus + "cpufreq/policy2/energy_performance_preference", "performance", "balance_power"},
      {"B03", kCpus + "cpu2/power/energy_perf_bias", "0", "6"},
      {"B04", kCpus + "cpu2/cpuidle/state1/latency", "2", "170"},
      {"B06", kCpus + "cpufreq/policy2/scaling_min_freq", "3600000", "800000"},
      {"B07", kCpus + "intel_pstate/no_turbo", "1", "0", kWarn},
      {"B08", kCpus + "cpu2/thermal_throttle/core_throttle_count", "0", "14"},
      {"B10", kPci + "/link/l1_aspm", "0", "1"},
      {"B11", kPci + "/power/control", "on", "auto"},
      {"B12", kCpus + "../clocksource/clocksource0/current_clocksource", "tsc", "hpet"},
      {"B13", "/proc/cpuinfo", "flags : aes constant_tsc nonstop_tsc", "flags : aes tsc"},
      {"C06", "/proc/irq/default_smp_affinity", "3", "f"},
      {"C10", kNic + "/queues/rx-1/rps_cpus", "3", "c"},
      {"C12", "/proc/sys/kernel/nmi_watchdog", "0", "1"},
      {"C13", "/proc/net/softnet_stat", "0199ed84 00000000 00000000", "0199ed84 00000002 00000008"},
      {"D03", "/ethtool/ens1f0/features/lro", "0", "1"},
      {"D04", "/ethtool/ens1f0/channels/combined", "4", "1"},
      {"D05", "/ethtool/ens1f0/channels/combined-max", "8", "1"},
      {"D06", "/ethtool/ens1f0/rss/queues", "0", "0-3"},
      {"D07", "/ethtool/ens1f0/features/ntuple", "1", "0"},
      {"D09", "/ethtool/ens1f0/coalesce/adaptive-rx", "0", "1"},
      {"D10", "/ethtool/ens1f0/rings/rx", "1024", "8192"},
      {"D11", kNic + "/statistics/rx_missed_errors", "0", "120", kWarn},
      {"D14", kNic + "/threaded", "0", "1"},
      {"D15", "/ethtool/ens1f0/pause/rx", "0", "1"},
      {"D16", kNic + "/operstate", "up", "down"},
      {"D17", kPci + "/current_link_width", "16", "4"},
      {"D24", kNic + "/mtu", "1500", "9000"},
      {"E06", "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never", "[always] madvise never"},
      {"E07", "/proc/sys/kernel/numa_balancing", "0", "1"},
      {"E08", "/sys/kernel/mm/ksm/run", "0", "1"},
      {"E09", "/proc/swaps", "Filename\tType\tSize", "Filename\tType\tSize\n/dev/sda2\tpartition\t100"},
      {"E12", "/proc/sys/vm/stat_interval", "10", "1"},
      {"E03", "/proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0", "proc /proc proc rw 0 0"},
      {"F01", "/proc/sys/kernel/osrelease", "6.12.3-amd64", "5.10.0-9-amd64"},
      {"F02", "/proc/sys/net/core/bpf_jit_enable", "1", "0"},
      {"F03", "/proc/sys/net/core/bpf_jit_harden", "0", "2"},
      {"F04", "/proc/sys/kernel/unprivileged_bpf_disabled", "2", "0", kWarn},
      {"F05", "/proc/sys/kernel/bpf_stats_enabled", "0", "1"},
      {"F06", "/proc/mounts", "bpf /sys/fs/bpf bpf rw 0 0", "proc /proc proc rw 0 0"},
      {"F09", "/proc/cpuinfo", "flags : aes", "flags : tsc"},
      {"F15", "/sys/kernel/security/lockdown", "none [integrity] confidentiality", "none integrity [confidentiality]"},
      {"F16", "/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC", "#1 SMP PREEMPT_RT", kWarn},
      {"F17", "/sys/kernel/tracing/current_tracer", "nop", "function"},
      {"H01", "/proc/stat", "cpu0 1000 0 1000 98000 0 0 0 0 0 0", "cpu0 1000 0 1000 98000 0 0 0 2400 0 0"},
      {"H02", "/proc/cpuinfo", "flags : aes", "flags : aes hypervisor", kWarn},
      {"H04", "/run/podlane/nodeconfig.json", R"({"advice": []})",
       R"({"advice": [{"about": "boot", "label": "reboot-required"}]})"},
      {"H05", "/run/podlane/nodeconfig.json", R"({"advice": []})",
       R"({"advice": [{"about": "kubelet", "label": "kubelet-restart-required"}]})"},
      {"H06", "/run/podlane/nodeconfig.json", R"({"changes": []})",
       R"({"changes": [{"key": "memory/thp", "outcome": "contested"}]})"},
      {"D01", "/run/podlane/lanes.json",
       lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": true})"),
       lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "generic", "busyPoll": true})")},
      {"D02", "/run/podlane/lanes.json",
       lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": true})"),
       lanes_json(R"("inForce": {"zeroCopy": false, "xdp": "native", "busyPoll": true})")},
      {"L04", "/run/podlane/lanes.json",
       lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": true})"),
       lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": false})"), kWarn},
      {"L01", "/run/podlane/lanes.json", lanes_json(R"("ifname": "lane0")"),
       R"({"version": 1, "lanes": [{"pool": "feed", "device": "feed-1", "state": "attached", "kind": "veth", "namespace": "a", "pod": "b"}]})"},
      {"L02", "/run/podlane/lanes.json", lanes_json(R"("ifname": "lane0")"),
       R"({"version": 1, "lanes": [{"device": "feed-1", "state": "serving", "kind": "queue", "netdev": "ens1f0", "queue": 0, "pod": "a"},
                                   {"device": "feed-2", "state": "serving", "kind": "queue", "netdev": "ens1f0", "queue": 1, "pod": "b"}]})",
       kWarn},
      {"L03", "/run/podlane/lanes.json", lanes_json(R"("ifname": "lane0")"),
       R"({"version": 1, "lanes": [{"device": "feed-1", "state": "serving", "kind": "veth", "netdev": "ens1f0", "mode": "spinning"}]})",
       kWarn},
      {"A05", "/run/podlane/lanes.json", lanes_json(R"("ifname": "lane0")"),
       R"({"version": 1, "lanes": [{"device": "f-1", "state": "serving", "kind": "tun", "mode": "spinning"},
            {"device": "f-2", "state": "serving", "kind": "tun", "mode": "spinning"},
            {"device": "f-3", "state": "serving", "kind": "tun", "mode": "spinning"}]})"},
      {"A01", "/var/lib/kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-1"})",
       R"({"policyName":"none","defaultCpuSet":""})"},
      {"A14", "/var/lib/kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-1"})",
       R"({"policyName":"static","defaultCpuSet":"0-64"})"},
      {"A09", "/var/lib/kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-1"})",
       R"({"policyName":"static","defaultCpuSet":"0-3"})"},
      {"V22", "/sys/module/onload/parameters/oof_shared_keep_thresh", "0", "100"},
  };
}

// The NIC as a card of Solarflare's.
void make_sfc(Node& node, const std::string& firmware, const std::string& enabled) {
  const std::string device = "/sys/devices/pci0000:3a/0000:3b:00.0";
  node.put("/ethtool/ens1f0/driver/firmware-version", firmware);
  node.put(device + "/sfc_resource/enable", enabled);
  node.remove(device + "/driver");
  node.put("/sys/bus/pci/drivers/sfc/bind", "");
  node.link(device + "/driver", "/sys/bus/pci/drivers/sfc");
}

void wait_for_interrupts(Node& node) {
  node.put(
      "/run/podlane/lanes.json",
      R"({"version": 1, "lanes": [{"device": "feed-1", "state": "serving", "kind": "queue", "netdev": "ens1f0", "queue": 1,
               "mode": "interrupt", "inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": false}}]})");
}

// A kubelet that started at 1000 ms, and huge pages that were set at another time.
void change_huge_pages(Node& node, std::int64_t at_ms) {
  node.run_process(12, "kubelet", "kubelet", 100);
  node.put("/run/podlane/nodeconfig-changes.jsonl", nodeconfig::encode({.key = "numa/0/hugepages/2048kB",
                                                                        .knob = "hugepages",
                                                                        .path = "/sys/…/nr_hugepages",
                                                                        .original = "0",
                                                                        .written = "4",
                                                                        .at_ms = at_ms},
                                                                       "11111111-2222-3333-4444-555555555555"));
}

}  // namespace

std::string lanes_json(const std::string& more) {
  return R"({"version": 1, "lanes": [{"pool": "feed", "device": "feed-1", "state": "serving", "kind": "queue", "netdev": "ens1f0",
    "queue": 1, "namespace": "trading", "pod": "md-0", "container": "engine", "mode": "spinning", )" +
         more + "}]}";
}

void furnish(Node& node) {
  for (const Pair& pair : pairs()) {
    if (pair.path != "/proc/mounts") node.put(pair.path, pair.good);
  }
  node.put("/proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0\nbpf /sys/fs/bpf bpf rw 0 0");
  node.put("/proc/cpuinfo", "processor : 0\nflags : aes constant_tsc nonstop_tsc");
  node.put("/proc/net/protocols", "protocol  size\nUDP 1");
  node.put("/proc/sys/kernel/printk", "3 4 1 7");
  node.put("/dev/net/tun", "");
  node.put("/sys/devices/system/cpu/isolated", "2-3");
  node.put("/sys/devices/system/cpu/smt/active", "0");
  node.put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "4");
  node.put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "4");
  node.put("/sys/module/onload/version", "9.0.1");
  node.put("/dev/onload", "");
  node.put("/proc/sys/vm/compaction_proactiveness", "0");
  node.put(kPci + "/max_link_width", "16");
  node.put(kNic + "/gro_flush_timeout", "200000");
  node.put("/ethtool/ens1f0/coalesce/adaptive-tx", "0");
  node.put("/ethtool/ens1f0/pause/tx", "0");
  node.put("/run/podlane/nodeconfig.json", R"({"advice": [], "changes": []})");
  node.put("/run/podlane/lanes.json",
           lanes_json(R"("inForce": {"zeroCopy": true, "xdp": "native", "busyPoll": true})"));
  node.put("/var/lib/kubelet/cpu_manager_state",
           R"({"policyName":"static","defaultCpuSet":"0-1","entries":{"uid-1":{"engine":"2-3"}}})");
  for (const std::string cpu : {"0", "1", "2", "3", "4", "5", "6", "7"}) {
    node.put(kCpus + "cpu" + cpu + "/cpuidle/state1/disable", "0");
    node.put(kCpus + "cpufreq/policy" + cpu + "/scaling_governor", "performance");
    node.put(kCpus + "cpufreq/policy" + cpu + "/energy_performance_preference", "performance");
    node.put(kCpus + "cpufreq/policy" + cpu + "/scaling_min_freq", "3600000");
    node.put(kCpus + "cpufreq/policy" + cpu + "/scaling_max_freq", "3600000");
  }
  for (const char* action :
       {"ice-ens1f0-TxRx-0", "ice-ens1f0-TxRx-1", "ice-ens1f0-TxRx-2", "ice-ens1f0-TxRx-3", "nvme0q0"}) {
    node.put(node.irq_path(action) + "/smp_affinity_list", "0-1");
    node.put(node.irq_path(action) + "/effective_affinity_list", "0");
  }
  for (const char* action : {"nvme0q1", "nvme0q2"})
    node.put(node.irq_path(action) + "/effective_affinity_list", "1", 0444);
}

std::vector<std::pair<std::string, std::string>> judged_files() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Pair& pair : pairs()) all.emplace_back(pair.id, pair.path);
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Pair& pair : pairs()) {
    all.push_back({.name = "a healthy node", .id = pair.id, .expected = kPass});
    all.push_back({.name = pair.path + " is " + pair.bad.substr(0, 30),
                   .id = pair.id,
                   .expected = pair.when_bad,
                   .file = pair.path,
                   .text = pair.bad});
  }
  for (const char* id : {"A03", "A04", "V15", "V19", "B14", "C01", "C03", "C04", "C05", "C07",
                         "C14", "D21", "E01", "E14", "F07", "F08", "F12", "F20", "H07", "H11"}) {
    all.push_back({.name = "a healthy node", .id = id, .expected = kPass});
  }
  const auto irqbalance = [](Node& node) { node.run_process(40, "irqbalance", "/usr/sbin/irqbalance"); };
  const auto more = std::vector<Case>{
      {"a lane's CPU on the other socket", "A03", kFail, {}, {}, {}, "3-4"},
      {"half a core", "A04", kWarn,
       [](Node& node) {
         node.put(kCpus + "cpu3/topology/thread_siblings_list", "1,3");
         node.put(kCpus + "cpu1/topology/thread_siblings_list", "1,3");
         node.put("/var/lib/kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0"})");
       }},
      {"half a core, the other is anybody's", "A04", kFail,
       [](Node& node) { node.put(kCpus + "cpu3/topology/thread_siblings_list", "1,3"); }},
      {"CPU 0", "V15", kFail, {}, {}, {}, "0-1"},
      {"threads and spinning", "V19", kWarn, [](Node& node) { node.put(kCpus + "smt/active", "1"); }},
      {"half a core reserved", "A13", kFail,
       [](Node& node) {
         node.put("/var/lib/kubelet/config.yaml", "reservedSystemCPUs: \"0\"");
         node.put(kCpus + "cpu0/topology/thread_siblings_list", "0-1");
       }},
      {"whole cores reserved", "A13", kPass,
       [](Node& node) { node.put("/var/lib/kubelet/config.yaml", "reservedSystemCPUs: \"0-1\""); }},
      {"thermald", "B14", kFail, [](Node& node) { node.run_process(41, "thermald", "thermald"); }},
      {"irqbalance without a list", "C01", kFail, irqbalance},
      {"irqbalance with the list", "C01", kPass,
       [=](Node& node) {
         irqbalance(node);
         node.put("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\"2-3\"");
       }},
      {"half a list", "C02", kFail,
       [=](Node& node) {
         irqbalance(node);
         node.put("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=2");
       }},
      {"a whole list", "C02", kPass,
       [=](Node& node) {
         irqbalance(node);
         node.put("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=2-3");
       }},
      {"an interrupt is there", "C03", kFail,
       [](Node& node) { node.put(node.irq_path("nvme0q0") + "/effective_affinity_list", "2"); }},
      {"an interrupt may come", "C04", kFail,
       [](Node& node) { node.put(node.irq_path("nvme0q0") + "/smp_affinity_list", "0-3"); }},
      {"a disk's own", "C05", kWarn,
       [](Node& node) { node.put(node.irq_path("nvme0q1") + "/effective_affinity_list", "3", 0444); }},
      {"served far away", "C07", kFail,
       [](Node& node) { node.put(node.irq_path("ice-ens1f0-TxRx-2") + "/effective_affinity_list", "5"); }},
      {"where it must not be", "C14", kFail,
       [](Node& node) { node.put(node.irq_path("nvme0q0") + "/effective_affinity_list", "3"); }},
      {"in a bond", "D21", kFail, [](Node& node) { node.put(kNic + "/master", ""); }},
      {"full-feature firmware", "D19", kFail, [](Node& node) { make_sfc(node, "8.0 rx0 tx0", "1"); }},
      {"low-latency firmware", "D19", kPass, [](Node& node) { make_sfc(node, "8.0 rx1 tx1", "1"); }},
      {"Onload off for the card", "F14", kFail, [](Node& node) { make_sfc(node, "8.0 rx1 tx1", "0"); }},
      {"Onload on for the card", "F14", kPass, [](Node& node) { make_sfc(node, "8.0 rx1 tx1", "1"); }},
      {"a lane waits, the NIC holds back", "D08", kFail,
       [](Node& node) {
         wait_for_interrupts(node);
         node.put("/ethtool/ens1f0/coalesce/rx-usecs", "50");
       }},
      {"a lane waits, the NIC does not", "D08", kPass,
       [](Node& node) {
         wait_for_interrupts(node);
         node.put("/ethtool/ens1f0/coalesce/rx-usecs", "0");
       }},
      {"deferred, and nobody polls", "D13", kFail,
       [](Node& node) {
         wait_for_interrupts(node);
         node.put(kNic + "/napi_defer_hard_irqs", "2");
       }},
      {"deferred, and a lane polls", "D13", kPass, [](Node& node) { node.put(kNic + "/napi_defer_hard_irqs", "2"); }},
      {"pages changed under the kubelet", "E02", kFail, [](Node& node) { change_huge_pages(node, 5000); }},
      {"pages changed before the kubelet", "E02", kPass, [](Node& node) { change_huge_pages(node, 500); }},
      {"none on the NIC's node", "E01", kFail,
       [](Node& node) { node.put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "0"); }},
      {"a NIC of nowhere", "E14", kFail, [](Node& node) { node.put(kPci + "/numa_node", "-1"); }},
      {"no TUN", "F07", kFail, [](Node& node) { node.remove("/dev/net/tun"); }},
      {"half an Onload", "F12", kFail, [](Node& node) { node.remove("/dev/onload"); }},
      {"TuneD", "H07", kWarn,
       [](Node& node) {
         node.run_process(42, "tuned", "tuned");
         node.put("/etc/tuned/active_profile", "balanced");
       }},
      {"a slow console", "H11", kWarn,
       [](Node& node) {
         node.put("/proc/cmdline", "console=ttyS0");
         node.put("/proc/sys/kernel/printk", "7 4 1 7");
       }},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace podlane::doctor::test
