// Family C: what interrupts the lanes' CPUs.
#include <algorithm>

#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

Verdict no_lane_cpus() {
  return not_applicable("no CPU is set apart for lanes (--cpus names some)");
}

std::string irq_path(const Irq& irq, const char* name) {
  return "/proc/irq/" + std::to_string(irq.number) + "/" + name;
}

// Since Linux 6.12 the file of an interrupt that the kernel places itself cannot be written.
bool is_managed(const Sight& sight, const Irq& irq) {
  const auto* file = sight.readings.find(irq_path(irq, "smp_affinity_list"));
  return file != nullptr && file->mode != 0 && (file->mode & 0222) == 0;
}

// The queue of a lane that waits for interrupts has its own on its own CPU, rightly.
bool is_own(const Sight& sight, const Irq& irq) {
  for (const Nic& nic : sight.facts.nics) {
    if (nic.pci.empty() || nic.pci != irq.pci || irq.role.empty()) continue;
    for (const Lane* lane : sight.lanes_on(nic.name)) {
      const auto queue = static_cast<unsigned>(lane->queue);
      if (lane->kind == "queue" && lane->mode != "spinning" && queue >= irq.first && queue <= irq.last) return true;
    }
  }
  return false;
}

std::string housekeeping(const Sight& sight) {
  const CpuSet rest = sight.facts.online - sight.facts.siblings_of(sight.lane_cpus);
  return rest.empty() ? "<housekeeping CPUs>" : rest.list();
}

// Some of many, in words.
class Names {
 public:
  void add(const Irq& irq) {
    if (++count_ <= 4) text_ += (text_.empty() ? "" : ", ") + std::to_string(irq.number) + " (" + irq.action + ")";
    if (first_ == 0) first_ = irq.number;
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return "interrupts " + text_ + (count_ > 4 ? " and " + std::to_string(count_ - 4) + " more" : "");
  }
  std::string move_to(const std::string& cpus) const {
    return "echo " + cpus + " > /proc/irq/" + std::to_string(first_) + "/smp_affinity_list" +
           (count_ > 1 ? ", likewise for the others" : "") + " (interrupts.irqs of the node profile)";
  }

 private:
  unsigned first_ = 0;
  std::size_t count_ = 0;
  std::string text_;
};

const nodeconfig::Owner* irqbalance(const Sight& sight) {
  const auto& owners = sight.facts.owners;
  const auto it =
      std::find_if(owners.begin(), owners.end(), [](const auto& owner) { return owner.name == "irqbalance"; });
  return it == owners.end() ? nullptr : &*it;
}

// IRQBALANCE_BANNED_CPULIST (a list) or the older IRQBALANCE_BANNED_CPUS (a mask), of the file that the unit reads.
Read<CpuSet> banned_cpus(const Sight& sight) {
  for (const char* path : {"/etc/default/irqbalance", "/etc/sysconfig/irqbalance"}) {
    const auto text = sight.text(path);
    if (!text) continue;
    for (const auto& line : nodeconfig::parse_ini(*text)) {
      std::string value = line.value;
      std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
      const bool list = line.option == "IRQBALANCE_BANNED_CPULIST";
      if (!list && line.option != "IRQBALANCE_BANNED_CPUS") continue;
      auto cpus = list ? CpuSet::parse_list(value) : CpuSet::parse_mask(value);
      if (!cpus) return std::unexpected(unknown(std::string(path) + ": " + line.option + " is no set of CPUs"));
      return std::move(*cpus);
    }
  }
  return CpuSet();
}

Verdict look_irqbalance(const Sight& sight) {
  const auto* owner = irqbalance(sight);
  if (owner == nullptr) return pass("irqbalance does not run");
  const auto banned = banned_cpus(sight);
  if (!banned) return banned.error();
  if (sight.lane_cpus.empty()) return warn("irqbalance runs, and no CPU is set apart from it yet");
  if (sight.lane_cpus.within(*banned)) return pass("irqbalance runs and leaves the lanes' CPUs out");
  return bad("irqbalance runs and may use the lanes' CPUs " + (sight.lane_cpus - *banned).list(),
             "IRQBALANCE_BANNED_CPULIST=" + sight.facts.siblings_of(sight.lane_cpus).list() +
                 " in /etc/default/irqbalance (or /etc/sysconfig/irqbalance); systemctl restart irqbalance");
}

Verdict look_ban_complete(const Sight& sight) {
  if (irqbalance(sight) == nullptr) return not_applicable("irqbalance does not run");
  const auto banned = banned_cpus(sight);
  if (!banned) return banned.error();
  if (banned->empty()) return not_applicable("no ban list: irqbalance then leaves isolated CPUs out by itself");
  const CpuSet wanted =
      (sight.facts.siblings_of(sight.lane_cpus) | sight.list("/sys/devices/system/cpu/isolated").value_or(CpuSet()) |
       sight.list("/sys/devices/system/cpu/nohz_full").value_or(CpuSet())) &
      sight.facts.online;
  const CpuSet missing = wanted - *banned;
  if (missing.empty()) return pass("the ban list has every CPU that is set apart");
  return bad("the ban list " + banned->list() + " lacks CPUs " + missing.list(),
             "IRQBALANCE_BANNED_CPULIST=" + (wanted | *banned).list() + "; systemctl restart irqbalance");
}

Verdict look_landing(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  if (sight.probe != nullptr && sight.probe->seconds > 0) {
    std::string seen;
    double most = 0;
    for (const InterruptLine& after : sight.probe->after.interrupts) {
      const auto number = to_integer(after.name);
      if (!number) continue;
      const auto irq = std::find_if(sight.facts.irqs.begin(), sight.facts.irqs.end(),
                                    [&](const Irq& one) { return one.number == *number; });
      if (irq != sight.facts.irqs.end() && is_own(sight, *irq)) continue;
      const auto before = std::find_if(sight.probe->before.interrupts.begin(), sight.probe->before.interrupts.end(),
                                       [&](const InterruptLine& one) { return one.name == after.name; });
      for (const auto& [cpu, count] : after.by_cpu) {
        const auto was = before == sight.probe->before.interrupts.end() ? after.by_cpu.end() : before->by_cpu.find(cpu);
        const std::uint64_t earlier =
            before == sight.probe->before.interrupts.end() || was == before->by_cpu.end() ? 0 : was->second;
        if (!sight.lane_cpus.contains(cpu) || count <= earlier) continue;
        const double rate = static_cast<double>(count - earlier) / sight.probe->seconds;
        most = std::max(most, rate);
        seen += (seen.empty() ? "" : ", ") + after.name + " (" + after.what + ") on CPU " + std::to_string(cpu) + " " +
                shown(rate) + " times a second";
      }
    }
    if (!seen.empty()) return bad("interrupts of devices came to lanes' CPUs: " + seen);
    return pass("no device interrupted a lane's CPU for " + shown(sight.probe->seconds) + " s");
  }
  Names names;
  for (const Irq& irq : sight.facts.irqs) {
    if (is_own(sight, irq) || is_managed(sight, irq)) continue;
    const auto cpus = sight.list(irq_path(irq, "effective_affinity_list"));
    if (!cpus && cpus.error().outcome == Outcome::kUnknown) return cpus.error();
    if (cpus && cpus->meets(sight.lane_cpus)) names.add(irq);
  }
  if (names.empty()) return pass("no interrupt that can be moved is on a lane's CPU");
  return bad(names.text() + " are on lanes' CPUs now", names.move_to(housekeeping(sight)));
}

Verdict look_could_land(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  Names names;
  for (const Irq& irq : sight.facts.irqs) {
    if (is_own(sight, irq) || is_managed(sight, irq)) continue;
    const auto cpus = sight.list(irq_path(irq, "smp_affinity_list"));
    if (!cpus && cpus.error().outcome == Outcome::kUnknown) return cpus.error();
    if (cpus && cpus->meets(sight.lane_cpus)) names.add(irq);
  }
  if (names.empty()) return pass("no interrupt that can be moved may come to a lane's CPU");
  return bad(names.text() + " may come to lanes' CPUs", names.move_to(housekeeping(sight)));
}

Verdict look_managed(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  Names names;
  for (const Irq& irq : sight.facts.irqs) {
    if (!is_managed(sight, irq)) continue;
    const auto cpus = sight.list(irq_path(irq, "effective_affinity_list"));
    if (!cpus && cpus.error().outcome == Outcome::kUnknown) return cpus.error();
    if (cpus && cpus->meets(sight.lane_cpus)) names.add(irq);
  }
  if (names.empty()) return pass("no interrupt that the kernel places itself is on a lane's CPU");
  return warn(names.text() + " stay on lanes' CPUs: the kernel places them itself");
}

Verdict look_default_affinity(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  const std::string path = "/proc/irq/default_smp_affinity";
  const auto mask = sight.mask(path);
  if (!mask) return mask.error();
  const CpuSet both = *mask & sight.lane_cpus;
  if (both.empty()) return pass(path + " leaves the lanes' CPUs out");
  return bad(path + " has the lanes' CPUs " + both.list(),
             "echo " + (sight.facts.online - sight.lane_cpus).mask() + " > " + path);
}

Verdict look_queue_near(const Sight& sight) {
  if (sight.facts.numa_nodes.size() < 2) return not_applicable("this node has one NUMA node");
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.numa_node < 0) return unknown("the firmware does not say where " + nic.name + " sits");
    const auto node = std::find_if(sight.facts.numa_nodes.begin(), sight.facts.numa_nodes.end(),
                                   [&](const auto& one) { return static_cast<int>(one.id) == nic.numa_node; });
    if (node == sight.facts.numa_nodes.end()) return unknown("there is no NUMA node for " + nic.name);
    Names far;
    for (const Irq& irq : sight.facts.irqs) {
      if (nic.pci.empty() || irq.pci != nic.pci || irq.role.empty()) continue;
      const auto cpus = sight.list(irq_path(irq, "effective_affinity_list"));
      if (!cpus && cpus.error().outcome == Outcome::kUnknown) return cpus.error();
      if (cpus && !cpus->empty() && !cpus->meets(node->cpus)) far.add(irq);
    }
    if (far.empty()) return pass("queues of " + nic.name + " are served on its own NUMA node");
    return bad(far.text() + " of " + nic.name + " are served on another NUMA node", far.move_to(node->cpus.list()));
  });
}

Verdict look_rps(const Sight& sight) {
  if (sight.lane_cpus.empty()) return no_lane_cpus();
  return of_each_nic(sight, [&](const Nic& nic) {
    CpuSet reached;
    std::string first;
    for (const unsigned queue : nic.rx_queues) {
      const std::string path = "/sys/class/net/" + nic.name + "/queues/rx-" + std::to_string(queue) + "/rps_cpus";
      const auto mask = sight.mask(path);
      if (!mask) return mask.error();
      if (mask->meets(sight.lane_cpus) && first.empty()) first = path;
      reached = reached | (*mask & sight.lane_cpus);
    }
    if (reached.empty()) return pass("no queue of " + nic.name + " hands packets to a lane's CPU");
    return bad("queues of " + nic.name + " hand packets to lanes' CPUs " + reached.list(),
               "echo 0 > " + first + ", likewise for its other queues (nics.rps of the node profile)");
  });
}

Verdict look_watchdog(const Sight& sight) {
  return judge_number(sight, "/proc/sys/kernel/nmi_watchdog", [](auto value) { return value == 0; });
}

Verdict look_softnet(const Sight& sight) {
  const auto text = sight.text("/proc/net/softnet_stat");
  if (!text) return text.error();
  std::uint64_t dropped = 0, squeezed = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const auto words = words_of(std::string_view(*text).substr(at, end - at));
    at = end + 1;
    if (words.empty()) continue;
    const auto drop = words.size() < 3 ? Result<CpuSet>(CpuSet()) : CpuSet::parse_mask(words[1]);
    if (words.size() < 3 || !drop) return unknown("/proc/net/softnet_stat is not what kernels write");
    dropped += std::strtoull(std::string(words[1]).c_str(), nullptr, 16);
    squeezed += std::strtoull(std::string(words[2]).c_str(), nullptr, 16);
  }
  if (text->empty()) return unknown("/proc/net/softnet_stat is empty");
  const std::string is =
      std::to_string(dropped) + " packets dropped and " + std::to_string(squeezed) + " times out of budget since boot";
  if (dropped > 0) return bad(is);
  return squeezed > 0 ? warn(is) : pass(is);
}

Verdict look_vectors(const Sight& sight) {
  Names outside;
  for (const Irq& irq : sight.facts.irqs) {
    const auto wanted = sight.list(irq_path(irq, "smp_affinity_list"));
    const auto got = sight.list(irq_path(irq, "effective_affinity_list"));
    if (!wanted && wanted.error().outcome == Outcome::kUnknown) return wanted.error();
    if (!got && got.error().outcome == Outcome::kUnknown) return got.error();
    if (wanted && got && !got->empty() && !wanted->empty() && !got->meets(*wanted)) outside.add(irq);
  }
  if (outside.empty()) return pass("every interrupt is where its affinity allows");
  return bad(outside.text() + " are on CPUs that their affinity does not name: too few vectors on those it does");
}

constexpr Check kChecks[] = {
    {"C01", "irqbalance leaves lanes alone", Severity::kHigh, 10, "processes, /etc/default/irqbalance",
     "not running, or the lanes' CPUs are banned (also V16)",
     "It moves interrupts every ten seconds and may choose a lane's CPU.",
     "IRQBALANCE_BANNED_CPULIST=<lanes' CPUs> in /etc/default/irqbalance; systemctl restart irqbalance",
     look_irqbalance},
    {"C02", "irqbalance's ban list is complete", Severity::kMed, 10, "/etc/default/irqbalance",
     "lanes' CPUs with their siblings, isolated and tickless CPUs",
     "A list of one's own replaces the built-in one, so isolated CPUs lose their protection.",
     "IRQBALANCE_BANNED_CPULIST with all of them; systemctl restart irqbalance", look_ban_complete},
    {"C03", "no foreign interrupt on lanes' CPUs", Severity::kHigh, 10,
     "/proc/irq/*/effective_affinity_list; probe: /proc/interrupts twice", "none but a waiting lane's own queue",
     "Each interrupt stops the thread on its CPU for 2 to 10 microseconds.",
     "echo <housekeeping CPUs> > /proc/irq/<n>/smp_affinity_list", look_landing},
    {"C04", "no foreign interrupt may come", Severity::kMed, 8, "/proc/irq/*/smp_affinity_list", "no lane's CPU",
     "The interrupt may use a lane's CPU tomorrow, though it does not now.",
     "echo <housekeeping CPUs> > /proc/irq/<n>/smp_affinity_list", look_could_land},
    {"C05", "managed interrupts", Severity::kMed, 5, "mode and effective_affinity_list of /proc/irq/*",
     "none on a lane's CPU", "A disk's queue for this CPU cannot be moved, and fires when this CPU does disk I/O.",
     "taskset -cp <other CPUs> <pid> for what does disk I/O; boot with isolcpus=managed_irq,<lanes' CPUs>",
     look_managed},
    {"C06", "default affinity", Severity::kLow, 8, "/proc/irq/default_smp_affinity", "no lane's CPU",
     "A new device's interrupts would begin on a lane's CPU.", "echo <mask> > /proc/irq/default_smp_affinity",
     look_default_affinity},
    {"C07", "queues are served near the NIC", Severity::kHigh, 2, "effective_affinity_list of the NIC's interrupts",
     "a CPU of the NIC's NUMA node",
     "The packet is first touched on the other socket, and its cache lines come from there.",
     "echo <CPU of the NIC's node> > /proc/irq/<n>/smp_affinity_list; ethtool -S and lstopo show which",
     look_queue_near},
    {"C10", "no receive packet steering to lanes' CPUs", Severity::kHigh, 10,
     "/sys/class/net/<if>/queues/rx-*/rps_cpus", "no lane's CPU",
     "Packets of other traffic are handed to the lane's CPU with an interrupt from CPU to CPU.",
     "echo 0 > /sys/class/net/<if>/queues/rx-<q>/rps_cpus", look_rps},
    {"C12", "NMI watchdog", Severity::kLow, 2, "/proc/sys/kernel/nmi_watchdog", "0",
     "It interrupts each core every few seconds, and nothing can mask it.", "sysctl kernel.nmi_watchdog=0",
     look_watchdog},
    {"C13", "receive budget suffices", Severity::kMed, 1000, "/proc/net/softnet_stat",
     "nothing dropped, no budget exceeded", "The kernel ran out of time while packets were still waiting in the NIC.",
     "more housekeeping CPUs; sysctl net.core.netdev_budget_usecs=4000; ethtool -L spreads queues", look_softnet},
    {"C14", "interrupt vectors suffice", Severity::kHigh, 10, "smp_affinity_list and effective_affinity_list",
     "every interrupt where its affinity allows",
     "A few housekeeping CPUs have too few vectors for all devices, so the kernel put interrupts elsewhere.",
     "ethtool -L <if> combined <fewer>, or more housekeeping CPUs", look_vectors},
};

}  // namespace

std::span<const Check> interrupt_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
