#include "nodeconfig/owners.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace podlane::nodeconfig {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Field 22 of /proc/<pid>/stat, counted behind the name, which may hold blanks and brackets.
std::int64_t start_of(const Tree& tree, const std::string& pid) {
  const auto stat = tree.read("/proc/" + pid + "/stat");
  if (!stat) return 0;
  std::size_t at = stat->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
  std::int64_t ticks = 0;
  if (at == std::string::npos) return 0;
  const char* const begin = stat->data() + at + 1;
  std::from_chars(begin, stat->data() + stat->size(), ticks);
  return ticks * 10;  // USER_HZ is 100 on every architecture that a node has.
}

// Where TuneD keeps a profile: its own directories first.
std::string tuned_profile_file(const Tree& tree, const std::string& profile) {
  for (const char* root : {"/etc/tuned/profiles/", "/etc/tuned/", "/usr/lib/tuned/profiles/", "/usr/lib/tuned/"}) {
    std::string path = root + profile + "/tuned.conf";
    if (tree.exists(path)) return path;
  }
  return {};
}

// What an option of a section of TuneD writes, as far as podlane has a knob for it.
std::string tuned_target(const IniLine& line) {
  if (line.section == "sysctl") {
    std::string path = "/proc/sys/" + line.option;
    std::replace(path.begin(), path.end(), '.', '/');
    return path;
  }
  if (line.section == "sysfs" && line.option.starts_with("/")) return line.option;
  if (line.section == "vm" && line.option.starts_with("transparent_hugepage")) {
    return line.option.ends_with("defrag") ? "/sys/kernel/mm/transparent_hugepage/defrag"
                                           : "/sys/kernel/mm/transparent_hugepage/enabled";
  }
  if (line.section == "cpu" && line.option == "governor") return "/sys/devices/system/cpu/cpufreq/*governor";
  if (line.section == "cpu" && line.option == "energy_performance_preference") {
    return "/sys/devices/system/cpu/cpufreq/*energy_performance_preference";
  }
  if (line.section == "scheduler" && line.option == "default_irq_smp_affinity") return "/proc/irq/default_smp_affinity";
  if (line.section == "scheduler" && line.option == "isolated_cores") return "/proc/irq/*smp_affinity_list";
  return {};
}

// The claims of a profile and of those that it includes. A profile that includes itself ends the walk.
void tuned_claims(const Tree& tree, const std::string& profile, std::set<std::string>& seen,
                  std::vector<Claim>& claims) {
  if (profile.empty() || profile.find('/') != profile.npos || !seen.insert(profile).second || seen.size() > 16) return;
  const std::string path = tuned_profile_file(tree, profile);
  if (path.empty()) return;
  const auto file = tree.read(path);
  if (!file) return;
  for (const IniLine& line : parse_ini(*file)) {
    if (line.section == "main" && line.option == "include") {
      tuned_claims(tree, line.value, seen, claims);
      continue;
    }
    const std::string target = tuned_target(line);
    if (!target.empty()) claims.push_back({target, line.value, path + ":" + std::to_string(line.line)});
  }
}

void find_tuned(const Tree& tree, bool running, std::vector<Owner>& owners) {
  const auto active = tree.read("/etc/tuned/active_profile");
  const std::string profiles = active ? std::string(trimmed(*active)) : "";
  if (!running || profiles.empty() || profiles == "none") return;
  Owner owner{.name = "TuneD",
              .evidence = "tuned runs with profile " + profiles + " (/etc/tuned/active_profile)",
              .advice = "change what its profile sets, or take the line out of it, and leave the rest to podlane"};
  std::set<std::string> seen;
  for (std::size_t at = 0; at < profiles.size();) {
    const std::size_t end = std::min(profiles.find(' ', at), profiles.size());
    tuned_claims(tree, profiles.substr(at, end - at), seen, owner.claims);
    at = end + 1;
  }
  owners.push_back(std::move(owner));
}

void find_crio(const Tree& tree, std::vector<Owner>& owners) {
  for (const std::string& name : tree.list("/etc/crio/crio.conf.d")) {
    const std::string path = "/etc/crio/crio.conf.d/" + name;
    const auto file = tree.read(path);
    if (!file || file->find("high-performance") == std::string::npos) continue;
    owners.push_back({.name = "CRI-O high-performance handler",
                      .evidence = path + " names it",
                      .advice = "for pods with its annotations it writes default_smp_affinity, C-states and governors: "
                                "give a pod either its annotations or a lane"});
    return;
  }
}

}  // namespace

std::vector<Process> find_processes(const Tree& tree, const std::vector<std::string>& names) {
  std::vector<Process> found;
  for (const std::string& entry : tree.list("/proc")) {
    Process process;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), process.pid);
    if (error != std::errc() || end != entry.data() + entry.size()) continue;
    auto comm = tree.read("/proc/" + entry + "/comm");
    if (!comm || std::find(names.begin(), names.end(), *comm) == names.end()) continue;
    process.name = std::move(*comm);
    process.started_ms = start_of(tree, entry);
    found.push_back(std::move(process));
  }
  return found;
}

std::vector<Owner> find_owners(const Tree& tree, const std::vector<Process>& processes) {
  std::vector<Owner> owners;
  const auto process = [&](std::string_view name) {
    const auto it = std::find_if(processes.begin(), processes.end(), [&](const Process& p) { return p.name == name; });
    return it == processes.end() ? nullptr : &*it;
  };
  if (tree.exists("/var/lib/ocp-tuned")) {
    owners.push_back({.name = "node tuning operator",
                      .evidence = "/var/lib/ocp-tuned exists",
                      .advice = "this node is tuned by a PerformanceProfile: podlane only observes; put wishes there",
                      .owns_all = true});
  }
  find_tuned(tree, process("tuned") != nullptr, owners);
  if (const Process* found = process("irqbalance")) {
    owners.push_back({.name = "irqbalance",
                      .evidence = "it runs as process " + std::to_string(found->pid),
                      .advice = "it moves interrupts every 10 seconds: ban the lanes' CPUs with "
                                "IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance (or /etc/sysconfig/irqbalance)"});
  }
  find_crio(tree, owners);
  for (const char* name : {"power-profiles-", "thermald"}) {
    if (process(name) == nullptr) continue;
    const bool profiles = name[0] == 'p';
    owners.push_back({.name = profiles ? "power-profiles-daemon" : "thermald",
                      .evidence = "it runs as process " + std::to_string(process(name)->pid),
                      .advice = "it may change governors and energy preferences at any time"});
  }
  return owners;
}

std::vector<IniLine> parse_ini(std::string_view text) {
  std::vector<IniLine> lines;
  std::string section;
  unsigned number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    lines.push_back(
        {section, std::string(trimmed(line.substr(0, equals))), std::string(trimmed(line.substr(equals + 1))), number});
  }
  return lines;
}

const Claim* claim_on(const std::vector<Owner>& owners, const std::string& path, const Owner** owner) {
  for (const Owner& candidate : owners) {
    for (const Claim& claim : candidate.claims) {
      const std::size_t star = claim.path.find('*');
      const bool matches = star == std::string::npos ? claim.path == path
                                                     : path.starts_with(claim.path.substr(0, star)) &&
                                                           path.ends_with(claim.path.substr(star + 1));
      if (!matches) continue;
      *owner = &candidate;
      return &claim;
    }
  }
  return nullptr;
}

}  // namespace podlane::nodeconfig
