#include "nodeconfig/advice.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace podlane::nodeconfig {

namespace {

constexpr const char* kDropInName = "90-podlane.conf";

struct KubeletKey {
  std::string key, wanted;
};

// What the profile asks the kubelet to be told, in the order of the drop-in.
std::vector<KubeletKey> kubelet_keys(const KubeletWish& wish, const CpuSet& housekeeping) {
  std::vector<KubeletKey> keys;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) keys.push_back({key, value});
  };
  add("cpuManagerPolicy", wish.cpu_policy);
  // The static policy needs a reservation: without one the kubelet does not start.
  if (wish.reserved) add("reservedSystemCPUs", wish.reserved->list());
  else if (wish.cpu_policy == "static") add("reservedSystemCPUs", housekeeping.list());
  add("topologyManagerPolicy", wish.topology_policy);
  add("memoryManagerPolicy", wish.memory_policy);
  for (const auto& [option, value] : wish.options) keys.push_back({"cpuManagerPolicyOptions." + option, value});
  return keys;
}

bool same_value(const std::string& key, const std::string& a, const std::string& b) {
  if (key != "reservedSystemCPUs") return a == b;
  const auto first = CpuSet::parse_list(a), second = CpuSet::parse_list(b);
  return first && second && *first == *second;
}

std::string drop_in(const std::vector<KubeletKey>& keys) {
  std::string text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  bool in_options = false;
  for (const KubeletKey& entry : keys) {
    const std::size_t dot = entry.key.find('.');
    if (dot != std::string::npos && !in_options) text += entry.key.substr(0, dot) + ":\n";
    in_options = dot != std::string::npos;
    // Quoted: a CPU list of one number, and true, are strings to the kubelet.
    text += (in_options ? "  " + entry.key.substr(dot + 1) : entry.key) + ": \"" + entry.wanted + "\"\n";
  }
  return text;
}

// Kubernetes 1.36, pkg/kubelet/cm/cpumanager: the pairs that keep the kubelet from starting.
std::string refused_together(const KubeletWish& wish) {
  std::set<std::string> on;
  for (const auto& [option, value] : wish.options) {
    if (value == "true") on.insert(option);
  }
  if (wish.topology_policy == "single-numa-node") on.insert("topologyManagerPolicy single-numa-node");
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"full-pcpus-only", "distribute-cpus-across-cores"},
      {"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
      {"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
      {"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
      {"align-by-socket", "topologyManagerPolicy single-numa-node"}};
  for (const auto& [a, b] : kPairs) {
    if (on.contains(a) && on.contains(b)) return std::string(a) + " and " + b;
  }
  return {};
}

void advise_kubelet(const Facts& facts, const Profile& profile, const CpuSet& housekeeping, std::vector<Advice>& all) {
  const KubeletState& kubelet = facts.kubelet;
  const std::vector<KubeletKey> keys = kubelet_keys(profile.kubelet, housekeeping);
  if (!profile.kubelet.advise || keys.empty()) return;
  Advice advice{.about = "kubelet"};
  if (const std::string pair = refused_together(profile.kubelet); !pair.empty()) {
    advice.words =
        "the profile's kubelet section asks for " + pair + " together: the kubelet would not start. Take one out.";
    all.push_back(std::move(advice));
    return;
  }
  bool to_write = false;
  for (const KubeletKey& entry : keys) {
    const auto configured = kubelet.configured.find(entry.key);
    const bool written =
        configured != kubelet.configured.end() && same_value(entry.key, configured->second.value, entry.wanted);
    if (!written) {
      to_write = true;
      advice.missing.push_back(entry.key + " \"" + entry.wanted + "\" (" +
                               (configured == kubelet.configured.end()
                                    ? "not configured"
                                    : "now \"" + configured->second.value + "\", " + configured->second.source) +
                               ")");
    } else if (entry.key == "cpuManagerPolicy" && !kubelet.cpu_policy.empty() && kubelet.cpu_policy != entry.wanted) {
      advice.missing.push_back("cpuManagerPolicy \"" + entry.wanted + "\" is configured, and \"" + kubelet.cpu_policy +
                               "\" is in force (" + kCpuManagerState + ")");
    }
  }
  if (advice.missing.empty()) {
    advice.words = "everything that the profile asks of the kubelet is configured.";
    all.push_back(std::move(advice));
    return;
  }
  advice.label = "kubelet-restart-required";
  advice.words =
      "the kubelet compares these with its state files when it starts, and does not start while they differ: "
      "drain, stop it, remove the state, start it. Pods of this node are moved away for that time.";
  if (!kubelet.exclusive.empty()) {
    advice.words += " " + std::to_string(kubelet.exclusive.size()) + " containers hold CPUs " +
                    kubelet.exclusive_cpus().list() + " now; without the drain their CPUs would be given out twice.";
  }
  const bool has_drop_ins = !kubelet.config_dir.empty();
  const std::string directory = has_drop_ins ? kubelet.config_dir : "/etc/kubernetes/kubelet.conf.d";
  if (to_write) {
    advice.file_path = directory + "/" + kDropInName;
    advice.file = drop_in(keys);
    if (has_drop_ins) {
      advice.steps.emplace_back("write the file above");
    } else {
      advice.steps.emplace_back("write the file above, and start the kubelet with --config-dir=" + directory +
                             " from now on (Kubernetes 1.30 and later); or put the keys into " + kubelet.config_file);
    }
    const auto flag = std::find_if(keys.begin(), keys.end(), [&](const KubeletKey& entry) {
      const auto it = kubelet.configured.find(entry.key);
      return it != kubelet.configured.end() && it->second.source == "command line";
    });
    if (flag != keys.end())
      advice.steps.emplace_back("take " + flag->key + " out of the kubelet's command line: it wins over every file");
  }
  advice.steps.emplace_back("kubectl drain <this node> --ignore-daemonsets --delete-emptydir-data");
  advice.steps.emplace_back("systemctl stop kubelet");
  advice.steps.push_back(std::string("rm -f ") + kCpuManagerState + " " + kMemoryManagerState);
  advice.steps.emplace_back("systemctl start kubelet");
  advice.steps.emplace_back("kubectl uncordon <this node>");
  all.push_back(std::move(advice));
}

// One "name=value" of a boot line; values that are CPU lists with flags compare without regard to order.
std::set<std::string> parts_of(const std::string& argument) {
  std::set<std::string> parts;
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) return parts;
  const std::string value = argument.substr(equals + 1);
  CpuSet cpus;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    const std::string part = value.substr(at, end - at);
    const auto list = CpuSet::parse_list(part);
    if (list && !list->empty()) cpus = cpus | *list;
    else parts.insert(part);
    at = end + 1;
  }
  if (!cpus.empty()) parts.insert("cpus " + cpus.list());
  return parts;
}

bool is_booted_with(const Facts& facts, const std::string& wanted) {
  const std::string name = wanted.substr(0, wanted.find('='));
  return std::any_of(facts.boot_arguments.begin(), facts.boot_arguments.end(), [&](const std::string& argument) {
    return argument.substr(0, argument.find('=')) == name && parts_of(argument) == parts_of(wanted);
  });
}

void advise_boot(const Facts& facts, const Profile& profile, std::vector<Advice>& all) {
  if (!profile.boot.advise || profile.boot.arguments.empty()) return;
  Advice advice{.about = "boot"};
  std::string line;
  for (const std::string& argument : profile.boot.arguments) {
    if (is_booted_with(facts, argument)) continue;
    advice.missing.push_back(argument);
    line += (line.empty() ? "" : " ") + argument;
  }
  if (advice.missing.empty()) {
    advice.words = "the kernel was booted with every argument that the profile names.";
    all.push_back(std::move(advice));
    return;
  }
  advice.label = "reboot-required";
  advice.words =
      "podlane never writes boot arguments and never reboots. One of these, whichever your system has; then drain and "
      "reboot.";
  advice.steps = {"RHEL, Fedora: grubby --update-kernel=ALL --args=\"" + line + "\"",
                  "Debian, Ubuntu: echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX " + line +
                      "\"' > /etc/default/grub.d/90-podlane.cfg && update-grub",
                  "rpm-ostree: rpm-ostree kargs" +
                      [&] {
                        std::string options;
                        for (const std::string& argument : advice.missing)
                          options += " --append-if-missing=" + argument;
                        return options;
                      }(),
                  "systemd-boot: add to the options line of /etc/kernel/cmdline, then kernel-install add $(uname -r) "
                  "/lib/modules/$(uname -r)/vmlinuz"};
  all.push_back(std::move(advice));
}

// sfc's firmware version ends with its variant: "… rx1 tx1" is ultra-low-latency (onload, ethtool -i).
void advise_firmware(const Facts& facts, const Profile& profile, std::vector<Advice>& all) {
  if (!profile.boot.advise || !profile.boot.low_latency_firmware) return;
  Advice advice{.about = "firmware"};
  bool any = false;
  for (const Nic& nic : facts.nics) {
    if (nic.driver != "sfc") continue;
    any = true;
    if (nic.firmware.find(" rx1 tx1") != std::string::npos) continue;
    advice.missing.push_back("ultra-low-latency on " + nic.name + " (" +
                             (nic.firmware.empty() ? "its version cannot be read" : "now " + nic.firmware) + ")");
    advice.steps.emplace_back("sfboot --adapter=" + nic.name + " firmware-variant=ultra-low-latency");
  }
  if (!any) {
    advice.words = "this node has no NIC whose firmware has variants (driver sfc).";
  } else if (advice.missing.empty()) {
    advice.words = "every sfc NIC has the ultra-low-latency firmware.";
  } else {
    advice.label = "reboot-required";
    advice.words = "podlane never writes firmware. Not every family of cards has this variant: sfboot says so.";
    advice.steps.emplace_back("drain the node and reboot it");
  }
  all.push_back(std::move(advice));
}

}  // namespace

std::vector<Advice> advise(const Facts& facts, const Profile& profile, const CpuSet& housekeeping) {
  std::vector<Advice> all;
  advise_kubelet(facts, profile, housekeeping, all);
  advise_boot(facts, profile, all);
  advise_firmware(facts, profile, all);
  return all;
}

}  // namespace podlane::nodeconfig
