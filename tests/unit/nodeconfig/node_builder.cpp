#include "tests/unit/nodeconfig/node_builder.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/testlib/testlib.hpp"

namespace podlane::nodeconfig::test {

namespace {

namespace fs = std::filesystem;

std::string range(unsigned count) {
  return count == 1 ? "0" : "0-" + std::to_string(count - 1);
}

CpuSet first_cpus(unsigned count) {
  CpuSet set;
  for (unsigned cpu = 0; cpu < count; ++cpu) set.add(cpu);
  return set;
}

}  // namespace

Node::Node(const NodeShape& shape) : root_("/tmp/" + podlane::test::random_name("plnode-")) {
  put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555");
  put("/proc/uptime", "1000.00 2000.00");
  put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=aaaa-bbbb ro quiet");
  put("/proc/net/route",
      "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
      "eth9\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0");
  build_cpus(shape);
  build_memory(shape);
  for (const NicShape& nic : shape.nics) build_nic(nic);
  if (shape.nvme_queues > 0) add_irq("nvme0q0", "0000:02:00.0");
  for (unsigned queue = 1; queue <= shape.nvme_queues; ++queue)
    add_irq("nvme0q" + std::to_string(queue), "0000:02:00.0", 0444);
  for (unsigned i = 0; i < shape.other_irqs; ++i) add_irq("other-" + std::to_string(i), "");
}

Node::~Node() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void Node::build_cpus(const NodeShape& shape) {
  const unsigned cores = shape.sockets * shape.cores, cpus = cores * shape.threads;
  last_cpu_ = cpus - 1;
  const std::string root = "/sys/devices/system/cpu/";
  put(root + "present", range(cpus));
  put(root + "online", range(cpus));
  put(root + "isolated", "");
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    // Linux numbers the first thread of every core before the second ones.
    CpuSet siblings;
    for (unsigned thread = 0; thread < shape.threads; ++thread) siblings.add(cpu % cores + thread * cores);
    const std::string path = root + "cpu" + std::to_string(cpu);
    put(path + "/topology/thread_siblings_list", siblings.list());
    put(path + "/power/pm_qos_resume_latency_us", "0");
    if (shape.idle_states) put(path + "/cpuidle/state1/latency", "2");
    if (!shape.clocks) continue;
    const std::string policy = root + "cpufreq/policy" + std::to_string(cpu);
    put(policy + "/affected_cpus", std::to_string(cpu));
    put(policy + "/scaling_governor", "powersave");
    put(policy + "/scaling_available_governors", "performance powersave");
    put(policy + "/energy_performance_preference", "balance_performance");
    put(policy + "/energy_performance_available_preferences",
        "default performance balance_performance balance_power power");
  }
  put("/sys/devices/virtual/workqueue/cpumask", first_cpus(cpus).mask());
  put("/proc/irq/default_smp_affinity", first_cpus(cpus).mask());
  for (unsigned socket = 0; socket < shape.sockets; ++socket) {
    CpuSet of_node;
    for (unsigned cpu = 0; cpu < cpus; ++cpu) {
      if (cpu % cores / shape.cores == socket) of_node.add(cpu);
    }
    const std::string node = "/sys/devices/system/node/node" + std::to_string(socket);
    put(node + "/cpulist", of_node.list());
    put(node + "/meminfo", "Node " + std::to_string(socket) + " MemTotal:       67108864 kB\nNode " +
                               std::to_string(socket) + " MemFree:        " + std::to_string(shape.free_kib) + " kB");
    put(node + "/hugepages/hugepages-2048kB/nr_hugepages", "0");
    put(node + "/hugepages/hugepages-2048kB/free_hugepages", "0");
  }
}

void Node::build_memory(const NodeShape&) {
  put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
  put("/sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never");
  put("/sys/kernel/mm/ksm/run", "0");
  put("/proc/sys/kernel/numa_balancing", "1");
  put("/proc/sys/vm/stat_interval", "1");
  put("/proc/sys/vm/swappiness", "60");
  put("/proc/sys/kernel/timer_migration", "1");
}

void Node::build_nic(const NicShape& nic) {
  const std::string device = "/sys/devices/pci0000:3a/" + nic.pci;
  put(device + "/numa_node", std::to_string(nic.numa_node));
  fs::create_directories(root_ + "/sys/bus/pci/devices");
  link("/sys/bus/pci/devices/" + nic.pci, device);
  fs::create_directories(root_ + "/sys/bus/pci/drivers/" + nic.driver);
  link(device + "/driver", "/sys/bus/pci/drivers/" + nic.driver);
  const std::string path = device + "/net/" + nic.name;
  for (unsigned queue = 0; queue < nic.queues; ++queue) {
    put(path + "/queues/rx-" + std::to_string(queue) + "/rps_cpus", "0");
    put(path + "/queues/tx-" + std::to_string(queue) + "/xps_cpus", "0");
    add_irq(nic.irq_prefix + std::to_string(queue), nic.pci);
  }
  put(path + "/tx_queue_len", "1000");
  put(path + "/napi_defer_hard_irqs", "0");
  put(path + "/gro_flush_timeout", "0");
  put(path + "/threaded", "0");
  const std::string ethtool = "/ethtool/" + nic.name;
  put(ethtool + "/channels/combined", std::to_string(nic.queues));
  put(ethtool + "/channels/combined-max", std::to_string(nic.queues * 2));
  for (const char* ring : {"/rings/rx", "/rings/tx"}) {
    put(ethtool + ring, "512");
    put(ethtool + ring + "-max", "4096");
  }
  put(ethtool + "/coalesce/rx-usecs", "50");
  put(ethtool + "/coalesce/tx-usecs", "50");
  for (const char* flag : {"/coalesce/adaptive-rx", "/coalesce/adaptive-tx", "/features/gro", "/features/lro"})
    put(ethtool + flag, "1");
  put(ethtool + "/features/ntuple", "0");
  link(path + "/device", device);
  fs::create_directories(root_ + "/sys/class/net");
  link("/sys/class/net/" + nic.name, path);
}

void Node::add_irq(const std::string& action, const std::string& pci, unsigned mode) {
  const std::string number = std::to_string(next_irq_++), path = "/proc/irq/" + number;
  put(path + "/smp_affinity_list", range(last_cpu_ + 1), mode);
  put(path + "/effective_affinity_list", std::to_string(last_cpu_));
  put("/sys/kernel/irq/" + number + "/actions", action);
  if (pci.empty()) return;
  const std::string bus = "/sys/bus/pci/devices/" + pci;
  put((has(bus) ? bus : "/sys/bus/pci/devices/" + pci) + "/msi_irqs/" + number, "msix");
}

void Node::put(const std::string& path, const std::string& text, unsigned mode) {
  const fs::path full = root_ + path;
  fs::create_directories(full.parent_path());
  std::ofstream file(full, std::ios::trunc | std::ios::binary);
  file << text << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + full.string());
  ::chmod(full.c_str(), mode);
}

std::string Node::get(const std::string& path) const {
  std::ifstream file(root_ + path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool Node::has(const std::string& path) const {
  return fs::exists(root_ + path);
}

void Node::remove(const std::string& path) {
  fs::remove_all(root_ + path);
}

void Node::link(const std::string& path, const std::string& target) {
  fs::create_directories(fs::path(root_ + path).parent_path());
  fs::create_symlink(fs::relative(root_ + target, fs::path(root_ + path).parent_path()), root_ + path);
}

void Node::run_process(unsigned pid, const std::string& name, const std::string& cmdline, unsigned start_ticks) {
  const std::string path = "/proc/" + std::to_string(pid);
  put(path + "/comm", name);
  put(path + "/cmdline", cmdline);
  std::string stat = std::to_string(pid) + " (" + name + ") S";
  for (int field = 4; field < 22; ++field) stat += " 0";
  put(path + "/stat", stat + " " + std::to_string(start_ticks) + " 0 0");
}

unsigned Node::irq_of(const std::string& action) const {
  for (const auto& entry : fs::directory_iterator(root_ + "/sys/kernel/irq")) {
    const std::string number = entry.path().filename();
    if (get("/sys/kernel/irq/" + number + "/actions") == action) return static_cast<unsigned>(std::stoul(number));
  }
  return 0;
}

std::map<std::string, std::string> Node::contents() const {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    const std::string path = entry.path().string().substr(root_.size());
    if (entry.is_regular_file() && !path.starts_with("/run/")) all[path] = get(path);
  }
  return all;
}

Tree Node::tree() {
  auto tree = Tree::open(root_, [this](const std::string& path, std::string_view text) { return write(path, text); });
  if (!tree) throw std::runtime_error(tree.error().message());
  return std::move(*tree);
}

Result<void> Node::write(const std::string& path, std::string_view text) {
  if (before_write) before_write();
  writes.push_back(path);
  std::string value(text);
  for (const auto& [end, rule] : rules) {
    if (!path.ends_with(end)) continue;
    if (const int error = rule(value); error != 0) return std::unexpected(Error::from_errno(error, "write", path));
  }
  if (!has(path)) return std::unexpected(Error::from_errno(ENOENT, "open", path));
  std::string now = get(path);
  if (const std::size_t open = now.find('['); open != std::string::npos && value.find('[') == std::string::npos) {
    std::erase_if(now, [](char c) { return c == '[' || c == ']'; });
    const std::size_t at = (" " + now + " ").find(" " + value + " ");
    if (at == std::string::npos) return std::unexpected(Error::from_errno(EINVAL, "write", path));
    now.insert(at + value.size(), "]").insert(at, "[");
    value = now;
  }
  put(path, value);
  if (interrupts_fire && path.ends_with("/smp_affinity_list")) {
    const auto cpus = CpuSet::parse_list(value);
    put(path.substr(0, path.rfind('/')) + "/effective_affinity_list", std::to_string(cpus->cpus().front()));
  }
  if (after_write) after_write();
  return {};
}

Profile profile_of(const std::string& json) {
  auto profile = parse_profile(json);
  if (!profile) throw std::runtime_error(profile.error().message());
  return *profile;
}

const Change& change_of(const Plan& plan, const std::string& key) {
  for (const Change& change : plan.changes) {
    if (change.setting.key == key) return change;
  }
  throw std::runtime_error("no change " + key);
}

}  // namespace podlane::nodeconfig::test
