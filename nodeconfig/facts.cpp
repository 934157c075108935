#include "nodeconfig/facts.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "nodeconfig/irq_names.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr const char* kCpuRoot = "/sys/devices/system/cpu";

template <typename Number>
bool to_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "policy12" with prefix "policy".
template <typename Number>
bool numbered(std::string_view name, std::string_view prefix, Number& number) {
  return name.starts_with(prefix) && to_number(name.substr(prefix.size()), number);
}

std::string text_or_empty(const Tree& tree, const std::string& path) {
  auto file = tree.read(path);
  return file ? std::move(*file) : std::string();
}

std::uint64_t count_or_zero(const Tree& tree, const std::string& path) {
  std::uint64_t value = 0;
  return to_number(text_or_empty(tree, path), value) ? value : 0;
}

Result<CpuSet> read_list(const Tree& tree, const std::string& path) {
  PODLANE_TRY_ASSIGN(const std::string text, tree.read(path));
  auto set = CpuSet::parse_list(text);
  if (!set) return std::unexpected(std::move(set).error().with(path));
  return set;
}

CpuSet list_or_empty(const Tree& tree, const std::string& path) {
  return read_list(tree, path).value_or(CpuSet());
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// "Node 0 MemFree:       10269556 kB"
std::uint64_t mem_free_kib(std::string_view meminfo) {
  const std::vector<std::string> words = words_of(meminfo);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    std::uint64_t value = 0;
    if (words[i] == "MemFree:" && to_number(words[i + 1], value)) return value;
  }
  return 0;
}

std::vector<NumaNode> read_numa_nodes(const Tree& tree) {
  std::vector<NumaNode> nodes;
  const std::string root = "/sys/devices/system/node";
  for (const std::string& name : tree.list(root)) {
    NumaNode node;
    if (!numbered(name, "node", node.id)) continue;
    const std::string path = root + "/" + name;
    node.cpus = list_or_empty(tree, path + "/cpulist");
    node.free_kib = mem_free_kib(text_or_empty(tree, path + "/meminfo"));
    for (const std::string& size : tree.list(path + "/hugepages")) {  // "hugepages-2048kB"
      HugePages pages;
      if (!size.ends_with("kB")) continue;
      if (!numbered(std::string_view(size).substr(0, size.size() - 2), "hugepages-", pages.size_kib)) continue;
      pages.total = count_or_zero(tree, path + "/hugepages/" + size + "/nr_hugepages");
      node.huge_pages.push_back(pages);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// "0000:3b:00.0"; domains of more than four digits exist (VMD, Hyper-V).
bool is_pci_address(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != text.npos && colon >= 4 && text.size() == colon + 8 && text[colon + 3] == ':' &&
         text[colon + 6] == '.';
}

// The last part of a device's path that is a PCI address: a virtio NIC's own device is below it.
std::string pci_address_in(const std::string& path) {
  std::string found;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part(path.data() + at, end - at);
    if (is_pci_address(part)) found = part;
    at = end + 1;
  }
  return found;
}

std::vector<unsigned> queues_of(const std::vector<std::string>& names, std::string_view prefix) {
  std::vector<unsigned> queues;
  for (const std::string& name : names) {
    unsigned queue = 0;
    if (numbered(name, prefix, queue)) queues.push_back(queue);
  }
  return queues;
}

// Interfaces of the default routes: /proc/net/route, destination and mask 0.
std::set<std::string> default_route_interfaces(const Tree& tree) {
  std::set<std::string> found;
  const std::vector<std::string> words = words_of(text_or_empty(tree, "/proc/net/route"));
  for (std::size_t row = 11; row + 11 <= words.size(); row += 11) {
    if (words[row + 1] == "00000000" && words[row + 7] == "00000000") found.insert(words[row]);
  }
  return found;
}

std::vector<Nic> read_nics(const Tree& tree) {
  std::vector<Nic> nics;
  const std::set<std::string> default_routes = default_route_interfaces(tree);
  const std::string root = "/sys/class/net";
  for (const std::string& name : tree.list(root)) {
    if (name == "lo" || name == "bonding_masters") continue;
    Nic nic{.name = name};
    const std::string path = root + "/" + name;
    const std::string device = tree.real_path(path + "/device");
    nic.pci = pci_address_in(device);
    nic.id = nic.pci.empty() ? name : nic.pci;
    const std::string driver = device.empty() ? "" : tree.real_path(device + "/driver");
    nic.driver = driver.substr(driver.rfind('/') + 1);
    if (!nic.pci.empty()) {
      int numa_node = -1;
      if (to_number(text_or_empty(tree, "/sys/bus/pci/devices/" + nic.pci + "/numa_node"), numa_node)) {
        nic.numa_node = numa_node;
      }
    }
    if (nic.driver == "sfc") nic.firmware = text_or_empty(tree, "/ethtool/" + name + "/driver/firmware-version");
    const std::vector<std::string> queues = tree.list(path + "/queues");
    nic.rx_queues = queues_of(queues, "rx-");
    nic.tx_queues = queues_of(queues, "tx-");
    nic.default_route = default_routes.contains(name);
    nics.push_back(std::move(nic));
  }
  // Two ports of one PCI function would share an identity: the name tells them apart then.
  std::map<std::string, int> uses;
  for (const Nic& nic : nics) ++uses[nic.id];
  for (Nic& nic : nics) {
    if (uses[nic.id] > 1) nic.id += "+" + nic.name;
  }
  return nics;
}

// Interrupt number -> PCI address, from the devices' msi_irqs: names need not be parsed for that.
std::map<unsigned, std::string> read_msi_owners(const Tree& tree) {
  std::map<unsigned, std::string> owners;
  const std::string root = "/sys/bus/pci/devices";
  for (const std::string& address : tree.list(root)) {
    for (const std::string& name : tree.list(root + "/" + address + "/msi_irqs")) {
      unsigned number = 0;
      if (to_number(name, number)) owners[number] = address;
    }
  }
  return owners;
}

std::vector<Irq> read_irqs(const Tree& tree, const std::vector<Nic>& nics) {
  const std::map<unsigned, std::string> owners = read_msi_owners(tree);
  std::map<std::string, const Nic*> nic_of;
  for (const Nic& nic : nics) {
    if (!nic.pci.empty()) nic_of.emplace(nic.pci, &nic);
  }
  std::map<std::string, int> uses;
  std::vector<Irq> irqs;
  for (const std::string& name : tree.list("/proc/irq")) {
    Irq irq;
    if (!to_number(name, irq.number)) continue;
    // /proc/interrupts has the names too, in a line with a column for each CPU: megabytes on a large node.
    irq.action = text_or_empty(tree, "/sys/kernel/irq/" + name + "/actions");
    // Without an action nothing can fire. The timer and the cascade belong to the kernel alone.
    if (irq.action.empty() || irq.action == "timer" || irq.action == "cascade") continue;
    const auto owner = owners.find(irq.number);
    if (owner != owners.end()) irq.pci = owner->second;
    const auto nic = nic_of.find(irq.pci);
    IrqName parsed = parse_irq_name(irq.action, nic == nic_of.end() ? "" : nic->second->name);
    irq.role = std::move(parsed.role);
    irq.first = parsed.first;
    irq.last = parsed.last;
    irq.key = "irq/" + (irq.pci.empty() ? "-" : irq.pci) + "/" + parsed.identity;
    const int before = uses[irq.key]++;
    if (before > 0) irq.key += "#" + std::to_string(before + 1);
    irqs.push_back(std::move(irq));
  }
  return irqs;
}

std::vector<FrequencyPolicy> read_policies(const Tree& tree) {
  std::vector<FrequencyPolicy> policies;
  const std::string root = std::string(kCpuRoot) + "/cpufreq";
  for (const std::string& name : tree.list(root)) {
    FrequencyPolicy policy;
    if (!numbered(name, "policy", policy.id)) continue;
    // Separated by blanks, not by commas.
    for (const std::string& word : words_of(text_or_empty(tree, root + "/" + name + "/affected_cpus"))) {
      unsigned cpu = 0;
      if (to_number(word, cpu) && cpu < CpuSet::kMax) policy.cpus.add(cpu);
    }
    policies.push_back(std::move(policy));
  }
  return policies;
}

}  // namespace

CpuSet Facts::siblings_of(const CpuSet& cpus) const {
  CpuSet all = cpus;
  for (const unsigned cpu : cpus.cpus()) {
    if (cpu < siblings.size()) all = all | siblings[cpu];
  }
  return all;
}

const Nic* Facts::nic_by_id(std::string_view id) const {
  const auto it = std::find_if(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.id == id; });
  return it == nics.end() ? nullptr : &*it;
}

const Irq* Facts::irq_by_key(std::string_view key) const {
  const auto it = std::find_if(irqs.begin(), irqs.end(), [&](const Irq& irq) { return irq.key == key; });
  return it == irqs.end() ? nullptr : &*it;
}

Result<Facts> read_facts(const Tree& tree) {
  Facts facts;
  PODLANE_TRY_ASSIGN(facts.boot_id, tree.read("/proc/sys/kernel/random/boot_id"));
  double uptime = 0;
  const std::string uptime_text = text_or_empty(tree, "/proc/uptime");
  std::from_chars(uptime_text.data(), uptime_text.data() + uptime_text.size(), uptime);
  facts.uptime_ms = static_cast<std::int64_t>(uptime * 1000);
  PODLANE_TRY_ASSIGN(facts.present, read_list(tree, std::string(kCpuRoot) + "/present"));
  PODLANE_TRY_ASSIGN(facts.online, read_list(tree, std::string(kCpuRoot) + "/online"));
  for (const unsigned cpu : facts.online.cpus()) {
    if (facts.siblings.size() <= cpu) facts.siblings.resize(cpu + 1);
    facts.siblings[cpu] =
        list_or_empty(tree, std::string(kCpuRoot) + "/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  }
  facts.numa_nodes = read_numa_nodes(tree);
  facts.nics = read_nics(tree);
  facts.irqs = read_irqs(tree, facts.nics);
  facts.policies = read_policies(tree);
  facts.boot_arguments = words_of(text_or_empty(tree, "/proc/cmdline"));
  const std::vector<Process> processes =
      find_processes(tree, {"kubelet", "irqbalance", "tuned", "power-profiles-", "thermald", "crio", "stalld"});
  const auto kubelet =
      std::find_if(processes.begin(), processes.end(), [](const Process& p) { return p.name == "kubelet"; });
  facts.kubelet = read_kubelet_state(tree, kubelet == processes.end() ? nullptr : &*kubelet);
  facts.owners = find_owners(tree, processes);
  return facts;
}

}  // namespace podlane::nodeconfig
