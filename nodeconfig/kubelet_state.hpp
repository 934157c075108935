// What the kubelet has in force: its state files, configuration and drop-ins, read from the host. The API would need
// rights on nodes/proxy, which is command execution in every pod (kubernetes.io, "Kubelet authorization").
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/tree.hpp"

namespace podlane::nodeconfig {

struct ExclusiveCpus {
  std::string pod_uid, container;
  CpuSet cpus;
};

struct KubeletValue {
  std::string value, source;  // File, as on the node; "command line".
};

struct KubeletState {
  bool running = false;
  unsigned pid = 0;
  std::int64_t started_ms = 0;  // Since boot.
  std::string config_file, config_dir;

  // From cpu_manager_state: what is in force since the last start.
  std::string cpu_policy;  // "none", "static"; "" when there is no state file.
  CpuSet shared;           // defaultCpuSet
  std::vector<ExclusiveCpus> exclusive;
  std::string memory_policy;  // From memory_manager_state.

  // Written for the next start; later files win. Keys as in KubeletConfiguration, options as
  // "cpuManagerPolicyOptions.full-pcpus-only".
  std::map<std::string, KubeletValue> configured;

  std::vector<std::string> problems;  // Files that cannot be read or contradict each other, in words.

  CpuSet exclusive_cpus() const;
  CpuSet reserved() const;  // reservedSystemCPUs as configured; empty: none, or no list.
};

inline constexpr const char* kCpuManagerState = "/var/lib/kubelet/cpu_manager_state";
inline constexpr const char* kMemoryManagerState = "/var/lib/kubelet/memory_manager_state";

struct Process;
KubeletState read_kubelet_state(const Tree& tree, const Process* kubelet);

// Parsers of what the kubelet and its operator wrote: any bytes may stand in it.
Result<void> parse_cpu_manager_state(std::string_view text, KubeletState& state);
// The keys that concern CPUs and NUMA, of a KubeletConfiguration in YAML's block style or JSON. Whatever else stands in
// it is passed over.
std::map<std::string, std::string> parse_kubelet_configuration(std::string_view text);

}  // namespace podlane::nodeconfig
