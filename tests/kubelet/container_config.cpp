#include "tests/kubelet/pod_manager.hpp"

namespace podlane::testkubelet {

namespace {

namespace cri = runtime::v1;

// The kubelet's conversion (pkg/kubelet/cm/helpers_linux.go): 1024 shares for a CPU, a quota for each 100 ms.
void fill_resources(const ContainerSpec& spec, cri::LinuxContainerResources& out) {
  constexpr std::int64_t kPeriodMicroseconds = 100000;
  if (spec.cpu_millis > 0) {
    out.set_cpu_shares(std::max<std::int64_t>(2, spec.cpu_millis * 1024 / 1000));
    // Exclusive CPUs are not throttled (CPU manager with disabled quota, on from Kubernetes 1.33).
    if (spec.cpuset.empty()) {
      out.set_cpu_period(kPeriodMicroseconds);
      out.set_cpu_quota(spec.cpu_millis * kPeriodMicroseconds / 1000);
    }
  }
  out.set_memory_limit_in_bytes(spec.memory_bytes);
  out.set_cpuset_cpus(spec.cpuset);
  for (const auto& [size, bytes] : spec.huge_pages) {
    auto& limit = *out.add_hugepage_limits();
    limit.set_page_size(size);
    limit.set_limit(bytes);
  }
}

void fill_security(const ContainerSpec& spec, cri::LinuxContainerSecurityContext& out) {
  out.mutable_namespace_options()->set_pid(cri::CONTAINER);
  out.set_privileged(spec.privileged);
  out.mutable_run_as_user()->set_value(spec.run_as_user);
  out.mutable_run_as_group()->set_value(spec.run_as_group);
  out.set_no_new_privs(spec.no_new_privs);
  out.set_readonly_rootfs(spec.read_only_rootfs);
  out.mutable_seccomp()->set_profile_type(spec.runtime_seccomp ? cri::SecurityProfile::RuntimeDefault
                                                               : cri::SecurityProfile::Unconfined);
  out.mutable_capabilities()->add_drop_capabilities("ALL");
  for (const std::string& capability : spec.add_capabilities) {
    out.mutable_capabilities()->add_add_capabilities(capability);
  }
  // The kubelet's lists for procMount Default (pkg/securitycontext).
  for (const char* path :
       {"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
        "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}) {
    out.add_masked_paths(path);
  }
  for (const char* path : {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}) {
    out.add_readonly_paths(path);
  }
}

void add_env(cri::ContainerConfig& out, const std::string& key, const std::string& value) {
  auto& one = *out.add_envs();
  one.set_key(key);
  one.set_value(value);
}

}  // namespace

cri::ContainerConfig container_config(const Container& container) {
  const ContainerSpec& spec = container.spec;
  cri::ContainerConfig out;
  out.mutable_metadata()->set_name(spec.name);
  out.mutable_metadata()->set_attempt(container.attempt);
  out.mutable_image()->set_image(spec.image);
  for (const std::string& word : spec.command) out.add_command(word);
  for (const std::string& word : spec.args) out.add_args(word);
  out.set_working_dir(spec.working_dir);
  for (const auto& [key, value] : spec.env) add_env(out, key, value);
  for (const MountSpec& mount : spec.mounts) {
    auto& one = *out.add_mounts();
    one.set_host_path(mount.host_path);
    one.set_container_path(mount.container_path);
    one.set_readonly(mount.read_only);
  }
  for (const Allocation& allocation : container.allocations) {
    for (const auto& [key, value] : allocation.answer.envs()) add_env(out, key, value);
    for (const auto& mount : allocation.answer.mounts()) {
      auto& one = *out.add_mounts();
      one.set_host_path(mount.host_path());
      one.set_container_path(mount.container_path());
      one.set_readonly(mount.read_only());
    }
    for (const auto& device : allocation.answer.devices()) {
      auto& one = *out.add_devices();
      one.set_host_path(device.host_path());
      one.set_container_path(device.container_path());
      one.set_permissions(device.permissions());
    }
    for (const auto& [key, value] : allocation.answer.annotations()) (*out.mutable_annotations())[key] = value;
  }
  out.set_log_path(spec.name + "." + std::to_string(container.attempt) + ".log");
  fill_resources(spec, *out.mutable_linux_config()->mutable_resources());
  fill_security(spec, *out.mutable_linux_config()->mutable_security_context());
  return out;
}

}  // namespace podlane::testkubelet
