#include "nodeconfig/kubelet_state.hpp"

#include <algorithm>
#include <array>

#include "lib/json/json.hpp"
#include "nodeconfig/owners.hpp"

namespace podlane::nodeconfig {

namespace {

// Scalars and maps of scalars of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that say who gets which CPU.
constexpr std::array<std::string_view, 6> kScalars = {"cpuManagerPolicy",      "reservedSystemCPUs",
                                                      "topologyManagerPolicy", "topologyManagerScope",
                                                      "memoryManagerPolicy",   "cpuManagerReconcilePeriod"};
constexpr std::array<std::string_view, 2> kMaps = {"cpuManagerPolicyOptions", "topologyManagerPolicyOptions"};

bool is_in(const auto& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string_view unquoted(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\t')) text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t close = text.find(text.front(), 1);
    return text.substr(1, close == text.npos ? text.npos : close - 1);
  }
  return text.substr(0, text.find(" #"));
}

void take_json(const json::Value& object, std::map<std::string, std::string>& values) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (is_in(kScalars, key) && value.is_string()) values[key] = value.get<std::string>();
    if (!is_in(kMaps, key) || !value.is_object()) continue;
    for (const auto& [option, setting] : value.items()) {
      values[key + "." + option] = setting.is_string() ? setting.get<std::string>() : json::dump(setting);
    }
  }
}

// Arguments of a process, from /proc/<pid>/cmdline.
std::vector<std::string> arguments_of(const Tree& tree, unsigned pid) {
  std::vector<std::string> arguments(1);
  const auto file = tree.read("/proc/" + std::to_string(pid) + "/cmdline");
  if (!file) return {};
  for (const char c : *file) {
    if (c == '\0') arguments.emplace_back();
    else arguments.back() += c;
  }
  return arguments;
}

// "--config=PATH", or "--config" and "PATH".
std::string flag_value(const std::vector<std::string>& arguments, const std::string& flag) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
    if (arguments[i] == flag && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return {};
}

void take_file(const Tree& tree, const std::string& path, KubeletState& state) {
  const auto file = tree.read(path);
  if (!file) {
    state.problems.push_back(file.error().message());
    return;
  }
  for (auto& [key, value] : parse_kubelet_configuration(*file)) state.configured[key] = {value, path};
}

// Drop-ins count in lexical order, sub-directories too (kubelet --config-dir).
void take_drop_ins(const Tree& tree, const std::string& directory, int depth, KubeletState& state) {
  std::vector<std::string> names = tree.list(directory);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    if (name.ends_with(".conf")) take_file(tree, path, state);
    else if (depth < 4) take_drop_ins(tree, path, depth + 1, state);
  }
}

void take_flags(const std::vector<std::string>& arguments, KubeletState& state) {
  constexpr std::pair<const char*, const char*> kFlags[] = {{"--cpu-manager-policy", "cpuManagerPolicy"},
                                                            {"--reserved-cpus", "reservedSystemCPUs"},
                                                            {"--topology-manager-policy", "topologyManagerPolicy"},
                                                            {"--topology-manager-scope", "topologyManagerScope"},
                                                            {"--memory-manager-policy", "memoryManagerPolicy"}};
  for (const auto& [flag, key] : kFlags) {
    const std::string value = flag_value(arguments, flag);
    if (!value.empty()) state.configured[key] = {value, "command line"};  // A flag wins over every file.
  }
}

}  // namespace

CpuSet KubeletState::exclusive_cpus() const {
  CpuSet all;
  for (const ExclusiveCpus& entry : exclusive) all = all | entry.cpus;
  return all;
}

CpuSet KubeletState::reserved() const {
  const auto it = configured.find("reservedSystemCPUs");
  return it == configured.end() ? CpuSet() : CpuSet::parse_list(it->second.value).value_or(CpuSet());
}

Result<void> parse_cpu_manager_state(std::string_view text, KubeletState& state) {
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(document, ""));
  PODLANE_TRY_ASSIGN(std::string policy, in.string("policyName"));
  PODLANE_TRY_ASSIGN(const auto shared_text, in.optional_string("defaultCpuSet"));
  PODLANE_TRY_ASSIGN(CpuSet shared, CpuSet::parse_list(shared_text.value_or("")));
  PODLANE_TRY_ASSIGN(const auto pods, in.optional_object("entries"));
  std::vector<ExclusiveCpus> exclusive;
  if (pods) {
    for (const auto& [uid, containers] : pods->value().items()) {
      PODLANE_TRY_ASSIGN(const json::Reader of_pod, json::Reader::open(containers, "entries." + uid));
      for (const auto& [container, cpus] : containers.items()) {
        PODLANE_TRY_ASSIGN(const std::string list, of_pod.string(container));
        auto set = CpuSet::parse_list(list);
        if (!set) return std::unexpected(std::move(set).error().with(of_pod.path_of(container)));
        exclusive.push_back({uid, container, std::move(*set)});
      }
    }
  }
  state.cpu_policy = std::move(policy);
  state.shared = std::move(shared);
  state.exclusive = std::move(exclusive);
  return {};
}

std::map<std::string, std::string> parse_kubelet_configuration(std::string_view text) {
  std::map<std::string, std::string> values;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    if (const auto document = json::parse(text)) take_json(*document, values);
    return values;
  }
  std::string map;  // The block that deeper lines belong to.
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == line.npos || line[indent] == '#') continue;
    const std::size_t colon = line.find(':', indent);
    if (colon == line.npos) continue;
    const std::string key(unquoted(line.substr(indent, colon - indent)));
    const std::string value(unquoted(line.substr(colon + 1)));
    if (indent == 0) {
      map = is_in(kMaps, key) ? key : "";
      if (is_in(kScalars, key) && !value.empty()) values[key] = value;
      // Flow style: "{full-pcpus-only: "true"}" is JSON but for its keys' quotes; kubeadm and drop-ins write blocks.
      if (!map.empty() && value.starts_with('{')) {
        if (const auto object = json::parse(value)) take_json(json::Value{{map, *object}}, values);
      }
    } else if (!map.empty() && !value.empty()) {
      values[map + "." + key] = value;
    }
  }
  return values;
}

KubeletState read_kubelet_state(const Tree& tree, const Process* kubelet) {
  KubeletState state;
  state.config_file = "/var/lib/kubelet/config.yaml";
  std::vector<std::string> arguments;
  if (kubelet != nullptr) {
    state.running = true;
    state.pid = kubelet->pid;
    state.started_ms = kubelet->started_ms;
    arguments = arguments_of(tree, kubelet->pid);
    if (const std::string path = flag_value(arguments, "--config"); !path.empty()) state.config_file = path;
    state.config_dir = flag_value(arguments, "--config-dir");
  }
  if (const auto file = tree.read(kCpuManagerState)) {
    const auto parsed = parse_cpu_manager_state(*file, state);
    if (!parsed) state.problems.push_back(std::string(kCpuManagerState) + ": " + parsed.error().message());
    // A kubelet that is killed between two writes leaves CPUs in both places: kubernetes issue 136604.
    const CpuSet both = state.exclusive_cpus() & state.shared;
    if (!both.empty()) {
      state.problems.push_back(std::string(kCpuManagerState) + ": CPUs " + both.list() +
                               " are exclusive to a pod and in the shared pool at once");
    }
  }
  if (const auto file = tree.read(kMemoryManagerState)) {
    if (const auto document = json::parse(*file); document && document->is_object()) {
      const json::Value policy = document->value("policyName", json::Value());
      if (policy.is_string()) state.memory_policy = policy.get<std::string>();
    }
  }
  if (tree.exists(state.config_file)) take_file(tree, state.config_file, state);
  if (!state.config_dir.empty()) take_drop_ins(tree, state.config_dir, 0, state);
  take_flags(arguments, state);
  return state;
}

}  // namespace podlane::nodeconfig
