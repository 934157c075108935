// Family H: the machine, who else tunes it, and what the probe saw.
#include <algorithm>

#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"
#include "lib/json/json.hpp"

namespace podlane::doctor {

namespace {

Verdict judge_steal(const std::string& when, std::uint64_t steal, std::uint64_t all) {
  if (all == 0) return unknown("/proc/stat counts no time");
  const double share = 100.0 * static_cast<double>(steal) / static_cast<double>(all);
  const std::string is = "the hypervisor took " + shown(share) + " % of the CPU time " + when;
  return share < 0.1 ? pass(is) : bad(is);
}

Verdict look_steal(const Sight& sight) {
  std::uint64_t steal = 0, all = 0;
  if (sight.probe != nullptr && sight.probe->seconds > 0) {
    for (const auto& [cpu, after] : sight.probe->after.cpus) {
      const auto before = sight.probe->before.cpus.find(cpu);
      if (before == sight.probe->before.cpus.end() || !sight.cpus().contains(cpu)) continue;
      steal += after.steal - std::min(after.steal, before->second.steal);
      all += (after.busy + after.idle + after.steal) -
             std::min(after.busy + after.idle + after.steal,
                      before->second.busy + before->second.idle + before->second.steal);
    }
    Verdict verdict = judge_steal("during the probe", steal, all);
    if (verdict.outcome == Outcome::kFail) {
      return std::move(verdict).with_effect(
          sight.probe->seconds * 1e6 * static_cast<double>(steal) / static_cast<double>(all), true);
    }
    if (verdict.outcome == Outcome::kPass) return verdict;
  }
  const auto text = sight.text("/proc/stat");
  if (!text) return text.error();
  steal = all = 0;
  for (const auto& [cpu, time] : parse_cpu_times(*text)) {
    steal += time.steal;
    all += time.busy + time.idle + time.steal;
  }
  return judge_steal("since boot", steal, all);
}

Verdict look_virtual(const Sight& sight) {
  const auto info = sight.text("/proc/cpuinfo");
  if (!info) return info.error();
  if (info->find(':') == std::string::npos) return unknown("/proc/cpuinfo is not what kernels write");
  return sight.is_virtual() ? warn("this is a virtual machine") : pass("no hypervisor shows itself");
}

// The report that podlane-nodeconfig left: `key` of `list` whose `field` is `value`.
Verdict judge_status(const Sight& sight, const char* list, const char* field, const char* value, const char* key,
                     const std::string& what) {
  const auto text = sight.text(nodeconfig::kStatusFile);
  if (!text) {
    if (text.error().outcome == Outcome::kUnknown) return text.error();
    return not_applicable("podlane-nodeconfig left no report here");
  }
  const auto document = json::parse(*text, {.max_bytes = 16 << 20});
  const auto in =
      document ? json::Reader::open(*document, "") : Result<json::Reader>(std::unexpected(document.error()));
  if (!in) return unknown(std::string(nodeconfig::kStatusFile) + ": " + in.error().message());
  const auto rows = in->optional_objects(list);
  if (!rows) return unknown(std::string(nodeconfig::kStatusFile) + ": " + rows.error().message());
  std::string found;
  for (const json::Reader& row : *rows) {
    const auto word = row.optional_string(field), name = row.optional_string(key);
    if (!word || !name) return unknown(std::string(nodeconfig::kStatusFile) + " is not what podlane-nodeconfig writes");
    if (*word == value) found += (found.empty() ? "" : ", ") + name->value_or("?");
  }
  return found.empty() ? pass("podlane-nodeconfig reports none") : bad(what + ": " + found);
}

Verdict look_reboot(const Sight& sight) {
  return judge_status(sight, "advice", "label", "reboot-required", "about", "settings wait for a reboot");
}

Verdict look_kubelet_restart(const Sight& sight) {
  return judge_status(sight, "advice", "label", "kubelet-restart-required", "about",
                      "settings wait for a restart of the kubelet");
}

Verdict look_contested(const Sight& sight) {
  return judge_status(sight, "changes", "outcome", "contested", "key", "changed back three times by somebody else");
}

Verdict look_owners(const Sight& sight) {
  std::string found;
  for (const auto& owner : sight.facts.owners)
    found += (found.empty() ? "" : "; ") + owner.name + ": " + owner.evidence;
  return found.empty() ? pass("nobody else tunes this node") : warn(found);
}

Verdict look_load(const Sight& sight) {
  if (sight.probe == nullptr || sight.probe->seconds <= 0)
    return unknown("nothing was measured: it needs two looks, without --no-probe");
  std::uint64_t busy = 0, all = 0;
  for (const auto& [cpu, after] : sight.probe->after.cpus) {
    const auto before = sight.probe->before.cpus.find(cpu);
    if (before == sight.probe->before.cpus.end() || sight.lane_cpus.contains(cpu)) continue;
    const std::uint64_t ran = after.busy - std::min(after.busy, before->second.busy);
    busy += ran;
    all += ran + after.idle - std::min(after.idle, before->second.idle);
  }
  if (all == 0) return unknown("/proc/stat counted no time on housekeeping CPUs");
  const double share = 100.0 * static_cast<double>(busy) / static_cast<double>(all);
  const std::string is =
      "housekeeping CPUs were busy for " + shown(share) + " % of the probe, the probe's own threads included";
  return share < 70 ? pass(is) : warn(is);
}

// What came to the CPU during the probe, most first.
std::string blamed(const Sight& sight, unsigned cpu) {
  std::vector<std::pair<std::uint64_t, std::string>> seen;
  for (const InterruptLine& after : sight.probe->after.interrupts) {
    const auto count = after.by_cpu.find(cpu);
    if (count == after.by_cpu.end()) continue;
    std::uint64_t earlier = 0;
    for (const InterruptLine& before : sight.probe->before.interrupts) {
      if (before.name != after.name) continue;
      const auto was = before.by_cpu.find(cpu);
      earlier = was == before.by_cpu.end() ? 0 : was->second;
    }
    if (count->second > earlier) seen.emplace_back(count->second - earlier, after.name + " " + after.what);
  }
  std::sort(seen.rbegin(), seen.rend());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(seen.size(), 3); ++i) {
    text += (i == 0 ? "; interrupts meanwhile: " : ", ") + std::to_string(seen[i].first) + " of " + seen[i].second;
  }
  return text;
}

Verdict look_jitter(const Sight& sight) {
  if (sight.probe == nullptr) return unknown("nothing was measured: it needs the running node, without --no-probe");
  std::vector<Verdict> verdicts;
  for (const CpuProbe& cpu : sight.probe->cpus) {
    if (!cpu.problem.empty()) {
      verdicts.push_back(unknown(cpu.problem));
      continue;
    }
    const std::string is = "CPU " + std::to_string(cpu.cpu) + ": the longest stop of a spinning thread was " +
                           shown(cpu.gap_max_us) + " us, " + std::to_string(cpu.gaps) + " stops above 1 us took " +
                           shown(cpu.lost_share * 100) + " % of its time" + blamed(sight, cpu.cpu);
    if (cpu.gap_max_us <= 50) verdicts.push_back(pass(is));
    else verdicts.push_back(bad(is).with_effect(cpu.gap_max_us, true));
  }
  return worst_of(std::move(verdicts), unknown("no CPU could be measured"));
}

Verdict look_console(const Sight& sight) {
  const auto printk = sight.text("/proc/sys/kernel/printk");
  if (!printk) return printk.error();
  const auto words = words_of(*printk);
  const auto level = words.empty() ? std::nullopt : to_integer(words[0]);
  if (!level) return unknown("/proc/sys/kernel/printk is not what kernels write");
  const auto& arguments = sight.facts.boot_arguments;
  const bool serial = std::any_of(arguments.begin(), arguments.end(),
                                  [](const std::string& argument) { return argument.starts_with("console=ttyS"); });
  const std::string is = "console level " + std::to_string(*level);
  if (!serial || *level <= 3) return pass(is + (serial ? ", on a serial line" : ", on no serial line"));
  return warn(is + ", on a serial line");
}

constexpr Check kChecks[] = {
    {"H01", "no steal", Severity::kHigh, 1000, "/proc/stat; probe: twice", "below 0.1 %",
     "The hypervisor ran somebody else on this CPU.",
     "a dedicated host, or CPUs that the hypervisor pins; top shows st", look_steal},
    {"H02", "bare metal", Severity::kInfo, 0, "/proc/cpuinfo: hypervisor", "no hypervisor",
     "In a virtual machine every interrupt and wake-up may leave the guest; numbers below 10 us are not steady.",
     "bare metal for the last steps", look_virtual},
    {"H04", "no reboot is due", Severity::kMed, 0, "nodeconfig.json: advice", "none",
     "Boot arguments that the profile names are not in force.",
     "podlane-nodeconfig plan prints the commands; drain, reboot", look_reboot},
    {"H05", "no restart of the kubelet is due", Severity::kMed, 0, "nodeconfig.json: advice", "none",
     "The kubelet works with what it saw when it started.",
     "podlane-nodeconfig plan prints the steps; systemctl restart kubelet", look_kubelet_restart},
    {"H06", "no setting is contested", Severity::kHigh, 0, "nodeconfig.json: changes", "none",
     "Somebody else sets the value back each time, so it is not in force for long.",
     "podlane-nodeconfig status names both sides; take the key out of one", look_contested},
    {"H07", "one owner tunes the node", Severity::kInfo, 0, "processes, /etc/tuned, /etc/crio", "nobody else",
     "Two that tune one node undo each other's settings.",
     "one owner a setting; tuned-adm active shows TuneD's profile", look_owners},
    {"H08", "housekeeping CPUs have room", Severity::kMed, 100, "probe: /proc/stat twice", "below 70 % busy",
     "Deferred work of all queues and the device plugin wait there for their turn.",
     "a larger reservedSystemCPUs; taskset or cpusets for what is busy: top -1 shows it", look_load},
    {"H10", "no long stops", Severity::kHigh, 50, "probe: a thread spins on the clock", "no stop above 50 us",
     "A thread that wants to run was stopped, by interrupts, other tasks, firmware or the hypervisor.",
     "C03, A06 and H01 say by whom; rtla osnoise top -c <cpu>, or oslat -c <cpu>, look longer", look_jitter},
    {"H11", "no slow console", Severity::kLow, 90, "/proc/sys/kernel/printk, console= of /proc/cmdline",
     "level 3 or no serial console", "Each message of the kernel waits for a serial line.",
     "dmesg -n 3, or boot without console=ttyS", look_console},
};

}  // namespace

std::span<const Check> platform_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
