// The table of everything that node configuration can set: name in the profile, file, values, and why anybody would.
// A new setting is a row of kKnobs and a line in docs/node-profile.md. Constants only; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace podlane::nodeconfig {

// What a knob is one of. '%' in key and path stands for its number or name, from left to right.
enum class Scope { kNode, kNumaNode, kNic, kRxQueue, kTxQueue, kIrq, kPolicy, kCpu };

// How the file reads, which decides how two values compare.
enum class Format {
  kWord,    // As it is.
  kNumber,  // Decimal.
  kChoice,  // "always [madvise] never": the word in brackets; the others are what can be chosen.
  kList,    // CPU list.
  kMask,    // CPU mask.
};

// What the profile may say beside "leave".
enum class Takes {
  kWords,    // One of `words`.
  kNumber,   // low to high.
  kOffered,  // A word that the file `offered` lists: what it is depends on the driver.
  kCpus,     // A CPU list, "housekeeping"; "local" and "off" where the row says so.
};

struct Word {
  std::string_view said, written;
};

struct Knob {
  std::string_view name;  // "memory.thp"; of a NIC "nics.rps".
  Scope scope;
  std::string_view key;  // Identity in journal and reports.
  std::string_view path;
  Format format;
  Takes takes;
  std::span<const Word> words = {};
  std::int64_t low = 0, high = 0;
  std::string_view offered = {};  // File with the words that can be chosen, beside `path`.
  std::string_view needs = {};  // Directory without which the file has no meaning, and in `needs_words` what that says.
  std::string_view needs_words = {};
  std::string_view effect;
  std::string_view why;
};

namespace words {
inline constexpr Word kThp[] = {{"always", "always"}, {"madvise", "madvise"}, {"never", "never"}};
inline constexpr Word kDefrag[] = {{"always", "always"},
                                   {"defer", "defer"},
                                   {"defer+madvise", "defer+madvise"},
                                   {"madvise", "madvise"},
                                   {"never", "never"}};
inline constexpr Word kOnOff[] = {{"on", "1"}, {"off", "0"}};
inline constexpr Word kKsm[] = {{"on", "1"}, {"off", "0"}, {"unmerge", "2"}};
}  // namespace words

inline constexpr std::string_view kAtOnce = "at once";
inline constexpr std::string_view kNextInterrupt = "at the next interrupt";

// In the order in which they are applied: memory while it is least fragmented, NICs before the interrupts that belong
// to them, power last. Undone the other way round.
inline constexpr std::array kKnobs = {
    Knob{.name = "hugepages",
         .scope = Scope::kNumaNode,
         .key = "numa/%/hugepages/%kB",
         .path = "/sys/devices/system/node/node%/hugepages/hugepages-%kB/nr_hugepages",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1 << 20,
         .effect = "at once as far as memory is free; the kubelet counts huge pages only when it starts",
         .why = "packet memory in huge pages costs fewer TLB misses, and on the NIC's node no crossing of sockets"},
    Knob{.name = "memory.thp",
         .scope = Scope::kNode,
         .key = "memory/thp",
         .path = "/sys/kernel/mm/transparent_hugepage/enabled",
         .format = Format::kChoice,
         .takes = Takes::kWords,
         .words = words::kThp,
         .effect = "for memory mapped from now on",
         .why = "khugepaged and compaction stop a thread for milliseconds while they build transparent huge pages"},
    Knob{.name = "memory.thpDefrag",
         .scope = Scope::kNode,
         .key = "memory/thp-defrag",
         .path = "/sys/kernel/mm/transparent_hugepage/defrag",
         .format = Format::kChoice,
         .takes = Takes::kWords,
         .words = words::kDefrag,
         .effect = kAtOnce,
         .why = "direct compaction at a page fault stops the thread that faults"},
    Knob{.name = "memory.ksm",
         .scope = Scope::kNode,
         .key = "memory/ksm",
         .path = "/sys/kernel/mm/ksm/run",
         .format = Format::kNumber,
         .takes = Takes::kWords,
         .words = words::kKsm,
         .effect = kAtOnce,
         .why = "merging pages takes CPU time and makes the first write to a page slow"},
    Knob{.name = "memory.numaBalancing",
         .scope = Scope::kNode,
         .key = "sysctl/kernel.numa_balancing",
         .path = "/proc/sys/kernel/numa_balancing",
         .format = Format::kNumber,
         .takes = Takes::kWords,
         .words = words::kOnOff,
         .effect = kAtOnce,
         .why = "it unmaps pages to see who uses them: page faults in threads that are pinned already"},
    Knob{.name = "memory.statIntervalSeconds",
         .scope = Scope::kNode,
         .key = "sysctl/vm.stat_interval",
         .path = "/proc/sys/vm/stat_interval",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 1,
         .high = 3600,
         .effect = kAtOnce,
         .why = "each second a timer on each CPU folds memory counters, on lanes' cores too"},
    Knob{.name = "sysctls.kernel.timer_migration",
         .scope = Scope::kNode,
         .key = "sysctl/kernel.timer_migration",
         .path = "/proc/sys/kernel/timer_migration",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1,
         .effect = kAtOnce,
         .why = "1 lets timers move off idle isolated CPUs"},
    Knob{.name = "sysctls.net.core.busy_poll",
         .scope = Scope::kNode,
         .key = "sysctl/net.core.busy_poll",
         .path = "/proc/sys/net/core/busy_poll",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1000,
         .effect = kAtOnce,
         .why = "poll() and select() on kernel sockets spin on the queue so many microseconds; nothing on a TUN"},
    Knob{.name = "sysctls.net.core.busy_read",
         .scope = Scope::kNode,
         .key = "sysctl/net.core.busy_read",
         .path = "/proc/sys/net/core/busy_read",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1000,
         .effect = "for sockets made from now on",
         .why = "reads of kernel sockets spin on the queue so many microseconds; nothing on a TUN"},
    Knob{.name = "sysctls.net.core.netdev_max_backlog",
         .scope = Scope::kNode,
         .key = "sysctl/net.core.netdev_max_backlog",
         .path = "/proc/sys/net/core/netdev_max_backlog",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 1,
         .high = 1 << 20,
         .effect = kAtOnce,
         .why = "raise it only when column 2 of /proc/net/softnet_stat rises"},
    Knob{.name = "sysctls.net.core.netdev_budget_usecs",
         .scope = Scope::kNode,
         .key = "sysctl/net.core.netdev_budget_usecs",
         .path = "/proc/sys/net/core/netdev_budget_usecs",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 100,
         .high = 100000,
         .effect = kAtOnce,
         .why = "raise it only when column 3 of /proc/net/softnet_stat rises: a longer softirq holds others off"},
    Knob{.name = "sysctls.vm.swappiness",
         .scope = Scope::kNode,
         .key = "sysctl/vm.swappiness",
         .path = "/proc/sys/vm/swappiness",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 200,
         .effect = kAtOnce,
         .why = "a page that was swapped out costs milliseconds at its next use"},
    Knob{.name = "sysctls.vm.compaction_proactiveness",
         .scope = Scope::kNode,
         .key = "sysctl/vm.compaction_proactiveness",
         .path = "/proc/sys/vm/compaction_proactiveness",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 100,
         .effect = kAtOnce,
         .why = "compaction in the background takes CPU time and locks"},
    Knob{
        .name = "sysctls.kernel.nmi_watchdog",
        .scope = Scope::kNode,
        .key = "sysctl/kernel.nmi_watchdog",
        .path = "/proc/sys/kernel/nmi_watchdog",
        .format = Format::kNumber,
        .takes = Takes::kNumber,
        .low = 0,
        .high = 1,
        .effect = kAtOnce,
        .why =
            "an interrupt that nothing can mask, on each CPU every few seconds; without it hard lock-ups go unnoticed"},
    Knob{.name = "cpus.workqueues",
         .scope = Scope::kNode,
         .key = "cpu/workqueues",
         .path = "/sys/devices/virtual/workqueue/cpumask",
         .format = Format::kMask,
         .takes = Takes::kCpus,
         .effect = "for work queued from now on",
         .why = "unbound kernel work may run on lanes' cores"},
    Knob{.name = "nics.txQueueLen",
         .scope = Scope::kNic,
         .key = "nic/%/tx-queue-len",
         .path = "/sys/class/net/%/tx_queue_len",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1 << 20,
         .effect = kAtOnce,
         .why = "how many packets wait before some are dropped; no queue length makes a packet faster"},
    Knob{.name = "nics.rps",
         .scope = Scope::kRxQueue,
         .key = "nic/%/rx-%/rps",
         .path = "/sys/class/net/%/queues/rx-%/rps_cpus",
         .format = Format::kMask,
         .takes = Takes::kCpus,
         .effect = "for packets from now on",
         .why = "receive packet steering sends a packet to another CPU: a wake-up more, off for a lane's queue"},
    Knob{.name = "nics.xps",
         .scope = Scope::kTxQueue,
         .key = "nic/%/tx-%/xps",
         .path = "/sys/class/net/%/queues/tx-%/xps_cpus",
         .format = Format::kMask,
         .takes = Takes::kCpus,
         .effect = "for packets from now on",
         .why = "which CPUs send on this queue: two that share one wait for each other's lock"},
    Knob{.name = "interrupts.defaultAffinity",
         .scope = Scope::kNode,
         .key = "irq/default",
         .path = "/proc/irq/default_smp_affinity",
         .format = Format::kMask,
         .takes = Takes::kCpus,
         .effect = "for interrupts that drivers ask for from now on",
         .why = "a new interrupt may land on a lane's core"},
    Knob{.name = "irqs",
         .scope = Scope::kIrq,
         .key = "%/affinity",
         .path = "/proc/irq/%/smp_affinity_list",
         .format = Format::kList,
         .takes = Takes::kCpus,
         .effect = kNextInterrupt,
         .why = "each interrupt stops the thread on its CPU for 2 to 10 microseconds"},
    // The timeout before the deferral: deferring without a timeout would leave packets lying.
    Knob{.name = "nics.groFlushTimeoutNs",
         .scope = Scope::kNic,
         .key = "nic/%/gro-flush-timeout",
         .path = "/sys/class/net/%/gro_flush_timeout",
         .format = Format::kNumber,
         .takes = Takes::kNumber,
         .low = 0,
         .high = 1000000000,
         .effect = kAtOnce,
         .why = "how long the interrupt stays off while a busy poller serves the queue"},
    Knob{
        .name = "nics.deferHardIrqs",
        .scope = Scope::kNic,
        .key = "nic/%/defer-hard-irqs",
        .path = "/sys/class/net/%/napi_defer_hard_irqs",
        .format = Format::kNumber,
        .takes = Takes::kNumber,
        .low = 0,
        .high = 1000,
        .effect = kAtOnce,
        .why =
            "how many empty polls pass before the interrupt is on again; without a busy poller it only delays packets"},
    Knob{.name = "nics.threadedNapi",
         .scope = Scope::kNic,
         .key = "nic/%/threaded-napi",
         .path = "/sys/class/net/%/threaded",
         .format = Format::kNumber,
         .takes = Takes::kWords,
         .words = words::kOnOff,
         .effect = kAtOnce,
         .why = "polling in a thread can be pinned and scheduled, and costs a wake-up"},
    // Before the governor: with governor performance, intel_pstate takes no other preference than performance.
    Knob{.name = "power.energyPreference",
         .scope = Scope::kPolicy,
         .key = "policy/%/energy-preference",
         .path = "/sys/devices/system/cpu/cpufreq/policy%/energy_performance_preference",
         .format = Format::kWord,
         .takes = Takes::kOffered,
         .offered = "energy_performance_available_preferences",
         .effect = kAtOnce,
         .why = "with hardware-managed clocks this decides how fast they rise after an idle moment"},
    Knob{.name = "power.governor",
         .scope = Scope::kPolicy,
         .key = "policy/%/governor",
         .path = "/sys/devices/system/cpu/cpufreq/policy%/scaling_governor",
         .format = Format::kWord,
         .takes = Takes::kOffered,
         .offered = "scaling_available_governors",
         .effect = kAtOnce,
         .why = "a clock that must rise first makes the first packets after a pause slow"},
    Knob{
        .name = "power.maxIdleLatencyUs",
        .scope = Scope::kCpu,
        .key = "cpu/%/idle-latency",
        .path = "/sys/devices/system/cpu/cpu%/power/pm_qos_resume_latency_us",
        .format = Format::kWord,
        .takes = Takes::kNumber,
        .low = 0,
        .high = 1000,
        .needs = "/sys/devices/system/cpu/cpu%/cpuidle",
        .needs_words = "the kernel controls no idle states of this CPU (usual in a virtual machine)",
        .effect = "at the next idle moment",
        .why =
            "waking from a deep idle state takes 30 to 200 microseconds; chosen by latency, not by the state's number"},
};

// nullptr: no such row.
constexpr const Knob* find_knob(std::string_view name) {
  for (const Knob& knob : kKnobs) {
    if (knob.name == name) return &knob;
  }
  return nullptr;
}

}  // namespace podlane::nodeconfig
