// Family B: clocks, idle states, links that sleep.
#include <algorithm>

#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

constexpr const char* kCpuRoot = "/sys/devices/system/cpu/";
constexpr std::int64_t kIdleBoundUs = 10;
constexpr int kMaxIdleStates = 10;  // CPUIDLE_STATE_MAX (include/linux/cpuidle.h)

std::string policy_path(unsigned id, const char* name) {
  return std::string(kCpuRoot) + "cpufreq/policy" + std::to_string(id) + "/" + name;
}

Verdict no_clocks(const Sight& sight) {
  return not_applicable(sight.is_virtual() ? "a virtual machine: clocks are the hypervisor's"
                                           : "this kernel has no cpufreq");
}

// Judges each frequency policy that has one of the CPUs that matter.
template <typename Judge>
Verdict of_each_policy(const Sight& sight, Judge judge) {
  std::vector<Verdict> verdicts;
  for (const auto& policy : sight.facts.policies) {
    if (policy.cpus.meets(sight.cpus())) verdicts.push_back(judge(policy));
  }
  return worst_of(std::move(verdicts), no_clocks(sight));
}

Verdict judge_word(const Sight& sight, const nodeconfig::FrequencyPolicy& policy, const char* name,
                   std::string_view wanted, std::string_view also) {
  const std::string path = policy_path(policy.id, name);
  const auto word = chosen_word(sight, path);
  if (!word) return word.error();
  const std::string is = *word + " on CPUs " + policy.cpus.list();
  if (*word == wanted || *word == also) return pass(is);
  return bad(is, "echo " + std::string(wanted) + " > " + path);
}

Verdict look_governor(const Sight& sight) {
  return of_each_policy(sight, [&](const auto& policy) {
    return judge_word(sight, policy, "scaling_governor", "performance", "performance");
  });
}

Verdict look_energy_preference(const Sight& sight) {
  return of_each_policy(sight, [&](const auto& policy) {
    return judge_word(sight, policy, "energy_performance_preference", "performance", "0");
  });
}

Verdict look_energy_bias(const Sight& sight) {
  const auto groups = by_value(sight, sight.cpus(), std::string(kCpuRoot) + "cpu%/power/energy_perf_bias");
  if (!groups) return groups.error();
  std::vector<Verdict> verdicts;
  for (const auto& [word, cpus] : *groups) {
    const auto value = to_integer(word);
    const std::string is = "bias " + word + " on CPUs " + cpus.list();
    if (word == "performance" || value == 0) verdicts.push_back(pass(is));
    else verdicts.push_back(value ? bad(is) : unknown("energy_perf_bias reads something that is no bias"));
  }
  return worst_of(std::move(verdicts), not_applicable("no bias"));
}

// What a CPU that may not sleep deeply says: "n/a" allows no latency at all, 0 any (Documentation/ABI,
// sysfs-devices-power).
bool is_bounded(const Sight& sight, unsigned cpu) {
  const std::string path = std::string(kCpuRoot) + "cpu" + std::to_string(cpu) + "/power/pm_qos_resume_latency_us";
  const Readings::File* const file = sight.readings.find(path);
  if (file == nullptr || !file->text) return false;
  const auto value = to_integer(*file->text);
  return *file->text == "n/a" || (value && *value > 0 && *value <= kIdleBoundUs);
}

Verdict look_idle_states(const Sight& sight) {
  std::int64_t worst = 0;
  CpuSet deep, shallow;
  for (const unsigned cpu : sight.cpus().cpus()) {
    const std::string of_cpu = std::string(kCpuRoot) + "cpu" + std::to_string(cpu) + "/cpuidle/state";
    for (int state = 0; state < kMaxIdleStates; ++state) {
      const std::string path = of_cpu + std::to_string(state);
      if (sight.readings.find(path + "/latency") == nullptr) continue;
      const auto latency = sight.number(path + "/latency"), disabled = sight.number(path + "/disable");
      if (!latency && latency.error().outcome == Outcome::kUnknown) return latency.error();
      shallow.add(cpu);
      if (!latency || *latency <= kIdleBoundUs || (disabled && *disabled != 0) || is_bounded(sight, cpu)) continue;
      deep.add(cpu);
      worst = std::max(worst, *latency);
    }
  }
  if (shallow.empty()) {
    return not_applicable(sight.is_virtual() ? "a virtual machine: idle states are the hypervisor's"
                                             : "this kernel has no idle states");
  }
  if (deep.empty()) return pass("no CPU sleeps deeper than " + std::to_string(kIdleBoundUs) + " us");
  const std::string first = std::to_string(deep.cpus().front());
  return bad("CPUs " + deep.list() + " may sleep so deeply that waking takes " + std::to_string(worst) + " us",
             "echo " + std::to_string(kIdleBoundUs) + " > " + kCpuRoot + "cpu" + first +
                 "/power/pm_qos_resume_latency_us, likewise for the others (power.maxIdleLatencyUs of the node "
                 "profile)")
      .with_effect(static_cast<double>(worst), true);
}

Verdict look_steady_clock(const Sight& sight) {
  return of_each_policy(sight, [&](const auto& policy) {
    const auto low = sight.number(policy_path(policy.id, "scaling_min_freq"));
    const auto high = sight.number(policy_path(policy.id, "scaling_max_freq"));
    if (!low) return low.error();
    if (!high) return high.error();
    const std::string is =
        std::to_string(*low / 1000) + " to " + std::to_string(*high / 1000) + " MHz on CPUs " + policy.cpus.list();
    if (*high <= 0 || *low < 0) return unknown("a frequency of CPUs " + policy.cpus.list() + " is none");
    if (*low >= *high / 100 * 98) return pass(is);
    return bad(
        is, "cat " + policy_path(policy.id, "scaling_max_freq") + " > " + policy_path(policy.id, "scaling_min_freq"));
  });
}

Verdict look_turbo(const Sight& sight) {
  const auto off = sight.number(std::string(kCpuRoot) + "intel_pstate/no_turbo");
  if (off) return *off != 0 ? pass("turbo is off") : warn("turbo is on");
  const auto boost = sight.number(std::string(kCpuRoot) + "cpufreq/boost");
  if (!boost) return off.error().outcome == Outcome::kUnknown ? off.error() : boost.error();
  return *boost == 0 ? pass("boost is off") : warn("boost is on");
}

Verdict look_throttled(const Sight& sight) {
  const auto groups =
      by_value(sight, sight.cpus(), std::string(kCpuRoot) + "cpu%/thermal_throttle/core_throttle_count");
  if (!groups) return groups.error();
  std::vector<Verdict> verdicts;
  for (const auto& [word, cpus] : *groups) {
    const auto count = to_integer(word);
    if (!count) verdicts.push_back(unknown("core_throttle_count reads something that is no number"));
    else if (*count == 0) verdicts.push_back(pass("CPUs " + cpus.list() + " were never slowed for heat"));
    else verdicts.push_back(bad("CPUs " + cpus.list() + " were slowed for heat " + word + " times since boot"));
  }
  return worst_of(std::move(verdicts), not_applicable("no counter"));
}

Verdict look_aspm(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.pci.empty()) return not_applicable(nic.name + " is no PCI device");
    const std::string path = "/sys/bus/pci/devices/" + nic.pci + "/link/l1_aspm";
    return judge_number(
        sight, path, [](auto value) { return value == 0; }, "echo 0 > " + path);
  });
}

Verdict look_runtime_pm(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.pci.empty()) return not_applicable(nic.name + " is no PCI device");
    const std::string path = "/sys/bus/pci/devices/" + nic.pci + "/power/control";
    const auto word = chosen_word(sight, path);
    if (!word) return word.error();
    if (*word == "on") return pass(path + " is on");
    return *word == "auto" ? bad(path + " is auto", "echo on > " + path) : unknown(path + " is neither on nor auto");
  });
}

Verdict look_clock_source(const Sight& sight) {
  const std::string root = "/sys/devices/system/clocksource/clocksource0/";
  const auto word = chosen_word(sight, root + "current_clocksource");
  if (!word) return word.error();
  const std::string is = "time is read from " + *word;
  const bool known = *word == "tsc" || *word == "arch_sys_counter" || (sight.is_virtual() && *word == "kvm-clock") ||
                     *word == "hyperv_clocksource_tsc_page";
  if (known) return pass(is);
  const auto available = sight.text(root + "available_clocksource");
  const bool has_tsc = available && available->find("tsc") != std::string::npos;
  return bad(is, has_tsc
                     ? "echo tsc > " + root + "current_clocksource, after dmesg | grep -i tsc said why it is not used"
                     : "dmesg | grep -i tsc says why the kernel dropped the tsc; BIOS or hypervisor have to mend it");
}

Verdict look_tsc_flags(const Sight& sight) {
  const auto info = sight.text("/proc/cpuinfo");
  if (!info) return info.error();
  const auto words = words_of(std::string_view(*info).substr(0, 1 << 14));
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (!has("flags") && !has("Features")) return unknown("/proc/cpuinfo has no flags");
  if (has("Features")) return not_applicable("the counter of this architecture is constant");
  if (has("constant_tsc") && has("nonstop_tsc")) return pass("constant_tsc and nonstop_tsc are promised");
  return bad(std::string("/proc/cpuinfo lacks") + (has("constant_tsc") ? "" : " constant_tsc") +
             (has("nonstop_tsc") ? "" : " nonstop_tsc"));
}

Verdict look_power_daemons(const Sight& sight) {
  for (const auto& owner : sight.facts.owners) {
    if (owner.name == "power-profiles-daemon" || owner.name == "thermald") {
      return bad(owner.name + ": " + owner.evidence, "systemctl disable --now " + owner.name);
    }
  }
  return pass("neither power-profiles-daemon nor thermald runs");
}

Verdict look_wake_up(const Sight& sight) {
  if (sight.probe == nullptr) return unknown("nothing was measured: it needs the running node, without --no-probe");
  std::vector<Verdict> verdicts;
  for (const CpuProbe& cpu : sight.probe->cpus) {
    if (!cpu.problem.empty()) {
      verdicts.push_back(unknown(cpu.problem));
      continue;
    }
    const std::string is = "CPU " + std::to_string(cpu.cpu) + ": a sleep ends " + shown(cpu.wake_p50_us) +
                           " us late at the median, " + shown(cpu.wake_p99_us) + " at p99, " + shown(cpu.wake_max_us) +
                           " at most";
    if (cpu.wake_p99_us <= 50) verdicts.push_back(pass(is));
    else verdicts.push_back(warn(is).with_effect(cpu.wake_p99_us, true));
  }
  return worst_of(std::move(verdicts), unknown("no CPU could be measured"));
}

constexpr Check kChecks[] = {
    {"B01", "governor", Severity::kHigh, 30, "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
     "performance (also V17)", "An idle core lowers its clock and needs time to raise it again when a packet comes.",
     "echo performance > /sys/devices/system/cpu/cpufreq/policy<N>/scaling_governor (power.governor of the node "
     "profile)",
     look_governor},
    {"B02", "energy preference", Severity::kHigh, 20, "…/policy*/energy_performance_preference", "performance, or 0",
     "Where the CPU chooses its clock itself, this tells it to save power instead of time.",
     "echo performance > /sys/devices/system/cpu/cpufreq/policy<N>/energy_performance_preference",
     look_energy_preference},
    {"B03", "energy bias", Severity::kLow, 1, "/sys/devices/system/cpu/cpu*/power/energy_perf_bias", "0",
     "The processor's hint between speed and power leans to power.",
     "echo 0 > /sys/devices/system/cpu/cpu<N>/power/energy_perf_bias", look_energy_bias},
    {"B04", "idle states", Severity::kHigh, 100, "…/cpu*/cpuidle/state*/{latency,disable}, pm_qos_resume_latency_us",
     "no enabled state takes longer than 10 us to leave (also V18)",
     "A thread that waits lets its core sleep, and the core needs this long to wake up for the packet.",
     "echo 10 > /sys/devices/system/cpu/cpu<N>/power/pm_qos_resume_latency_us", look_idle_states},
    {"B06", "steady clock", Severity::kLow, 1, "…/policy*/scaling_{min,max}_freq", "within 2 %",
     "The same work takes a varying time while the clock moves.",
     "cat scaling_max_freq > scaling_min_freq in each policy", look_steady_clock},
    {"B07", "turbo", Severity::kInfo, 0, "intel_pstate/no_turbo, cpufreq/boost", "as you want it",
     "Turbo is the fastest on average, but the clock then depends on what other cores do.",
     "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, if steadiness counts for more", look_turbo},
    {"B08", "no thermal throttling", Severity::kHigh, 1000, "…/cpu*/thermal_throttle/core_throttle_count", "0",
     "A core that got too hot was slowed down.", "cooling, or the power limits of BIOS and BMC; turbostat shows both",
     look_throttled},
    {"B10", "PCIe link does not sleep", Severity::kMed, 5, "/sys/bus/pci/devices/<bdf>/link/l1_aspm", "0",
     "The NIC's link goes to sleep between packets and needs microseconds to come back.",
     "echo 0 > /sys/bus/pci/devices/<bdf>/link/l1_aspm", look_aspm},
    {"B11", "NIC does not sleep", Severity::kMed, 0, "/sys/bus/pci/devices/<bdf>/power/control", "on",
     "The kernel may put an idle card to sleep.", "echo on > /sys/bus/pci/devices/<bdf>/power/control",
     look_runtime_pm},
    {"B12", "clock source", Severity::kHigh, 1, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
     "tsc; kvm-clock in a virtual machine", "Each time stamp asks a slow device instead of a register of the CPU.",
     "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource", look_clock_source},
    {"B13", "time stamp counter is constant", Severity::kMed, 1, "/proc/cpuinfo", "constant_tsc and nonstop_tsc",
     "The kernel may drop a counter that is not promised to run at one speed and never to stop.",
     "pass the host's CPU model through to the virtual machine, with invtsc", look_tsc_flags},
    {"B14", "no power daemon", Severity::kLow, 20, "running processes", "no power-profiles-daemon, no thermald",
     "They change governors and energy preferences at any time.", "systemctl disable --now <daemon>",
     look_power_daemons},
    {"M01", "wake-up cost", Severity::kMed, 50, "probe: sleeps of 1 ms on a CPU", "late by at most 50 us at p99",
     "A thread that sleeps until its packet comes pays this for each packet.",
     "mode spinning or adaptive for the lane; B01, B02 and B04 if they fail; cyclictest -m -p95 -a <cpu> measures "
     "longer",
     look_wake_up},
};

}  // namespace

std::span<const Check> power_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
