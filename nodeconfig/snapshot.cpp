#include "nodeconfig/snapshot.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "lib/json/json.hpp"
#include "nodeconfig/readings.hpp"
#include "nodeconfig/settings.hpp"

namespace podlane::nodeconfig {

namespace {

// A profile that speaks of everything: its values do not count, only which files they are about.
Profile of_everything(const Facts& facts) {
  Profile profile;
  profile.lanes = facts.online;
  NicRule all{.match = {.name = "*"}};
  for (const Knob& knob : kKnobs) {
    const Wish wish{&knob, knob.takes == Takes::kCpus ? facts.online.list() : "0", {}, {}};
    switch (knob.scope) {
      case Scope::kNumaNode: break;
      case Scope::kNode: profile.node.push_back(wish); break;
      case Scope::kPolicy:
      case Scope::kCpu: profile.power.push_back(wish); break;
      case Scope::kIrq: profile.irqs = wish; break;
      case Scope::kNic:
      case Scope::kRxQueue:
      case Scope::kTxQueue: all.wishes.push_back(wish); break;
    }
  }
  profile.nics.push_back(std::move(all));
  std::set<std::uint64_t> sizes;
  for (const NumaNode& node : facts.numa_nodes) {
    for (const HugePages& pages : node.huge_pages) sizes.insert(pages.size_kib);
  }
  for (const std::uint64_t size : sizes) profile.huge_pages.push_back({.size_kib = size});
  return profile;
}

// Boot arguments that decisions and advice look at; "root=UUID=…" and the like are nobody's business.
bool is_tuning_argument(std::string_view argument) {
  constexpr std::array<std::string_view, 26> kKept = {"isolcpus",
                                                      "nohz",
                                                      "nohz_full",
                                                      "rcu_nocbs",
                                                      "rcu_nocb_poll",
                                                      "irqaffinity",
                                                      "skew_tick",
                                                      "nosmt",
                                                      "idle",
                                                      "tsc",
                                                      "clocksource",
                                                      "intel_pstate",
                                                      "amd_pstate",
                                                      "intel_idle.max_cstate",
                                                      "processor.max_cstate",
                                                      "intel_iommu",
                                                      "amd_iommu",
                                                      "iommu",
                                                      "mitigations",
                                                      "nosoftlockup",
                                                      "nowatchdog",
                                                      "mce",
                                                      "hugepages",
                                                      "hugepagesz",
                                                      "default_hugepagesz",
                                                      "pcie_aspm"};
  const std::string_view name = argument.substr(0, argument.find('='));
  return std::find(kKept.begin(), kKept.end(), name) != kKept.end();
}

std::string kept_words(const std::string& text, char separator, bool (*keep)(std::string_view)) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    const std::string_view word(text.data() + at, end - at);
    if (keep(word)) {
      if (!kept.empty()) kept += separator;
      kept += word;
    }
    at = end + 1;
  }
  return kept;
}

bool is_kubelet_argument(std::string_view argument) {
  for (const std::string_view flag :
       {"--config", "--config-dir", "--cpu-manager-policy", "--reserved-cpus", "--topology-manager-policy",
        "--topology-manager-scope", "--memory-manager-policy"}) {
    if (argument.starts_with(flag) && argument.size() > flag.size() && argument[flag.size()] == '=') return true;
  }
  return false;
}

// Pods by number, in the order of the file.
std::string without_pod_ids(const std::string& text) {
  KubeletState state;
  if (!parse_cpu_manager_state(text, state)) return {};
  json::Value out{{"policyName", state.cpu_policy}, {"defaultCpuSet", state.shared.list()}};
  std::string last;
  int pods = 0, containers = 0;
  for (const ExclusiveCpus& entry : state.exclusive) {
    if (entry.pod_uid != last) ++pods;
    last = entry.pod_uid;
    out["entries"]["pod-" + std::to_string(pods)]["container-" + std::to_string(++containers)] = entry.cpus.list();
  }
  return json::dump(out);
}

std::string without_foreign_keys(const std::string& text) {
  json::Value out = json::Value::object();
  for (const auto& [key, value] : parse_kubelet_configuration(text)) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) out[key] = value;
    else out[key.substr(0, dot)][key.substr(dot + 1)] = value;
  }
  return json::dump(out);
}

// Whatever else was read: the kubelet's configuration, wherever its command line says that it is.
bool is_configuration(std::string_view path) {
  for (const std::string_view root :
       {"/sys/", "/proc/", "/ethtool/", "/dev/", "/run/podlane/", "/etc/tuned/", "/usr/lib/tuned/"}) {
    if (path.starts_with(root)) return false;
  }
  return true;
}

// Those lines of a file that begin so, as far as somebody here reads them.
std::string kept_lines(const std::string& text, std::initializer_list<std::string_view> starts) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    const bool keep = std::any_of(starts.begin(), starts.end(), [&](auto start) { return line.starts_with(start); });
    if (keep) kept.append(kept.empty() ? "" : "\n").append(line);
  }
  return kept;
}

// "/proc/mounts": which file systems, and nothing of where from and where to.
std::string filesystems_only(const std::string& text) {
  std::set<std::string> types;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find(' '), second = first == line.npos ? line.npos : line.find(' ', first + 1);
    if (second != line.npos) types.insert(line.substr(second + 1, line.find(' ', second + 1) - second - 1));
  }
  std::string kept;
  for (const std::string& type : types) kept.append(kept.empty() ? "" : "\n").append("x / " + type + " rw 0 0");
  return kept;
}

// lanes.json: pods by number, and no addresses.
std::string without_pod_names(const std::string& text) {
  const auto document = json::parse(text, {.max_bytes = 16 << 20});
  if (!document || !document->is_object() || !document->contains("lanes") || !(*document)["lanes"].is_array()) return {};
  json::Value out = *document;
  std::map<std::string, std::size_t> pods;
  for (json::Value& lane : out["lanes"]) {
    if (!lane.is_object()) return {};
    lane.erase("addresses");
    if (!lane.contains("pod")) continue;
    const std::string key = json::dump(lane.value("namespace", json::Value())) + json::dump(lane["pod"]);
    const std::size_t number = pods.emplace(key, pods.size() + 1).first->second;
    lane["namespace"] = "namespace";
    lane["pod"] = "pod-" + std::to_string(number);
    lane["container"] = "container";
  }
  return json::dump(out);
}

// nodeconfig.json: outcomes and advice, not the profile.
std::string outcomes_only(const std::string& text) {
  const auto document = json::parse(text, {.max_bytes = 16 << 20});
  if (!document || !document->is_object()) return {};
  json::Value out{{"version", 1}};
  for (const auto& [list, keys] : {std::pair("changes", std::array{"key", "outcome"}), std::pair("advice", std::array{"about", "label"})}) {
    out[list] = json::Value::array();
    if (!document->contains(list) || !(*document)[list].is_array()) continue;
    for (const json::Value& row : (*document)[list]) {
      json::Value kept = json::Value::object();
      for (const char* key : keys) {
        if (row.is_object() && row.contains(key)) kept[key] = row[key];
      }
      out[list].push_back(std::move(kept));
    }
  }
  return json::dump(out);
}

std::string with_replaced(std::string text, const std::string& word, std::string_view by) {
  for (std::size_t at = 0; !word.empty() && (at = text.find(word, at)) != text.npos; at += by.size()) {
    text.replace(at, word.size(), by);
  }
  return text;
}

// What the doctor reads (readings.hpp). False: it is something else.
bool scrub_reading(const std::string& path, std::string& text) {
  if (path == "/proc/mounts") text = filesystems_only(text);
  else if (path == "/proc/stat") text = kept_lines(text, {"cpu"});
  else if (path == "/proc/cpuinfo") text = kept_lines(text.substr(0, text.find("\n\n")), {"flags", "Features", "model name"});
  else if (path == "/proc/swaps") text = text.find('\n') == text.npos ? text : "Filename\nswap";
  else if (path == "/etc/default/irqbalance" || path == "/etc/sysconfig/irqbalance")
    text = kept_lines(text, {"IRQBALANCE_BANNED"});
  else if (path == kLanesFile) text = without_pod_names(text);
  else if (path == kStatusFile) text = outcomes_only(text);
  else return false;
  return true;
}

// "/proc/net/route": the interfaces of the default routes, and nothing of addresses.
std::string default_routes_only(const std::string& text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    const std::size_t tab = line.find('\t');
    if (at == 0) kept += line;
    else if (tab != line.npos && line.substr(tab + 1).starts_with("00000000\t")) {
      kept.append("\n").append(line.substr(0, tab)).append("\t00000000\t00000000\t0003\t0\t0\t0\t00000000\t0\t0\t0");
    }
    at = end + 1;
  }
  return kept;
}

void append_entry(std::string& tar, const std::string& name, char type, mode_t mode, std::string_view link,
                  std::string_view content) {
  std::array<char, 512> header{};
  const auto put = [&](std::size_t at, std::size_t size, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), std::min(size, text.size()));
  };
  const auto octal = [&](std::size_t at, std::size_t digits, std::uint64_t value) {
    for (std::size_t i = digits; i > 0; --i, value /= 8) header[at + i - 1] = static_cast<char>('0' + value % 8);
  };
  // What is longer goes before, in an entry of its own (GNU tar).
  if (name.size() > 99) append_entry(tar, "././@LongLink", 'L', 0, "", name + '\0');
  if (link.size() > 99) append_entry(tar, "././@LongLink", 'K', 0, "", std::string(link) + '\0');
  put(0, 99, name);
  octal(100, 7, mode);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, content.size());
  octal(136, 11, 0);
  header[156] = type;
  put(157, 99, link);
  put(257, 8, std::string_view("ustar  \0", 8));
  std::memset(header.data() + 148, ' ', 8);
  std::uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  octal(148, 6, sum);
  header[154] = '\0';
  tar.append(header.data(), header.size());
  tar.append(content);
  tar.append((512 - content.size() % 512) % 512, '\0');
}

}  // namespace

Result<Recording> record_node(Tree& tree) {
  Recording recording;
  tree.record_into(&recording);
  const auto facts = read_facts(tree);
  if (facts) {
    if (const auto expansion = expand(*facts, of_everything(*facts))) {
      for (const Setting& setting : expansion->settings) read_setting(tree, setting);
    }
  }
  if (facts) (void)take_readings(tree, *facts);
  tree.record_into(nullptr);
  if (!facts) return std::unexpected(facts.error());
  return recording;
}

void scrub(Recording& recording) {
  constexpr std::string_view kNoBoot = "00000000-0000-0000-0000-000000000000";
  const auto boot = recording.files.find("/proc/sys/kernel/random/boot_id");
  const std::string boot_id = boot == recording.files.end() ? std::string() : boot->second.text;
  for (auto& [path, file] : recording.files) {
    std::string& text = file.text;
    if (scrub_reading(path, text)) continue;
    if (path == "/proc/sys/kernel/random/boot_id") text = kNoBoot;
    else if (path == kChangesFile) text = with_replaced(text, boot_id, kNoBoot);
    else if (path == "/proc/cmdline") text = kept_words(text, ' ', is_tuning_argument);
    else if (path == "/proc/net/route") text = default_routes_only(text);
    else if (path.starts_with("/proc/") && path.ends_with("/cmdline"))
      text = kept_words(text, '\0', is_kubelet_argument);
    else if (path == kCpuManagerState) text = without_pod_ids(text);
    else if (path == kMemoryManagerState)
      text = text.find("\"Static\"") == text.npos ? R"({"policyName":"None"})" : R"({"policyName":"Static"})";
    else if (path.starts_with("/etc/crio/"))
      text = text.find("high-performance") == text.npos ? "" : "high-performance";
    else if (is_configuration(path)) text = without_foreign_keys(text);
  }
  // Processes that matter to nobody here have a name all the same, and each is a directory.
  std::set<std::string> kept;
  for (const auto& [path, file] : recording.files) {
    if (path.starts_with("/proc/") && path.ends_with("/stat")) kept.insert(path.substr(0, path.size() - 5));
  }
  const auto is_other_process = [&](const std::string& path) {
    if (!path.starts_with("/proc/") || path.size() < 7 || path[6] < '0' || path[6] > '9') return false;
    return !kept.contains(path.substr(0, path.find('/', 6)));
  };
  std::erase_if(recording.files, [&](const auto& entry) { return is_other_process(entry.first); });
  // Of a listed /proc only the names were seen: an empty file in place of "/proc/meminfo" would say something wrong.
  std::erase_if(recording.files, [](const auto& entry) {
    return entry.second.text.empty() && entry.first.starts_with("/proc/") &&
           entry.first.find('/', 6) == std::string::npos;
  });
  std::erase_if(recording.directories, [&](const auto& entry) { return is_other_process(entry.first); });
}

std::string tar_of(const Recording& recording) {
  std::string tar;
  std::set<std::string> directories;
  const auto add_parents = [&](const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
      const std::string parent = path.substr(0, at);
      if (!recording.links.contains(parent)) directories.insert(parent);
    }
  };
  for (const auto& [path, mode] : recording.directories) {
    add_parents(path);
    if (!recording.links.contains(path)) directories.insert(path);
  }
  for (const auto& [path, target] : recording.links) {
    add_parents(path);
    add_parents(target + "/");
  }
  for (const auto& [path, file] : recording.files) add_parents(path);
  for (const std::string& path : directories) append_entry(tar, path.substr(1) + "/", '5', 0755, "", "");
  for (const auto& [path, target] : recording.links) {
    std::string up;
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) up += "../";
    append_entry(tar, path.substr(1), '2', 0777, up + target.substr(1), "");
  }
  for (const auto& [path, file] : recording.files) {
    // Below a link the file is in the archive under its real path, if it was read by that one too.
    const bool below_link =
        std::any_of(recording.links.begin(), recording.links.end(),
                    [&, &path = path](const auto& link) { return path.starts_with(link.first + "/"); });
    if (!below_link) append_entry(tar, path.substr(1), '0', file.mode, "", file.text);
  }
  tar.append(1024, '\0');
  return tar;
}

}  // namespace podlane::nodeconfig
