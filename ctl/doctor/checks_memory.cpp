// Family E: memory.
#include <algorithm>

#include "ctl/doctor/sight.hpp"
#include "nodeconfig/change_journal.hpp"

namespace podlane::doctor {

namespace {

Verdict look_huge_pages(const Sight& sight) {
  std::uint64_t anywhere = 0;
  for (const auto& node : sight.facts.numa_nodes) {
    for (const auto& pages : node.huge_pages) anywhere += pages.total;
  }
  if (anywhere == 0) return not_applicable("no huge pages are set aside on this node");
  if (sight.facts.numa_nodes.size() < 2) return pass("huge pages are on the only NUMA node");
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.numa_node < 0) return unknown("the firmware does not say where " + nic.name + " sits");
    const std::string path =
        "/sys/devices/system/node/node" + std::to_string(nic.numa_node) + "/hugepages/hugepages-2048kB/free_hugepages";
    const auto free = sight.number(path);
    if (!free) return free.error();
    const std::string is = std::to_string(*free) + " pages of 2 MiB are free on the node of " + nic.name;
    return *free > 0 ? pass(is)
                     : bad(is, "echo <n> > /sys/devices/system/node/node" + std::to_string(nic.numa_node) +
                                   "/hugepages/hugepages-2048kB/nr_hugepages, then read it back; numactl --hardware");
  });
}

// The kubelet counts huge pages when it starts, and never again.
Verdict look_kubelet_huge_pages(const Sight& sight) {
  if (!sight.facts.kubelet.running) return not_applicable("no kubelet runs here");
  const auto text = sight.text(nodeconfig::kChangesFile);
  if (!text) {
    if (text.error().outcome == Outcome::kUnknown) return text.error();
    return not_applicable("podlane-nodeconfig changed nothing since boot");
  }
  std::size_t unreadable = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const auto record = nodeconfig::decode_change(std::string_view(*text).substr(at, end - at), sight.facts.boot_id);
    at = end + 1;
    if (!record) {
      if (record.error().code() != Errc::kGone) ++unreadable;
      continue;
    }
    if (record->knob == "hugepages" && record->at_ms > sight.facts.kubelet.started_ms) {
      return bad(record->path + " was changed after the kubelet had started");
    }
  }
  if (unreadable > 0) return unknown(std::string(nodeconfig::kChangesFile) + " has lines that cannot be understood");
  return pass("no huge pages were changed since the kubelet started");
}

Verdict look_mount(const Sight& sight) {
  const auto mounts = sight.text("/proc/mounts");
  if (!mounts) return mounts.error();
  if (mounts->find(' ') == std::string::npos) return unknown("/proc/mounts is not what kernels write");
  if (mounts->find(" hugetlbfs ") != std::string::npos) return pass("hugetlbfs is mounted");
  for (const auto& node : sight.facts.numa_nodes) {
    for (const auto& pages : node.huge_pages) {
      if (pages.total > 0) return bad("there are huge pages and no hugetlbfs is mounted");
    }
  }
  return not_applicable("no hugetlbfs, and no huge pages that would need one");
}

Verdict judge_thp(const Sight& sight, const char* name) {
  const std::string path = std::string("/sys/kernel/mm/transparent_hugepage/") + name;
  const auto word = chosen_word(sight, path);
  if (!word) return word.error();
  const std::string is = path + " is " + *word;
  return *word == "always" ? bad(is, "echo madvise > " + path) : pass(is);
}

Verdict look_thp(const Sight& sight) {
  return worst_of({judge_thp(sight, "enabled"), judge_thp(sight, "defrag")}, not_applicable("none"));
}

Verdict look_numa_balancing(const Sight& sight) {
  if (sight.facts.numa_nodes.size() < 2) return not_applicable("this node has one NUMA node");
  return judge_number(sight, "/proc/sys/kernel/numa_balancing", [](auto value) { return value == 0; });
}

Verdict look_ksm(const Sight& sight) {
  return judge_number(sight, "/sys/kernel/mm/ksm/run", [](auto value) { return value != 1; });
}

Verdict look_swap(const Sight& sight) {
  const auto swaps = sight.text("/proc/swaps");
  if (!swaps) return swaps.error();
  if (!swaps->starts_with("Filename")) return unknown("/proc/swaps is not what kernels write");
  return swaps->find('\n') == std::string::npos ? pass("no swap is in use") : bad("swap is in use");
}

Verdict look_stat_interval(const Sight& sight) {
  return worst_of(
      {judge_number(
           sight, "/proc/sys/vm/stat_interval", [](auto value) { return value >= 10; }, "sysctl vm.stat_interval=10"),
       judge_number(
           sight, "/proc/sys/vm/compaction_proactiveness", [](auto value) { return value == 0; },
           "sysctl vm.compaction_proactiveness=0")},
      not_applicable("none"));
}

Verdict look_numa_known(const Sight& sight) {
  if (sight.facts.numa_nodes.size() < 2) return not_applicable("this node has one NUMA node");
  return of_each_nic(sight, [](const Nic& nic) {
    if (nic.numa_node >= 0) return pass(nic.name + " is on NUMA node " + std::to_string(nic.numa_node));
    return bad("the firmware does not say where " + nic.name + " sits");
  });
}

constexpr Check kChecks[] = {
    {"E01", "huge pages on the NIC's node", Severity::kHigh, 1, "/sys/devices/system/node/node<n>/hugepages",
     "some are free", "Packet memory would come from the other socket.",
     "echo <n> > /sys/devices/system/node/node<n>/hugepages/hugepages-2048kB/nr_hugepages", look_huge_pages},
    {"E02", "kubelet knows the huge pages", Severity::kHigh, 0, "nodeconfig-changes.jsonl, start of the kubelet",
     "no change since the kubelet started",
     "The kubelet counts huge pages only when it starts, so pods cannot ask for them yet.", "systemctl restart kubelet",
     look_kubelet_huge_pages},
    {"E03", "hugetlbfs is mounted", Severity::kMed, 0, "/proc/mounts", "present where there are huge pages",
     "Programs that map huge pages by file find none.", "mount -t hugetlbfs none /dev/hugepages", look_mount},
    {"E06", "transparent huge pages", Severity::kMed, 500, "/sys/kernel/mm/transparent_hugepage/{enabled,defrag}",
     "not always", "The kernel builds huge pages in the background, and a page fault waits for it meanwhile.",
     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", look_thp},
    {"E07", "no NUMA balancing", Severity::kMed, 20, "/proc/sys/kernel/numa_balancing", "0",
     "The kernel unmaps pages to see who uses them, so pinned threads fault for nothing.",
     "sysctl kernel.numa_balancing=0", look_numa_balancing},
    {"E08", "no same-page merging", Severity::kLow, 5, "/sys/kernel/mm/ksm/run", "0",
     "Pages are compared in the background, and the first write to a merged one is a fault.",
     "echo 0 > /sys/kernel/mm/ksm/run", look_ksm},
    {"E09", "no swap", Severity::kHigh, 5000, "/proc/swaps", "empty",
     "A page that was written to disk takes milliseconds to come back.",
     "swapoff -a, while memory suffices; mlockall() in the program", look_swap},
    {"E12", "rare memory housekeeping", Severity::kLow, 2, "/proc/sys/vm/{stat_interval,compaction_proactiveness}",
     "at least 10 seconds; 0", "Timers fold counters and move pages on every CPU, lanes' among them.",
     "sysctl vm.stat_interval=10 vm.compaction_proactiveness=0", look_stat_interval},
    {"E14", "the NIC's NUMA node is known", Severity::kMed, 0, "/sys/bus/pci/devices/<bdf>/numa_node",
     "not -1 where there are several",
     "Nobody can put CPUs and memory near a card of which the firmware does not say where it is.",
     "BIOS settings for NUMA; lstopo shows what the firmware says", look_numa_known},
};

}  // namespace

std::span<const Check> memory_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
