// The pods of the test kubelet and their lives, in the kubelet's order (kubernetes.md 3.1): Allocate, sandbox (the
// runtime runs the CNI chain), PreStartContainer, create and start, container by container. Any thread; calls for one
// pod run one after the other, for several pods side by side.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/json/json.hpp"
#include "podresources.grpc.pb.h"
#include "tests/kubelet/cri_client.hpp"
#include "tests/kubelet/device_manager.hpp"
#include "tests/kubelet/pod_spec.hpp"

namespace podlane::testkubelet {

struct Container {
  ContainerSpec spec;
  std::vector<Allocation> allocations;
  std::string id;  // Empty: not created.
  std::uint32_t attempt = 0;
};

struct Pod {
  std::mutex mutex;  // Held through a whole operation on the pod.
  PodSpec spec;
  std::string sandbox_id;
  std::uint32_t sandbox_attempt = 0;
  std::string phase = "admitted";  // "admitted", "running", "failed", "stopped"
  std::vector<Container> containers;
  // Guarded by PodManager::mutex_, so that pod-resources answers while the runtime works on the pod.
  v1::PodResources resources;
};

class PodManager {
 public:
  // cri may be null: pods are then admitted (Allocate) and no more.
  PodManager(DeviceManager& devices, CriClient* cri, std::string log_dir, std::string cgroup_parent, Log& log);

  // Allocate for every container; the pod is listed from then on. Answers what the containers were given.
  Result<json::Value> admit(const json::Value& pod);
  // admit, sandbox, containers. A pod whose sandbox fails is forgotten; one whose container fails stays, as "failed".
  Result<json::Value> run(const json::Value& pod);
  Result<void> pre_start(const std::string& pod, const std::string& container);
  // Stops the container, then PreStartContainer, create, start: what a crash makes the kubelet do.
  Result<void> restart_container(const std::string& pod, const std::string& container, std::chrono::seconds grace);
  // A new sandbox for the same pod, containers in it; the old one goes before (kubelet) or after (late DEL).
  Result<void> new_sandbox(const std::string& pod, bool old_one_first);
  Result<void> remove(const std::string& pod, std::chrono::seconds grace);
  // Devices are given back and the pod is no longer listed; the runtime is told nothing. For leaks.
  Result<void> forget(const std::string& pod);
  Result<ExecResult> exec(const std::string& pod, const std::string& container, const std::vector<std::string>& command,
                          std::chrono::seconds limit);

  json::Value status();
  std::vector<v1::PodResources> resources();

 private:
  Result<std::shared_ptr<Pod>> find(const std::string& key);
  static Result<Container*> find_container(Pod& pod, const std::string& name);
  Result<std::shared_ptr<Pod>> admit_pod(const PodSpec& spec);
  void drop(const std::shared_ptr<Pod>& pod);
  Result<void> make_sandbox(Pod& pod);
  Result<void> start_containers(Pod& pod);
  Result<void> start_container(Pod& pod, Container& container);
  Result<void> end_container(Container& container, std::chrono::seconds grace);
  Result<void> end_sandbox(const std::string& id);
  std::string log_dir_of(const Pod& pod) const;
  runtime::v1::PodSandboxConfig sandbox_config(const Pod& pod) const;
  json::Value describe(Pod& pod);

  DeviceManager& devices_;
  CriClient* cri_;
  const std::string log_dir_, cgroup_parent_;
  Log& log_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Pod>> pods_;
};

// The CRI form of a container: what the pod asks for and what Allocate answered.
runtime::v1::ContainerConfig container_config(const Container& container);

}  // namespace podlane::testkubelet
