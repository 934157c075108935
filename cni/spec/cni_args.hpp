// CniArgs: the environment of one call, checked. No I/O; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cni/spec/cni_error.hpp"

namespace podlane::cni {

enum class Command { kAdd, kDel, kCheck, kGc, kStatus, kVersion };

struct CniArgs {
  Command command = Command::kVersion;
  std::string container_id;
  std::string netns;  // Path; may be empty on DEL.
  std::string ifname;
  std::string path;                              // CNI_PATH
  std::string pod_namespace, pod_name, pod_uid;  // From CNI_ARGS; empty where the runtime does not say.
  std::string kubernetes_args;                   // What of CNI_ARGS an IPAM plugin of a pool may see.
  std::string args;                              // CNI_ARGS as it came.
  bool netns_override = false;                   // The runtime means the namespace that we run in.
};

// An empty optional: the variable is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;

CniResult<CniArgs> read_cni_args(const EnvironmentReader& environment);

// Interface names as CNI and the kernel agree on them: 1 to 15 bytes, not "." or "..", without '/', ':' and blanks.
bool is_interface_name(std::string_view name);
// Container ids and network names: alphanumeric, then alphanumeric, '_', '.', '-'.
bool is_cni_name(std::string_view name);

}  // namespace podlane::cni
