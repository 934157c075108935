// Family F: the kernel's features, BPF, TUN, Onload.
#include <algorithm>
#include <array>
#include <charconv>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

struct Feature {
  int major, minor;
  std::string_view lost;
};

// Kernel versions as in the releases' change logs; docs/compatibility.md says which are tried.
constexpr std::array kFeatures = {
    Feature{5, 11, "busy polling of AF_XDP sockets"},
    Feature{6, 1, "podlane at all"},
    Feature{6, 3, "asking a driver for its XDP features"},
    Feature{6, 4, "handing over finished sockets, and so queue lanes"},
    Feature{6, 6, "frames in several buffers"},
};

// "6.12.3-amd64"
std::optional<std::pair<int, int>> version_of(std::string_view release) {
  int major = 0, minor = 0;
  const char* const end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  if (second.ec != std::errc() || major < 2 || minor < 0) return std::nullopt;
  return std::pair(major, minor);
}

Verdict look_version(const Sight& sight) {
  const auto release = sight.text("/proc/sys/kernel/osrelease");
  if (!release) return release.error();
  const auto version = version_of(*release);
  if (!version) return unknown("/proc/sys/kernel/osrelease is no version of Linux");
  std::string lost;
  for (const Feature& feature : kFeatures) {
    if (*version < std::pair(feature.major, feature.minor)) lost.append(lost.empty() ? "" : "; ").append(feature.lost);
  }
  const std::string is = "Linux " + std::to_string(version->first) + "." + std::to_string(version->second);
  if (lost.empty()) return pass(is);
  return bad(is + " lacks: " + lost);
}

Verdict look_jit(const Sight& sight) {
  const auto value = sight.number("/proc/sys/net/core/bpf_jit_enable");
  if (!value) return value.error();
  return *value == 0 ? bad("bpf_jit_enable is 0") : pass("bpf_jit_enable is " + std::to_string(*value));
}

Verdict look_jit_harden(const Sight& sight) {
  return judge_number(sight, "/proc/sys/net/core/bpf_jit_harden", [](auto value) { return value <= 1; });
}

Verdict look_unprivileged_bpf(const Sight& sight) {
  const auto value = sight.number("/proc/sys/kernel/unprivileged_bpf_disabled");
  if (!value) return value.error();
  if (*value != 0) return pass("unprivileged_bpf_disabled is " + std::to_string(*value) + "; podlane has CAP_BPF");
  return warn("unprivileged_bpf_disabled is 0: any user may load programs");
}

Verdict look_bpf_stats(const Sight& sight) {
  return judge_number(sight, "/proc/sys/kernel/bpf_stats_enabled", [](auto value) { return value == 0; });
}

Verdict look_bpffs(const Sight& sight) {
  const auto mounts = sight.text("/proc/mounts");
  if (!mounts) return mounts.error();
  if (mounts->find(' ') == std::string::npos) return unknown("/proc/mounts is not what kernels write");
  return mounts->find(" bpf ") != std::string::npos ? pass("bpffs is mounted") : bad("no bpffs is mounted");
}

Verdict look_tun(const Sight& sight) {
  return sight.text("/dev/net/tun") ? pass("/dev/net/tun is there") : bad("there is no /dev/net/tun");
}

Verdict look_af_alg(const Sight& sight) {
  const auto protocols = sight.text("/proc/net/protocols");
  if (!protocols) return protocols.error();
  if (!protocols->starts_with("protocol")) return unknown("/proc/net/protocols is not what kernels write");
  const bool has = protocols->find("\nALG ") != std::string::npos;
  return pass(has ? "kernel crypto sockets are there, and podlane does not use them"
                  : "kernel crypto sockets are not there, and podlane does not need them");
}

Verdict look_aes(const Sight& sight) {
  const auto info = sight.text("/proc/cpuinfo");
  if (!info) return info.error();
  const auto words = words_of(std::string_view(*info).substr(0, 1 << 14));
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (!has("flags") && !has("Features")) return unknown("/proc/cpuinfo has no flags");
  return has("aes") ? pass("the CPU has AES instructions") : bad("the CPU shows no AES instructions");
}

bool wants_onload(const Sight& sight) {
  const auto& lanes = sight.lanes;
  return std::any_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.kind == "onload"; });
}

Verdict look_onload(const Sight& sight) {
  const auto version = sight.text("/sys/module/onload/version");
  const bool device = sight.text("/dev/onload").has_value();
  if (version && device) return pass("onload " + *version + " is loaded");
  if (version || device) {
    return bad(version ? "onload " + *version + " is loaded and /dev/onload is missing"
                       : "/dev/onload is there and no onload module");
  }
  return wants_onload(sight) ? bad("a lane asks for Onload, and its module is not loaded")
                             : not_applicable("no lane asks for Onload");
}

Verdict look_oof(const Sight& sight) {
  if (!sight.text("/sys/module/onload/version")) return not_applicable("no Onload on this node");
  return judge_number(sight, "/sys/module/onload/parameters/oof_shared_keep_thresh",
                      [](auto value) { return value == 0; });
}

Verdict look_sfc_enabled(const Sight& sight) {
  if (!sight.text("/sys/module/onload/version")) return not_applicable("no Onload on this node");
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.driver != "sfc") return not_applicable(nic.name + " is no sfc NIC");
    const std::string path = "/sys/bus/pci/devices/" + nic.pci + "/sfc_resource/enable";
    return judge_number(
        sight, path, [](auto value) { return value == 1; }, "echo 1 > " + path);
  });
}

Verdict look_lockdown(const Sight& sight) {
  const auto word = chosen_word(sight, "/sys/kernel/security/lockdown");
  if (!word) return word.error();
  return *word == "confidentiality" ? bad("lockdown is confidentiality") : pass("lockdown is " + *word);
}

Verdict look_preempt(const Sight& sight) {
  const auto version = sight.text("/proc/sys/kernel/version");
  if (!version) return version.error();
  if (version->find("PREEMPT_RT") != std::string::npos) return warn("this is a PREEMPT_RT kernel");
  if (version->find('#') == std::string::npos) return unknown("/proc/sys/kernel/version is none");
  return pass(version->find("PREEMPT") != std::string::npos ? "a preemptible kernel"
                                                            : "a kernel without full preemption");
}

Verdict look_tracing(const Sight& sight) {
  const auto word = chosen_word(sight, "/sys/kernel/tracing/current_tracer");
  if (!word) return word.error();
  return *word == "nop" ? pass("no tracer runs") : bad("the tracer " + *word + " runs");
}

Verdict look_mitigations(const Sight& sight) {
  for (const std::string& argument : sight.facts.boot_arguments) {
    if (argument.starts_with("mitigations="))
      return pass("booted with " + argument + ": a decision about security, not ours");
  }
  return pass("mitigations are the kernel's default: system calls cost a little more on older CPUs");
}

constexpr Check kChecks[] = {
    {"F01", "kernel version", Severity::kHigh, 5, "/proc/sys/kernel/osrelease", "6.6 or later",
     "Features came with versions; the finding lists what this one lacks.", "a newer kernel; uname -r", look_version},
    {"F02", "BPF programs are compiled", Severity::kCrit, 5, "/proc/sys/net/core/bpf_jit_enable", "1",
     "Packet programs run in an interpreter, several times slower.", "sysctl net.core.bpf_jit_enable=1", look_jit},
    {"F03", "no JIT hardening for root's programs", Severity::kLow, 1, "/proc/sys/net/core/bpf_jit_harden", "0 or 1",
     "Constants of every compiled program are blinded, which costs time at each run.",
     "sysctl net.core.bpf_jit_harden=1: a choice about security", look_jit_harden},
    {"F04", "who may load BPF", Severity::kInfo, 0, "/proc/sys/kernel/unprivileged_bpf_disabled", "1 or 2",
     "podlane does not need it, and every user has it.", "sysctl kernel.unprivileged_bpf_disabled=1",
     look_unprivileged_bpf},
    {"F05", "BPF programs are not timed", Severity::kLow, 1, "/proc/sys/kernel/bpf_stats_enabled", "0",
     "The kernel takes the time twice at each run of each program.", "sysctl kernel.bpf_stats_enabled=0",
     look_bpf_stats},
    {"F06", "bpffs", Severity::kHigh, 0, "/proc/mounts", "mounted",
     "Without it lanes do not live on when the device plugin dies.", "mount -t bpf bpf /sys/fs/bpf", look_bpffs},
    {"F07", "TUN", Severity::kCrit, 0, "/dev/net/tun", "present", "No lane gets its interface.",
     "modprobe tun; echo tun > /etc/modules-load.d/tun.conf", look_tun},
    {"F08", "kernel crypto sockets", Severity::kInfo, 0, "/proc/net/protocols", "anything",
     "Encryption in user space is faster for small packets.", "nothing to do", look_af_alg},
    {"F09", "AES instructions", Severity::kMed, 10, "/proc/cpuinfo", "aes",
     "Encryption runs without the CPU's help, many times slower.",
     "pass the host's CPU model through; AES-NI in the BIOS", look_aes},
    {"F12", "Onload is loaded", Severity::kCrit, 0, "/sys/module/onload/version, /dev/onload",
     "both where a lane asks for it (also V20)", "Programs fall back to the kernel's sockets without a word.",
     "modprobe onload; onload_tool reload", look_onload},
    {"F14", "Onload is on for the NIC", Severity::kHigh, 10, "/sys/bus/pci/devices/<bdf>/sfc_resource/enable", "1",
     "The card is there, and acceleration is switched off for it.",
     "echo 1 > /sys/bus/pci/devices/<bdf>/sfc_resource/enable", look_sfc_enabled},
    {"F15", "lockdown lets BPF read", Severity::kMed, 0, "/sys/kernel/security/lockdown", "none or integrity",
     "Packet programs may not read what they need.", "boot with lockdown=integrity: a choice about security",
     look_lockdown},
    {"F16", "preemption model", Severity::kInfo, 0, "/proc/sys/kernel/version", "not PREEMPT_RT",
     "On a real-time kernel there is no NUMA balancing and interrupts are threads: other advice holds.",
     "nothing to do", look_preempt},
    {"F17", "no tracing", Severity::kHigh, 20, "/sys/kernel/tracing/current_tracer", "nop",
     "A tracer costs time at each function or event.", "echo nop > /sys/kernel/tracing/current_tracer", look_tracing},
    {"F20", "mitigations", Severity::kInfo, 0, "/proc/cmdline", "anything: it is only told",
     "Some CPUs pay for their bugs at each system call.", "nothing by podlane", look_mitigations},
    {"V22", "Onload's shared filters", Severity::kLow, 0, "/sys/module/onload/parameters/oof_shared_keep_thresh", "0",
     "Filters that are kept for shared ports count against an AF_XDP NIC's few.",
     "options onload oof_shared_keep_thresh=0 in /etc/modprobe.d; onload_tool reload", look_oof},
};

}  // namespace

std::span<const Check> kernel_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
