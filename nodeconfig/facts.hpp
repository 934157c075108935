// Facts: what the node is - CPUs, NUMA nodes, interrupts, NICs, and who else tunes it. Read once a pass through the
// Tree; values only afterwards. Settings are not in here: the plan reads those it is about (readings.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/kubelet_state.hpp"
#include "nodeconfig/owners.hpp"
#include "nodeconfig/tree.hpp"

namespace podlane::nodeconfig {

struct Irq {
  unsigned number = 0;  // Changes when queues are made anew: no identity.
  std::string key;      // "irq/0000:3b:00.0/rx-3"
  std::string pci;      // Empty: no PCI device.
  std::string action;   // As the driver calls it.
  std::string role;     // irq_names.hpp
  unsigned first = 0, last = 0;
};

struct Nic {
  std::string name;
  std::string id;  // PCI address, or the name of a device without one.
  std::string pci, driver;
  std::string firmware;  // As ethtool -i says it; of drivers whose firmware has variants (sfc).
  int numa_node = -1;    // -1: the firmware does not say.
  std::vector<unsigned> rx_queues, tx_queues;
  bool default_route = false;
};

struct HugePages {
  std::uint64_t size_kib = 0;
  std::uint64_t total = 0;
};

struct NumaNode {
  unsigned id = 0;
  CpuSet cpus;
  std::uint64_t free_kib = 0;
  std::vector<HugePages> huge_pages;
};

struct FrequencyPolicy {
  unsigned id = 0;
  CpuSet cpus;
};

struct Facts {
  std::string boot_id;
  std::int64_t uptime_ms = 0;
  CpuSet present, online;
  std::vector<CpuSet> siblings;  // By CPU: threads of its core, itself among them. Empty where the kernel does not say.
  std::vector<NumaNode> numa_nodes;
  std::vector<Irq> irqs;
  std::vector<Nic> nics;
  std::vector<FrequencyPolicy> policies;
  std::vector<std::string> boot_arguments;
  KubeletState kubelet;
  std::vector<Owner> owners;
  std::map<std::string, std::string> lanes_on;  // Interface -> lanes of pods on it: "feed-3, feed-4".

  CpuSet siblings_of(const CpuSet& cpus) const;  // With the CPUs themselves.
  const Nic* nic_by_id(std::string_view id) const;
  const Irq* irq_by_key(std::string_view key) const;
};

// Errors only where nothing can be planned: no /proc, no /sys, a CPU list that is none.
Result<Facts> read_facts(const Tree& tree);

}  // namespace podlane::nodeconfig
