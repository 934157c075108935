// Sight: everything that checks judge - facts and readings of the node, lanes in use, the pod asked about, and what the
// probe measured. Values only; filled once a run. Any thread.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctl/doctor/check.hpp"
#include "ctl/doctor/lanes_file.hpp"
#include "nodeconfig/readings.hpp"

namespace podlane::doctor {

using nodeconfig::CpuSet;
using nodeconfig::Facts;
using nodeconfig::Irq;
using nodeconfig::Nic;
using nodeconfig::Readings;

struct Pod;    // pod.hpp
struct Probe;  // probe.hpp

// A value, or why there is none: not-applicable where the file is missing, unknown where nothing can be made of it.
template <typename T>
using Read = std::expected<T, Verdict>;

struct Sight {
  const Facts& facts;
  const Readings& readings;
  std::vector<Lane> lanes;
  std::string lanes_problem;     // Why lanes.json could not be understood; empty otherwise.
  CpuSet lane_cpus;              // CPUs that lanes' pods own, or that are set apart for them. Empty: none is.
  std::string lane_cpus_from;    // "the kubelet gave them to pods", "--cpus"
  std::vector<const Nic*> nics;  // Those with lanes; without any, those with a device.
  const Pod* pod = nullptr;      // Borrowed; nullptr: the node alone was asked about.
  const Probe* probe = nullptr;  // Borrowed; nullptr: nothing was measured.

  Read<std::string> text(const std::string& path) const;
  Read<std::int64_t> number(const std::string& path) const;
  Read<CpuSet> list(const std::string& path) const;
  Read<CpuSet> mask(const std::string& path) const;

  // The CPUs that matter: the lanes', or all of the node while none is set apart.
  CpuSet cpus() const { return lane_cpus.empty() ? facts.online : lane_cpus; }
  std::vector<const Lane*> lanes_on(const std::string& netdev) const;
  bool has_mode(std::string_view mode) const;
  bool is_virtual() const;  // A hypervisor is below this kernel.
};

// Judges each of the sight's NICs and gives the worst, with the words of all that are as bad.
Verdict of_each_nic(const Sight& sight, const std::function<Verdict(const Nic&)>& judge);
// The worst of some verdicts; equal ones are joined.
Verdict worst_of(std::vector<Verdict> verdicts, Verdict when_none);

// A number in one file that must be as `good` says.
Verdict judge_number(const Sight& sight, const std::string& path, const std::function<bool(std::int64_t)>& good,
                     const std::string& fix = {});
// A word in one file: "always [madvise] never" or plain.
Read<std::string> chosen_word(const Sight& sight, const std::string& path);

// CPUs grouped by what the file of each reads: "powersave on 0-3". `path` has a '%' for the CPU.
Read<std::vector<std::pair<std::string, CpuSet>>> by_value(const Sight& sight, const CpuSet& cpus,
                                                           const std::string& path);

std::optional<std::int64_t> to_integer(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text);
std::string shown(double value);  // "12", "0.4"

// CPUs that matter, which NICs, lanes: from facts and readings. `cpus` and `nic` empty: found out.
Sight make_sight(const Facts& facts, const Readings& readings, const CpuSet& cpus, const std::string& nic);
// Of the lanes and NICs only the pod's; the CPUs that matter are those its processes may run on.
void narrow_to_pod(Sight& sight);

}  // namespace podlane::doctor
