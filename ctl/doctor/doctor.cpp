#include "ctl/doctor/doctor.hpp"

#include <algorithm>

#include "ctl/doctor/pod.hpp"
#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

// Where the probe may run: CPUs set apart for lanes that no pod has yet, else any that no pod owns. A probe on a CPU
// that a pod owns would take it from the lane.
CpuSet probed_cpus(const Sight& sight) {
  const CpuSet owned = sight.facts.kubelet.exclusive_cpus();
  const CpuSet spare = (sight.pod == nullptr ? sight.lane_cpus : CpuSet()) - owned;
  CpuSet few;
  for (const unsigned cpu : (spare.empty() ? sight.facts.online - owned : spare).cpus()) {
    if (few.count() < kMaxProbedCpus) few.add(cpu);
  }
  return few;
}

std::string head_of(const Sight& sight) {
  std::string text;
  const auto release = sight.text("/proc/sys/kernel/osrelease");
  if (release) text += "Linux " + *release + ", ";
  text += std::to_string(sight.facts.online.count()) + " CPUs, " + std::to_string(sight.facts.numa_nodes.size()) +
          " NUMA nodes, " + std::to_string(sight.lanes.size()) + " lanes in use\n";
  text += sight.lane_cpus.empty() ? "CPUs: all, as none is set apart for lanes (--cpus names some)\n"
                                  : "CPUs of lanes: " + sight.lane_cpus.list() + ", " + sight.lane_cpus_from + "\n";
  text += "NICs:";
  for (const Nic* nic : sight.nics) text += " " + nic->name + " (" + nic->driver + ")";
  text += sight.nics.empty() ? " none with a device\n" : "\n";
  if (sight.pod != nullptr) {
    text += "Pod " + sight.pod->name_space + "/" + sight.pod->name + ": " +
            std::to_string(sight.pod->processes.size()) + " processes on CPUs " + sight.pod->cpus.list() + "\n";
    for (const Lane& lane : sight.lanes) {
      text += "  lane " + lane.device + ": " + lane.kind + (lane.netdev.empty() ? "" : " on " + lane.netdev) +
              (lane.path.empty() ? "" : ", path " + lane.path) + ", mode " + lane.mode + ", " + lane.state +
              (!lane.in_force   ? ""
               : lane.zero_copy ? ", zero-copy"
                                : ", copy") +
              "\n";
    }
  }
  if (sight.probe != nullptr) text += "Measured for " + shown(sight.probe->seconds) + " s\n";
  return text;
}

Result<void> check_question(const Facts& facts, const Question& question) {
  if (!question.cpus.within(facts.online)) {
    return fail(Errc::kInvalid, "--cpus: CPUs " + (question.cpus - facts.online).list() +
                                    " are not online here; these are: " + facts.online.list());
  }
  const bool known = question.nic.empty() || std::any_of(facts.nics.begin(), facts.nics.end(),
                                                         [&](const Nic& nic) { return nic.name == question.nic; });
  if (known) return {};
  std::string names;
  for (const Nic& nic : facts.nics) names += (names.empty() ? "" : ", ") + nic.name;
  return fail(Errc::kNotFound, "--nic: there is no " + question.nic + "; there are: " + names);
}

}  // namespace

Result<Report> consult(const nodeconfig::Tree& tree, const Question& question) {
  PODLANE_TRY_ASSIGN(const Facts facts, nodeconfig::read_facts(tree));
  PODLANE_TRY(check_question(facts, question));
  const Readings readings = nodeconfig::take_readings(tree, facts);
  Sight sight = make_sight(facts, readings, question.cpus, question.nic);
  Pod pod;
  if (!question.pod.empty()) {
    if (!sight.lanes_problem.empty()) return fail(Errc::kInvalid, sight.lanes_problem);
    PODLANE_TRY_ASSIGN(pod, find_pod(tree, sight.lanes, question.pod));
    sight.pod = &pod;
    narrow_to_pod(sight);
  }
  Probe probe;
  if (question.may_measure) {
    probe = measure(tree, {.cpus = probed_cpus(sight)});
    sight.probe = &probe;
    if (sight.pod != nullptr) look_again(tree, pod);
  }
  return Report{.findings = examine(sight), .head = head_of(sight)};
}

}  // namespace podlane::doctor
