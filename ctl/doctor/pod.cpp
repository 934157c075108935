#include "ctl/doctor/pod.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "ctl/doctor/sight.hpp"
#include "lib/journal/attachment_record.hpp"

namespace podlane::doctor {

namespace {

using nodeconfig::Tree;

constexpr const char* kRecords = "/run/podlane/attachments";

std::uint64_t count_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "Name:\tvalue" of /proc/<pid>/status, "  eth0: 1 2" of /proc/<pid>/net/dev.
std::string_view field_of(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    at = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::string_view value = line.substr(name.size() + 1);
    const std::size_t first = value.find_first_not_of(" \t");
    return first == value.npos ? std::string_view() : value.substr(first);
  }
  return {};
}

std::string owners_in_words(const std::vector<Lane>& lanes) {
  std::set<std::string> pods;
  for (const Lane& lane : lanes) {
    if (!lane.pod.empty()) pods.insert(lane.name_space + "/" + lane.pod);
  }
  std::string text;
  for (const std::string& pod : pods) text += (text.empty() ? "" : ", ") + pod;
  return text;
}

// Words that stand in the cgroup path of this pod's processes.
std::vector<std::string> marks_of(const Tree& tree, Pod& pod) {
  std::vector<std::string> marks;
  for (const std::string& name : tree.list(kRecords)) {
    const auto text = tree.read(std::string(kRecords) + "/" + name);
    if (!text) continue;
    const auto record = journal::decode_attachment_record(*text);
    if (!record || record->pod_namespace != pod.name_space || record->pod_name != pod.name) continue;
    pod.uid = record->pod_uid;
    if (!record->key.container_id.empty()) marks.push_back(record->key.container_id);
    if (record->pod_uid.size() < 8) continue;
    marks.push_back(record->pod_uid);
    std::string in_slice = record->pod_uid;  // systemd's names have no '-' of their own.
    std::replace(in_slice.begin(), in_slice.end(), '-', '_');
    marks.push_back(std::move(in_slice));
  }
  return marks;
}

// Whether the network namespace of a process holds the lane's address.
bool has_address(const Tree& tree, const std::string& pid, const std::vector<std::string>& addresses) {
  const auto trie = tree.read("/proc/" + pid + "/net/fib_trie");
  if (!trie) return false;
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
    const std::string host = " " + address.substr(0, address.find('/')) + "\n";
    return host.size() > 8 && trie->find(host) != std::string::npos;
  });
}

void read_process(const Tree& tree, const std::string& pid, PodProcess& process) {
  const std::string root = "/proc/" + pid;
  const auto status = tree.read(root + "/status");
  if (!status) return;
  process.name = field_of(*status, "Name");
  process.allowed = CpuSet::parse_list(field_of(*status, "Cpus_allowed_list")).value_or(CpuSet());
  process.involuntary = count_of(field_of(*status, "nonvoluntary_ctxt_switches"));
  process.swap_kib = count_of(field_of(*status, "VmSwap"));
  const auto limits = tree.read(root + "/limits");
  if (!limits) return;
  const std::size_t at = limits->find("Max locked memory");
  if (at == std::string::npos) return;
  const auto words = words_of(std::string_view(*limits).substr(at));
  if (words.size() > 3) process.memory_lock = words[3];
}

// Where a cgroup's files are: one tree on v2, one a controller on v1.
std::string file_of(const Tree& tree, const std::string& cgroup, bool v2, const char* controller, const char* name) {
  if (v2) return "/sys/fs/cgroup" + cgroup + "/" + name;
  for (const std::string& mount : {std::string(controller), std::string(controller) + ",cpuacct"}) {
    std::string path = "/sys/fs/cgroup/" + mount + cgroup + "/" + name;
    if (tree.exists(path)) return path;
  }
  return {};
}

void read_cgroup(const Tree& tree, const std::string& cgroup, bool v2, Pod& pod) {
  const std::string path = file_of(tree, cgroup, v2, "cpu", "cpu.stat");
  if (const auto text = path.empty() ? Result<std::string>(fail(Errc::kNotFound, "")) : tree.read(path)) {
    Throttle throttle = parse_cpu_stat(*text);
    throttle.path = path;
    const std::string root = path.substr(0, path.rfind('/'));
    if (const auto limit = tree.read(root + "/cpu.max")) {
      const auto words = words_of(*limit);
      if (words.size() == 2)
        throttle.quota = words[0] == "max" ? "max" : std::string(words[0]) + " of " + std::string(words[1]) + " us";
    } else if (const auto quota = tree.read(root + "/cpu.cfs_quota_us")) {
      throttle.quota = *quota == "-1" ? "max" : *quota + " us";
    }
    pod.throttles.push_back(std::move(throttle));
  }
  for (const char* name : {"cpuset.cpus.effective", "cpuset.effective_cpus"}) {
    const std::string file = file_of(tree, cgroup, v2, "cpuset", name);
    if (file.empty()) continue;
    const auto text = tree.read(file);
    const auto cpus = text ? CpuSet::parse_list(*text) : Result<CpuSet>(CpuSet());
    if (text && cpus) {
      pod.effective = pod.effective | *cpus;
      return;
    }
  }
}

// "lane0:  1000 10 0 2 …": received bytes packets errs drop …, sent bytes packets errs drop (proc(5), /proc/net/dev).
void read_drops(const Tree& tree, const std::string& pid, const std::vector<Lane>& lanes, Pod& pod) {
  const auto text = tree.read("/proc/" + pid + "/net/dev");
  if (!text) return;
  for (const Lane& lane : lanes) {
    if (lane.pod != pod.name || lane.name_space != pod.name_space || lane.ifname.empty()) continue;
    const auto words = words_of(field_of(*text, lane.ifname));
    if (words.size() < 12) continue;
    pod.drops.push_back({lane.ifname, count_of(words[3]), count_of(words[11])});
  }
}

Result<Pod> pod_named(const std::vector<Lane>& lanes, const std::string& wanted) {
  const std::size_t slash = wanted.find('/');
  const std::string name_space = slash == std::string::npos ? "" : wanted.substr(0, slash);
  const std::string name = slash == std::string::npos ? wanted : wanted.substr(slash + 1);
  std::set<std::string> found;
  for (const Lane& lane : lanes) {
    if (!lane.pod.empty() && lane.pod == name && (slash == std::string::npos || lane.name_space == name_space)) {
      found.insert(lane.name_space);
    }
  }
  if (found.size() == 1) {
    Pod pod;
    pod.name_space = *found.begin();
    pod.name = name;
    return pod;
  }
  const std::string owners = owners_in_words(lanes);
  if (found.size() > 1) {
    return fail(Errc::kInvalid, "pods called " + name + " have lanes in several namespaces; say which: " + owners);
  }
  return fail(Errc::kNotFound, "no pod " + wanted + " has a lane on this node; " +
                                   (owners.empty() ? "no pod has" : "these have: " + owners));
}

}  // namespace

std::string cgroup_of(std::string_view proc_cgroup, bool& v2) {
  std::string unified, cpu;
  for (std::size_t at = 0; at < proc_cgroup.size();) {
    const std::size_t end = std::min(proc_cgroup.find('\n', at), proc_cgroup.size());
    const std::string_view line = proc_cgroup.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) unified = path;
    if (("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos) cpu = path;
  }
  v2 = cpu.empty();
  std::string path = v2 ? unified : cpu;
  // A path of another cgroup namespace leads up; there is nothing to be found that way.
  if (path.find("..") != std::string::npos || !path.starts_with('/')) return {};
  return path;
}

Throttle parse_cpu_stat(std::string_view text) {
  Throttle throttle;
  const auto words = words_of(text);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "nr_throttled") throttle.times = count_of(words[i + 1]);
    if (words[i] == "throttled_usec") throttle.us = count_of(words[i + 1]);
    if (words[i] == "throttled_time") throttle.us = count_of(words[i + 1]) / 1000;  // v1: ns
  }
  return throttle;
}

Result<Pod> find_pod(const Tree& tree, const std::vector<Lane>& lanes, const std::string& wanted) {
  PODLANE_TRY_ASSIGN(Pod pod, pod_named(lanes, wanted));
  const std::vector<std::string> marks = marks_of(tree, pod);
  std::vector<std::string> addresses;
  for (const Lane& lane : lanes) {
    if (lane.pod == pod.name && lane.name_space == pod.name_space) {
      addresses.insert(addresses.end(), lane.addresses.begin(), lane.addresses.end());
    }
  }
  std::set<std::string> cgroups;
  for (const std::string& name : tree.list("/proc")) {
    const auto pid = to_integer(name);
    if (!pid || *pid <= 0 || *pid > 1 << 30) continue;
    const auto text = tree.read("/proc/" + name + "/cgroup");
    if (!text) continue;
    bool v2 = false;
    const std::string cgroup = cgroup_of(*text, v2);
    const bool marked = std::any_of(marks.begin(), marks.end(),
                                    [&](const std::string& mark) { return text->find(mark) != std::string::npos; });
    if (!marked && !(marks.empty() && has_address(tree, name, addresses))) continue;
    PodProcess process{.pid = static_cast<unsigned>(*pid), .cgroup = cgroup};
    read_process(tree, name, process);
    if (process.name == "pause") continue;  // Holds the sandbox's namespaces, and sleeps.
    pod.cpus = pod.cpus | process.allowed;
    if (pod.processes.empty()) read_drops(tree, name, lanes, pod);
    pod.processes.push_back(std::move(process));
    if (!cgroup.empty() && cgroups.insert(cgroup).second) read_cgroup(tree, cgroup, v2, pod);
  }
  return pod;
}

void look_again(const Tree& tree, Pod& pod) {
  for (PodProcess& process : pod.processes) {
    if (const auto status = tree.read("/proc/" + std::to_string(process.pid) + "/status")) {
      process.involuntary_later = count_of(field_of(*status, "nonvoluntary_ctxt_switches"));
    }
  }
  for (Throttle& throttle : pod.throttles) {
    if (const auto text = tree.read(throttle.path)) throttle.times_later = parse_cpu_stat(*text).times;
  }
}

}  // namespace podlane::doctor
