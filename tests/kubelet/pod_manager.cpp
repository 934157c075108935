#include "tests/kubelet/pod_manager.hpp"

#include "lib/base/file.hpp"

namespace podlane::testkubelet {

namespace {

namespace cri = runtime::v1;

json::Value answers(const Pod& pod) {
  json::Value out = json::Value::array();
  for (const Container& container : pod.containers) {
    json::Value env = json::Value::object();
    json::Value mounts = json::Value::array();
    json::Value devices = json::Value::object();
    for (const Allocation& allocation : container.allocations) {
      devices[allocation.resource] = allocation.device_ids;
      for (const auto& [key, value] : allocation.answer.envs()) env[key] = value;
      for (const auto& mount : allocation.answer.mounts()) {
        mounts.push_back(
            {{"hostPath", mount.host_path()}, {"mountPath", mount.container_path()}, {"readOnly", mount.read_only()}});
      }
    }
    out.push_back({{"name", container.spec.name}, {"devices", devices}, {"env", env}, {"mounts", mounts}});
  }
  return out;
}

v1::PodResources pod_resources(const Pod& pod) {
  v1::PodResources out;
  out.set_name(pod.spec.name);
  out.set_namespace_(pod.spec.name_space);
  for (const Container& container : pod.containers) {
    auto& one = *out.add_containers();
    one.set_name(container.spec.name);
    for (const Allocation& allocation : container.allocations) {
      for (const std::string& id : allocation.device_ids) {
        auto& devices = *one.add_devices();
        devices.set_resource_name(allocation.resource);
        devices.add_device_ids(id);
      }
    }
  }
  return out;
}

}  // namespace

PodManager::PodManager(DeviceManager& devices, CriClient* cri, std::string log_dir, std::string cgroup_parent, Log& log)
    : devices_(devices), cri_(cri), log_dir_(std::move(log_dir)), cgroup_parent_(std::move(cgroup_parent)), log_(log) {}

Result<std::shared_ptr<Pod>> PodManager::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = pods_.find(key);
  if (found == pods_.end()) return fail(Errc::kNotFound, "no pod '" + key + "'; name it as namespace/name");
  return found->second;
}

Result<Container*> PodManager::find_container(Pod& pod, const std::string& name) {
  for (Container& container : pod.containers) {
    if (container.spec.name == name || name.empty()) return &container;
  }
  return fail(Errc::kNotFound, "pod " + pod.spec.key() + " has no container '" + name + "'");
}

Result<std::shared_ptr<Pod>> PodManager::admit_pod(const PodSpec& spec) {
  auto pod = std::make_shared<Pod>();
  pod->spec = spec;
  {
    // The name is taken at once, so that a second pod of that name is refused while this one is being admitted.
    const std::lock_guard lock(mutex_);
    if (!pods_.emplace(spec.key(), pod).second) return fail(Errc::kExists, "pod " + spec.key() + " exists");
  }
  for (const ContainerSpec& container : spec.containers) {
    pod->containers.push_back({.spec = container, .allocations = {}, .id = {}});
    for (const auto& [resource, count] : container.devices) {
      auto allocation = devices_.allocate(resource, count);
      if (!allocation) {
        drop(pod);
        return std::unexpected(std::move(allocation).error().with("UnexpectedAdmissionError"));
      }
      pod->containers.back().allocations.push_back(std::move(*allocation));
    }
  }
  const std::lock_guard lock(mutex_);
  pod->resources = pod_resources(*pod);
  return pod;
}

// Gives the devices back and forgets the pod.
void PodManager::drop(const std::shared_ptr<Pod>& pod) {
  {
    const std::lock_guard lock(mutex_);
    pods_.erase(pod->spec.key());
  }
  for (const Container& container : pod->containers) {
    for (const Allocation& allocation : container.allocations) devices_.release(allocation);
  }
}

Result<json::Value> PodManager::admit(const json::Value& value) {
  PODLANE_TRY_ASSIGN(const PodSpec spec, parse_pod(value));
  PODLANE_TRY_ASSIGN(const auto pod, admit_pod(spec));
  return json::Value{{"pod", spec.key()}, {"uid", spec.uid}, {"containers", answers(*pod)}};
}

Result<json::Value> PodManager::run(const json::Value& value) {
  if (cri_ == nullptr) return fail(Errc::kInvalid, "run-pod needs a runtime: start test-kubelet with --cri SOCKET");
  PODLANE_TRY_ASSIGN(const PodSpec spec, parse_pod(value));
  PODLANE_TRY_ASSIGN(const auto pod, admit_pod(spec));
  const std::lock_guard lock(pod->mutex);
  if (auto made = make_sandbox(*pod); !made) {
    drop(pod);
    return std::unexpected(std::move(made).error().with("FailedCreatePodSandBox", spec.key()));
  }
  if (auto started = start_containers(*pod); !started) {
    pod->phase = "failed";
    return std::unexpected(std::move(started).error().with("pod", spec.key()));
  }
  pod->phase = "running";
  json::Value out = describe(*pod);
  out["containersGiven"] = answers(*pod);
  return out;
}

std::string PodManager::log_dir_of(const Pod& pod) const {
  return log_dir_ + "/" + pod.spec.name_space + "_" + pod.spec.name + "_" + pod.spec.uid;
}

cri::PodSandboxConfig PodManager::sandbox_config(const Pod& pod) const {
  cri::PodSandboxConfig out;
  out.mutable_metadata()->set_name(pod.spec.name);
  out.mutable_metadata()->set_namespace_(pod.spec.name_space);
  out.mutable_metadata()->set_uid(pod.spec.uid);
  out.mutable_metadata()->set_attempt(pod.sandbox_attempt);
  out.set_hostname(pod.spec.host_network ? "" : pod.spec.name);
  out.set_log_directory(log_dir_of(pod));
  for (const auto& [key, value] : pod.spec.annotations) (*out.mutable_annotations())[key] = value;
  for (const auto& [key, value] : pod.spec.labels) (*out.mutable_labels())[key] = value;
  auto& linux_part = *out.mutable_linux_config();
  if (!cgroup_parent_.empty()) linux_part.set_cgroup_parent(cgroup_parent_ + "/pod" + pod.spec.uid);
  auto& security = *linux_part.mutable_security_context();
  security.mutable_namespace_options()->set_pid(cri::CONTAINER);
  if (pod.spec.host_network) security.mutable_namespace_options()->set_network(cri::NODE);
  security.mutable_seccomp()->set_profile_type(cri::SecurityProfile::RuntimeDefault);
  security.mutable_run_as_user()->set_value(65534);
  security.mutable_run_as_group()->set_value(65534);
  return out;
}

Result<void> PodManager::make_sandbox(Pod& pod) {
  PODLANE_TRY(make_directories(log_dir_of(pod)));
  PODLANE_TRY_ASSIGN(pod.sandbox_id, cri_->run_sandbox(sandbox_config(pod)));
  log_.info("sandbox runs", {{"pod", pod.spec.key()}, {"sandbox", pod.sandbox_id}});
  return {};
}

Result<void> PodManager::start_containers(Pod& pod) {
  for (Container& container : pod.containers) PODLANE_TRY(start_container(pod, container));
  return {};
}

Result<void> PodManager::start_container(Pod& pod, Container& container) {
  for (const Allocation& allocation : container.allocations) PODLANE_TRY(devices_.pre_start(allocation));
  PODLANE_TRY_ASSIGN(container.id,
                     cri_->create_container(pod.sandbox_id, container_config(container), sandbox_config(pod)));
  ++container.attempt;
  PODLANE_TRY(cri_->start_container(container.id));
  log_.info("container started", {{"pod", pod.spec.key()}, {"container", container.spec.name}});
  return {};
}

Result<void> PodManager::pre_start(const std::string& key, const std::string& name) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  const std::lock_guard lock(pod->mutex);
  PODLANE_TRY_ASSIGN(const Container* container, find_container(*pod, name));
  for (const Allocation& allocation : container->allocations) PODLANE_TRY(devices_.pre_start(allocation));
  return {};
}

Result<void> PodManager::end_container(Container& container, std::chrono::seconds grace) {
  if (container.id.empty()) return {};
  PODLANE_TRY(cri_->stop_container(container.id, grace));
  PODLANE_TRY(cri_->remove_container(container.id));
  container.id.clear();
  return {};
}

Result<void> PodManager::restart_container(const std::string& key, const std::string& name,
                                           std::chrono::seconds grace) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  const std::lock_guard lock(pod->mutex);
  if (cri_ == nullptr || pod->sandbox_id.empty()) return fail(Errc::kInvalid, "pod " + key + " has no sandbox");
  PODLANE_TRY_ASSIGN(Container * container, find_container(*pod, name));
  PODLANE_TRY(end_container(*container, grace));
  PODLANE_TRY(start_container(*pod, *container));
  pod->phase = "running";
  return {};
}

// StopPodSandbox twice: the kubelet does so too, and the second DEL comes without a namespace (kubernetes.md 1.8).
Result<void> PodManager::end_sandbox(const std::string& id) {
  PODLANE_TRY(cri_->stop_sandbox(id));
  PODLANE_TRY(cri_->stop_sandbox(id));
  return cri_->remove_sandbox(id);
}

Result<void> PodManager::new_sandbox(const std::string& key, bool old_one_first) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  const std::lock_guard lock(pod->mutex);
  if (cri_ == nullptr || pod->sandbox_id.empty()) return fail(Errc::kInvalid, "pod " + key + " has no sandbox");
  const std::string old = pod->sandbox_id;
  for (Container& container : pod->containers) {
    PODLANE_TRY(end_container(container, std::chrono::seconds(0)));
    container.attempt = 0;
  }
  if (old_one_first) PODLANE_TRY(end_sandbox(old));
  ++pod->sandbox_attempt;
  PODLANE_TRY(make_sandbox(*pod));
  PODLANE_TRY(start_containers(*pod));
  if (!old_one_first) PODLANE_TRY(end_sandbox(old));
  return {};
}

Result<void> PodManager::remove(const std::string& key, std::chrono::seconds grace) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  const std::lock_guard lock(pod->mutex);
  if (cri_ != nullptr) {
    // Last started, first stopped: sidecars outlive the containers that they serve.
    for (auto container = pod->containers.rbegin(); container != pod->containers.rend(); ++container) {
      PODLANE_TRY(end_container(*container, grace));
    }
    if (!pod->sandbox_id.empty()) PODLANE_TRY(end_sandbox(pod->sandbox_id));
  }
  drop(pod);
  return {};
}

Result<void> PodManager::forget(const std::string& key) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  const std::lock_guard lock(pod->mutex);
  drop(pod);
  return {};
}

Result<ExecResult> PodManager::exec(const std::string& key, const std::string& name,
                                    const std::vector<std::string>& command, std::chrono::seconds limit) {
  PODLANE_TRY_ASSIGN(const auto pod, find(key));
  std::string id;
  {
    // Not held through the command: it may run long, and the pod may have to be removed meanwhile.
    const std::lock_guard lock(pod->mutex);
    PODLANE_TRY_ASSIGN(const Container* container, find_container(*pod, name));
    id = container->id;
  }
  if (cri_ == nullptr || id.empty())
    return fail(Errc::kInvalid, "container '" + name + "' of " + key + " does not run");
  return cri_->exec(id, command, limit);
}

json::Value PodManager::describe(Pod& pod) {
  json::Value out{{"pod", pod.spec.key()},
                  {"uid", pod.spec.uid},
                  {"phase", pod.phase},
                  {"sandbox", pod.sandbox_id},
                  {"logDirectory", log_dir_of(pod)}};
  if (cri_ != nullptr && !pod.sandbox_id.empty()) {
    if (const auto sandbox = cri_->sandbox(pod.sandbox_id)) {
      out["ready"] = sandbox->ready;
      out["ip"] = sandbox->ip;
      out["netns"] = sandbox->netns;
    }
  }
  json::Value containers = json::Value::array();
  for (const Container& container : pod.containers) {
    json::Value one{{"name", container.spec.name}, {"id", container.id}};
    json::Value devices = json::Value::object();
    for (const Allocation& allocation : container.allocations) devices[allocation.resource] = allocation.device_ids;
    one["devices"] = devices;
    if (cri_ != nullptr && !container.id.empty()) {
      if (const auto state = cri_->container(container.id)) {
        one["state"] = state->state;
        one["exitCode"] = state->exit_code;
        one["reason"] = state->reason;
        one["pid"] = state->pid;
        one["log"] = log_dir_of(pod) + "/" + container.spec.name + "." + std::to_string(container.attempt - 1) + ".log";
      }
    }
    containers.push_back(std::move(one));
  }
  out["containers"] = std::move(containers);
  return out;
}

json::Value PodManager::status() {
  std::vector<std::shared_ptr<Pod>> pods;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, pod] : pods_) pods.push_back(pod);
  }
  json::Value out = json::Value::array();
  for (const auto& pod : pods) {
    const std::lock_guard lock(pod->mutex);
    out.push_back(describe(*pod));
  }
  return out;
}

std::vector<v1::PodResources> PodManager::resources() {
  std::vector<v1::PodResources> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, pod] : pods_) out.push_back(pod->resources);
  return out;
}

}  // namespace podlane::testkubelet
