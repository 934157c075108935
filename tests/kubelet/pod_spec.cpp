#include "tests/kubelet/pod_spec.hpp"

#include <charconv>
#include <random>

namespace podlane::testkubelet {

namespace {

std::string random_uid() {
  std::random_device random;
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-4%03x-8%03x-%08x%04x", random(), random() & 0xffff, random() & 0xfff,
                random() & 0xfff, random(), random() & 0xffff);
  return text;
}

// "1", "1.5", "64Mi", "250m": value in thousandths of the unit.
Result<std::int64_t> parse_quantity(const json::Value& value, const std::string& path) {
  if (value.is_number_integer()) return value.get<std::int64_t>() * 1000;
  if (!value.is_string()) return fail(Errc::kInvalid, path + " must be a number or a quantity such as \"64Mi\"");
  const std::string text = value.get<std::string>();
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(parsed.ptr, text.data() + text.size());
  static const std::map<std::string_view, double> kFactors = {
      {"", 1e3},   {"m", 1},       {"k", 1e6},        {"M", 1e9},
      {"G", 1e12}, {"Ki", 1024e3}, {"Mi", 1048576e3}, {"Gi", 1073741824e3}};
  const auto factor = kFactors.find(suffix);
  if (parsed.ec != std::errc{} || factor == kFactors.end()) {
    return fail(Errc::kInvalid, path + " '" + text + "' is not a quantity such as 2, 250m or 64Mi");
  }
  return static_cast<std::int64_t>(number * factor->second);
}

Result<std::map<std::string, std::string>> parse_map(const json::Reader& reader, const char* key) {
  std::map<std::string, std::string> out;
  const json::Value* value = reader.find(key);
  if (value == nullptr) return out;
  if (!value->is_object()) return fail(Errc::kInvalid, reader.path_of(key) + " must be an object");
  for (const auto& [name, text] : value->items()) {
    if (!text.is_string()) return fail(Errc::kInvalid, reader.path_of(key) + "." + name + " must be a string");
    out[name] = text.get<std::string>();
  }
  return out;
}

Result<void> parse_resources(const json::Reader& container, ContainerSpec& out) {
  PODLANE_TRY_ASSIGN(const auto resources, container.optional_object("resources"));
  if (!resources) return {};
  const json::Value* limits = resources->find("limits");
  if (limits == nullptr) return {};
  if (!limits->is_object()) return fail(Errc::kInvalid, resources->path_of("limits") + " must be an object");
  for (const auto& [name, value] : limits->items()) {
    PODLANE_TRY_ASSIGN(const std::int64_t thousandths,
                       parse_quantity(value, resources->path_of("limits") + "." + name));
    if (name == "cpu") {
      out.cpu_millis = thousandths;
    } else if (name == "memory") {
      out.memory_bytes = thousandths / 1000;
    } else if (name == "hugepages-2Mi") {
      out.huge_pages["2MB"] = static_cast<std::uint64_t>(thousandths / 1000);
    } else if (name == "hugepages-1Gi") {
      out.huge_pages["1GB"] = static_cast<std::uint64_t>(thousandths / 1000);
    } else if (name.find('/') != std::string::npos && thousandths > 0 && thousandths % 1000 == 0) {
      out.devices[name] = static_cast<int>(thousandths / 1000);
    } else {
      return fail(Errc::kInvalid, resources->path_of("limits") + "." + name +
                                      ": known are cpu, memory, hugepages-2Mi, hugepages-1Gi and whole numbers of an "
                                      "extended resource such as podlane.io/feed");
    }
  }
  return {};
}

Result<void> parse_security(const json::Reader& container, ContainerSpec& out) {
  PODLANE_TRY_ASSIGN(const auto security, container.optional_object("securityContext"));
  if (!security) return {};
  PODLANE_TRY_ASSIGN(const auto user, security->optional_integer("runAsUser", 0, 4294967295));
  PODLANE_TRY_ASSIGN(const auto group, security->optional_integer("runAsGroup", 0, 4294967295));
  PODLANE_TRY_ASSIGN(const auto escalation, security->optional_boolean("allowPrivilegeEscalation"));
  PODLANE_TRY_ASSIGN(const auto read_only, security->optional_boolean("readOnlyRootFilesystem"));
  PODLANE_TRY_ASSIGN(const auto privileged, security->optional_boolean("privileged"));
  PODLANE_TRY_ASSIGN(const auto capabilities, security->optional_object("capabilities"));
  PODLANE_TRY_ASSIGN(const auto seccomp, security->optional_object("seccompProfile"));
  out.run_as_user = user.value_or(out.run_as_user);
  out.run_as_group = group.value_or(out.run_as_group);
  out.no_new_privs = !escalation.value_or(false);
  out.read_only_rootfs = read_only.value_or(true);
  out.privileged = privileged.value_or(false);
  if (capabilities) {
    PODLANE_TRY_ASSIGN(out.add_capabilities, capabilities->optional_strings("add"));
  }
  if (seccomp) {
    PODLANE_TRY_ASSIGN(const auto type, seccomp->optional_choice("type", {"RuntimeDefault", "Unconfined"}));
    out.runtime_seccomp = type.value_or("RuntimeDefault") == "RuntimeDefault";
  }
  return {};
}

Result<ContainerSpec> parse_container(const json::Reader& reader, bool sidecar) {
  ContainerSpec out;
  out.sidecar = sidecar;
  PODLANE_TRY_ASSIGN(out.name, reader.string("name"));
  PODLANE_TRY_ASSIGN(const auto image, reader.optional_string("image"));
  out.image = image.value_or("");
  PODLANE_TRY_ASSIGN(const auto working_dir, reader.optional_string("workingDir"));
  out.working_dir = working_dir.value_or("");
  PODLANE_TRY_ASSIGN(out.command, reader.optional_strings("command"));
  PODLANE_TRY_ASSIGN(out.args, reader.optional_strings("args"));
  PODLANE_TRY_ASSIGN(const auto cpuset, reader.optional_string("cpuset"));
  out.cpuset = cpuset.value_or("");
  PODLANE_TRY_ASSIGN(const auto env, reader.optional_objects("env"));
  for (const json::Reader& one : env) {
    PODLANE_TRY_ASSIGN(std::string name, one.string("name"));
    PODLANE_TRY_ASSIGN(const auto value, one.optional_string("value"));
    out.env.emplace_back(std::move(name), value.value_or(""));
  }
  PODLANE_TRY_ASSIGN(const auto mounts, reader.optional_objects("mounts"));
  for (const json::Reader& one : mounts) {
    MountSpec mount;
    PODLANE_TRY_ASSIGN(mount.host_path, one.string("hostPath"));
    PODLANE_TRY_ASSIGN(mount.container_path, one.string("mountPath"));
    PODLANE_TRY_ASSIGN(const auto read_only, one.optional_boolean("readOnly"));
    mount.read_only = read_only.value_or(true);
    out.mounts.push_back(std::move(mount));
  }
  PODLANE_TRY(parse_resources(reader, out));
  PODLANE_TRY(parse_security(reader, out));
  return out;
}

}  // namespace

Result<PodSpec> parse_pod(const json::Value& pod) {
  PodSpec out;
  PODLANE_TRY_ASSIGN(const json::Reader top, json::Reader::open(pod, "pod"));
  PODLANE_TRY_ASSIGN(const auto metadata, top.optional_object("metadata"));
  PODLANE_TRY_ASSIGN(const auto spec, top.optional_object("spec"));
  if (!metadata || !spec) return fail(Errc::kInvalid, "pod needs the keys metadata and spec, as in Kubernetes");
  PODLANE_TRY_ASSIGN(out.name, metadata->string("name"));
  PODLANE_TRY_ASSIGN(const auto name_space, metadata->optional_string("namespace"));
  out.name_space = name_space.value_or("default");
  PODLANE_TRY_ASSIGN(const auto uid, metadata->optional_string("uid"));
  out.uid = uid.value_or(random_uid());
  PODLANE_TRY_ASSIGN(out.annotations, parse_map(*metadata, "annotations"));
  PODLANE_TRY_ASSIGN(out.labels, parse_map(*metadata, "labels"));
  PODLANE_TRY_ASSIGN(const auto host_network, spec->optional_boolean("hostNetwork"));
  out.host_network = host_network.value_or(false);
  PODLANE_TRY_ASSIGN(const auto init_containers, spec->optional_objects("initContainers"));
  for (const json::Reader& reader : init_containers) {
    PODLANE_TRY_ASSIGN(const auto policy, reader.optional_string("restartPolicy"));
    if (policy != "Always") {
      return fail(Errc::kInvalid,
                  reader.path_of("restartPolicy") +
                      " must be Always: the test kubelet knows init containers as native sidecars only");
    }
    PODLANE_TRY_ASSIGN(ContainerSpec container, parse_container(reader, true));
    out.containers.push_back(std::move(container));
  }
  PODLANE_TRY_ASSIGN(const auto containers, spec->optional_objects("containers"));
  for (const json::Reader& reader : containers) {
    PODLANE_TRY_ASSIGN(ContainerSpec container, parse_container(reader, false));
    out.containers.push_back(std::move(container));
  }
  if (containers.empty()) return fail(Errc::kInvalid, "pod.spec.containers needs at least one container");
  return out;
}

}  // namespace podlane::testkubelet
