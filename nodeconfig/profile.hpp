// Profile: what an operator wants of a node (docs/node-profile.md). Values only; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/knobs.hpp"

namespace podlane::nodeconfig {

enum class ProfileMode { kObserve, kEnforce };

// One knob and the word that the profile says for it, checked as far as that goes without the node.
struct Wish {
  const Knob* knob;
  std::string value;
  std::optional<unsigned> queue;  // Of queue and interrupt knobs; empty: all.
  std::string place;              // "nics[0].rps.3"
};

struct NicMatch {
  std::string name, pci, driver;  // Patterns of fnmatch(3); empty: any.
  std::optional<int> numa_node;
};

struct NicRule {
  NicMatch match;
  std::string place;
  std::vector<Wish> wishes;
};

struct HugePageWish {
  std::uint64_t size_kib = 0;
  std::int64_t count = 0;
  std::optional<unsigned> numa_node;  // Empty: each.
  std::string place;
};

struct KubeletWish {
  bool advise = false;
  std::string cpu_policy, topology_policy, memory_policy;  // Empty: leave.
  std::optional<CpuSet> reserved;
  std::vector<std::pair<std::string, std::string>> options;  // cpuManagerPolicyOptions
};

struct BootWish {
  bool advise = false;
  std::vector<std::string> arguments;
  bool low_latency_firmware = false;  // Of Solarflare NICs: variant ultra-low-latency.
};

struct Profile {
  std::string name;
  ProfileMode mode = ProfileMode::kObserve;
  bool restore_on_remove = true;
  unsigned resync_seconds = 600;
  std::optional<CpuSet> lanes, housekeeping;  // Empty: found out on the node.
  bool siblings_idle = true;                  // Interrupts keep off the other threads of the lanes' cores too.
  std::vector<Wish> node, power;              // Of the node; of the lanes' CPUs.
  std::optional<Wish> irqs;                   // Of all interrupts that no NIC rule speaks of.
  std::vector<NicRule> nics;
  std::vector<HugePageWish> huge_pages;
  KubeletWish kubelet;
  BootWish boot;
};

// Errors name key, value and what would be right. Unknown keys are refused.
Result<Profile> parse_profile(std::string_view text);

}  // namespace podlane::nodeconfig
