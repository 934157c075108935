// A pod as the test kubelet reads it: the JSON of a Kubernetes Pod, the keys that matter here (README.md lists them).
// What the pod does not say is filled in as for the restricted Pod Security Standard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/json/json.hpp"

namespace podlane::testkubelet {

struct MountSpec {
  std::string host_path, container_path;
  bool read_only = true;
};

struct ContainerSpec {
  std::string name, image, working_dir;
  std::vector<std::string> command, args;
  std::vector<std::pair<std::string, std::string>> env;
  std::map<std::string, int> devices;  // By resource name: "podlane.io/feed" -> 1.
  std::int64_t memory_bytes = 0;       // 0: no limit.
  std::int64_t cpu_millis = 0;
  std::map<std::string, std::uint64_t> huge_pages;  // By page size as CRI writes it: "2MB" -> bytes.
  std::string cpuset;                               // Extension: what the CPU manager would give.
  std::vector<MountSpec> mounts;                    // Extension: host directories.
  std::int64_t run_as_user = 65534, run_as_group = 65534;
  std::vector<std::string> add_capabilities;
  bool no_new_privs = true, read_only_rootfs = true, runtime_seccomp = true, privileged = false;
  bool sidecar = false;  // initContainers with restartPolicy Always: started first, stopped last.
};

struct PodSpec {
  std::string name_space = "default", name, uid;
  std::map<std::string, std::string> annotations, labels;
  bool host_network = false;
  std::vector<ContainerSpec> containers;  // In starting order: sidecars, then the others.

  std::string key() const { return name_space + "/" + name; }
};

Result<PodSpec> parse_pod(const json::Value& pod);

}  // namespace podlane::testkubelet
