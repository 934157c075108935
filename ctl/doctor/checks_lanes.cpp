// What the lanes in use say of themselves: lanes.json.
#include <algorithm>
#include <map>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

// Judges each lane whose socket is in somebody's hands.
template <typename Judge>
Verdict of_each_lane(const Sight& sight, Judge judge) {
  if (!sight.lanes_problem.empty()) return unknown(sight.lanes_problem);
  std::vector<Verdict> verdicts;
  for (const Lane& lane : sight.lanes) {
    if (lane.in_force) verdicts.push_back(judge(lane));
  }
  return worst_of(std::move(verdicts), not_applicable("no lane is served here now"));
}

Verdict look_native(const Sight& sight) {
  return of_each_lane(sight, [](const Lane& lane) {
    const std::string is = lane.device + " on " + lane.netdev;
    return lane.native_xdp ? pass(is + ": native XDP") : bad(is + ": generic XDP");
  });
}

Verdict look_zero_copy(const Sight& sight) {
  return of_each_lane(sight, [](const Lane& lane) {
    const std::string is = lane.device + " on " + lane.netdev;
    if (lane.kind == "veth") return not_applicable(is + ": a veth has no zero copy");
    return lane.zero_copy ? pass(is + ": zero-copy") : bad(is + ": copy mode");
  });
}

Verdict look_busy_poll(const Sight& sight) {
  return of_each_lane(sight, [](const Lane& lane) {
    if (lane.mode != "spinning" || lane.kind == "veth")
      return not_applicable(lane.device + " does not spin on a NIC's queue");
    return lane.busy_poll ? pass(lane.device + " polls its queue")
                          : warn(lane.device + " spins on its rings, and another CPU serves its queue");
  });
}

Verdict look_states(const Sight& sight) {
  if (!sight.lanes_problem.empty()) return unknown(sight.lanes_problem);
  std::string unserved;
  for (const Lane& lane : sight.lanes) {
    if (!lane.pod.empty() && lane.state != "serving") {
      unserved += (unserved.empty() ? "" : ", ") + lane.device + " of " + lane.name_space + "/" + lane.pod + " is " +
                  lane.state;
    }
  }
  if (!unserved.empty()) return bad(unserved);
  return sight.lanes.empty() ? not_applicable("no lane is in use here") : pass("every lane of a pod is served");
}

// Two lanes of one NIC's queues, in different pods: their frames to each other leave the NIC and never come back.
Verdict look_same_node(const Sight& sight) {
  if (!sight.lanes_problem.empty()) return unknown(sight.lanes_problem);
  std::map<std::string, std::vector<const Lane*>> by_netdev;
  for (const Lane& lane : sight.lanes) {
    if (!lane.netdev.empty() && !lane.pod.empty()) by_netdev[lane.netdev].push_back(&lane);
  }
  std::string found;
  for (const auto& [netdev, lanes] : by_netdev) {
    const bool has_queue =
        std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return lane->kind == "queue"; });
    if (has_queue && lanes.size() > 1) {
      found += (found.empty() ? "" : "; ") + std::to_string(lanes.size()) + " lanes on " + netdev +
               ", queue lanes among them";
    }
  }
  return found.empty() ? pass("no queue lane shares its NIC with another lane") : warn(found);
}

Verdict look_veth(const Sight& sight) {
  if (!sight.lanes_problem.empty()) return unknown(sight.lanes_problem);
  std::string found;
  for (const Lane& lane : sight.lanes) {
    if (lane.kind == "veth" && lane.mode == "spinning") found += (found.empty() ? "" : ", ") + lane.device;
  }
  if (found.empty()) return pass("no veth lane spins");
  return warn(found + ": spinning on a veth lane");
}

Verdict look_lane_numbers(const Sight& sight) {
  if (!sight.lanes_problem.empty()) return unknown(sight.lanes_problem);
  const auto spinning =
      std::count_if(sight.lanes.begin(), sight.lanes.end(), [](const Lane& lane) { return lane.mode == "spinning"; });
  if (spinning == 0) return not_applicable("no lane spins");
  const std::string is = std::to_string(spinning) + " lanes spin";
  if (sight.facts.kubelet.cpu_policy.empty()) return not_applicable(is + ", and no kubelet hands out CPUs here");
  CpuSet cores;
  for (const unsigned cpu : sight.facts.kubelet.exclusive_cpus().cpus()) {
    CpuSet one;
    one.add(cpu);
    const CpuSet core = sight.facts.siblings_of(one);
    cores.add(core.cpus().front());
  }
  const std::string on = is + " on " + std::to_string(cores.count()) + " cores that pods own";
  return spinning <= static_cast<std::ptrdiff_t>(cores.count()) ? pass(on) : bad(on);
}

constexpr Check kChecks[] = {
    {"A05", "a core for each spinning lane", Severity::kCrit, 4000,
     "lanes.json, cpu_manager_state, thread_siblings_list",
     "no more spinning lanes than cores that pods own (also V10, V26)",
     "A thread that spins on a CPU that is not its own waits for whole time slices of the others.",
     "limits.cpu: one whole core more, or podlane.io/mode: interrupt; taskset -cp shows who may run where",
     look_lane_numbers},
    {"D01", "native XDP", Severity::kCrit, 20, "lanes.json: inForce.xdp", "native",
     "Generic XDP sees a packet only after the kernel has made a copy and a socket buffer of it.",
     "a driver or kernel with XDP; ethtool -K <if> lro off; ip -details link show <if>", look_native},
    {"D02", "zero copy", Severity::kHigh, 1, "lanes.json: inForce.zeroCopy", "true, but on veth lanes (also V28)",
     "Each packet is copied once between the driver's memory and the lane's.",
     "zeroCopy: require in the pool says why it cannot be had; a newer driver; ethtool -i <if>", look_zero_copy},
    {"L01", "every lane is served", Severity::kHigh, 0, "lanes.json: state", "serving for each lane of a pod",
     "The pod has its lane, and nobody has taken its socket over.", "kubectl logs of the pod's relay; podlanectl lanes",
     look_states},
    {"L02", "same-node limits", Severity::kInfo, 0, "lanes.json: netdev, kind", "no other lane beside a queue lane's",
     "A queue lane does not reach another lane of its own node: switches do not send a frame back where it came from.",
     "veth lanes for pods that talk to each other, or keep them on different nodes (podAntiAffinity)", look_same_node},
    {"L03", "no spinning on a veth lane", Severity::kLow, 0, "lanes.json: kind, mode", "interrupt on veth lanes",
     "A veth lane waits for the host's own receive path, which spinning in the pod does not make faster.",
     "podlane.io/mode: interrupt, or a queue lane", look_veth},
    {"L04", "spinning lanes poll their queue", Severity::kMed, 5, "lanes.json: inForce.busyPoll",
     "true for spinning queue lanes",
     "Without busy polling another CPU takes the interrupt and serves the queue for the lane.",
     "a driver with NAPI busy polling, kernel 5.11 or later; ethtool -i <if>", look_busy_poll},
};

}  // namespace

std::span<const Check> lane_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
