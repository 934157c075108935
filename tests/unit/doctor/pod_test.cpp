// --pod: which processes are the pod's, and what is said of them.
#include "ctl/doctor/pod.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ctl/doctor/doctor.hpp"
#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/sight.hpp"
#include "lib/journal/attachment_record.hpp"
#include "tests/unit/doctor/check_cases.hpp"

namespace podlane::doctor::test {
namespace {

using nodeconfig::Tree;
constexpr const char* kUid = "0a1b2c3d-1111-2222-3333-444455556666";

struct PodShape {
  std::string slice = "/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-aa.scope";
  std::string allowed = "2-3", effective = "2-3", quota = "max 100000";
  std::string throttled = "nr_periods 9\nnr_throttled 0\nthrottled_usec 0";
  std::string lock = "unlimited", swap = "0", drops = "0";
};

void put_pod(Node& node, const PodShape& shape_of_pod) {
  node.put("/run/podlane/lanes.json", lanes_json(R"("ifname": "lane0", "addresses": ["10.9.0.50/24"])"));
  node.put("/run/podlane/attachments/a.json",
           journal::encode(journal::AttachmentRecord{.key = {"n", "sandbox1", "eth0"},
                                                     .boot_id = "b",
                                                     .netns_path = "/run/netns/x",
                                                     .pod_namespace = "trading",
                                                     .pod_name = "md-0",
                                                     .pod_uid = kUid,
                                                     .state = journal::RecordState::kMade}));
  node.put(
      "/var/lib/kubelet/cpu_manager_state",
      std::string(R"({"policyName":"static","defaultCpuSet":"0-1","entries":{")") + kUid + R"(":{"engine":"2-3"}}})");
  node.run_process(500, "engine", "engine");
  node.put("/proc/500/cgroup", "0::" + shape_of_pod.slice);
  node.put("/proc/500/status", "Name:\tengine\nVmSwap:\t" + shape_of_pod.swap + " kB\nCpus_allowed_list:\t" +
                                   shape_of_pod.allowed + "\nnonvoluntary_ctxt_switches:\t10");
  node.put("/proc/500/limits",
           "Limit  Soft Hard\nMax locked memory         " + shape_of_pod.lock + "   unlimited   bytes");
  node.put("/proc/500/net/dev", "Inter-| face\n lane0: 1 1 0 " + shape_of_pod.drops + " 0 0 0 0 1 1 0 0 0 0 0 0");
  const std::string cgroup = "/sys/fs/cgroup" + shape_of_pod.slice;
  node.put(cgroup + "/cpu.stat", shape_of_pod.throttled);
  node.put(cgroup + "/cpu.max", shape_of_pod.quota);
  node.put(cgroup + "/cpuset.cpus.effective", shape_of_pod.effective);
  node.run_process(501, "other", "other");
  node.put("/proc/501/cgroup", "0::/system.slice/other.service");
}

Outcome judged(const PodShape& shape_of_pod, std::string_view id) {
  Node node(shape());
  furnish(node);
  put_pod(node, shape_of_pod);
  const auto report = consult(*Tree::open(node.root()), {.pod = "trading/md-0", .may_measure = false});
  if (!report) throw std::runtime_error(report.error().message());
  for (const Finding& one : report->findings) {
    if (one.check->id == id) return one.verdict.outcome;
  }
  throw std::runtime_error("no such check");
}

TEST(PodChecks, JudgeEachPod) {
  const std::string burstable =
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/x";
  const struct {
    const char* id;
    PodShape bad;
    Outcome expected;
  } rows[] = {
      {"A16", {.allowed = "2"}, Outcome::kPass},  // Its lane spins: it may have pinned itself.
      {"E05", {.lock = "65536"}, Outcome::kWarn},
      {"E15", {.swap = "12"}, Outcome::kFail},
      {"F11", {.drops = "32"}, Outcome::kFail},
      {"G01", {.throttled = "nr_throttled 41\nthrottled_usec 820000"}, Outcome::kFail},
      {"G02", {.slice = burstable}, Outcome::kFail},
      {"V13", {.quota = "200000 100000"}, Outcome::kFail},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(judged({}, row.id), Outcome::kPass) << row.id;
    EXPECT_EQ(judged(row.bad, row.id), row.expected) << row.id;
  }
  EXPECT_EQ(judged({}, "A02"), Outcome::kPass);
  EXPECT_EQ(judged({}, "G04"), Outcome::kUnknown) << "nothing was measured";
}

TEST(FindPod, NamesThePodsThatHaveLanes) {
  Node node(shape());
  furnish(node);
  put_pod(node, {});
  const auto tree = Tree::open(node.root());
  const auto report = consult(*tree, {.pod = "trading/md-9", .may_measure = false});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("trading/md-0"), std::string::npos) << report.error().message();
  const auto lanes = parse_lanes(node.get("/run/podlane/lanes.json"));
  ASSERT_TRUE(lanes);
  const auto pod = find_pod(*tree, *lanes, "md-0");
  ASSERT_TRUE(pod) << pod.error().message();
  ASSERT_EQ(pod->processes.size(), 1U) << "the other process is none of its";
  EXPECT_EQ(pod->processes[0].name, "engine");
  EXPECT_EQ(pod->cpus.list(), "2-3");
}

TEST(FindPod, WithoutARecordGoesByTheLanesAddress) {
  Node node(shape());
  furnish(node);
  put_pod(node, {});
  node.remove("/run/podlane/attachments");
  node.put("/proc/500/net/fib_trie", "Local:\n  +-- 10.9.0.0/24 2 0 2\n     |-- 10.9.0.50\n        /32 host LOCAL");
  const auto lanes = parse_lanes(node.get("/run/podlane/lanes.json"));
  const auto pod = find_pod(*Tree::open(node.root()), *lanes, "trading/md-0");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->processes.size(), 1U);
}

TEST(PodChecks, JudgeTwoLooks) {
  for (const bool put_aside : {false, true}) {
    Node node(shape());
    furnish(node);
    put_pod(node, {});
    const auto tree = Tree::open(node.root());
    const auto facts = nodeconfig::read_facts(*tree);
    const auto readings = nodeconfig::take_readings(*tree, *facts);
    Sight sight = make_sight(*facts, readings, {}, "");
    auto pod = find_pod(*tree, sight.lanes, "md-0");
    ASSERT_TRUE(pod);
    sight.pod = &*pod;
    node.put("/proc/500/status",
             std::string("Name:\tengine\nnonvoluntary_ctxt_switches:\t") + (put_aside ? "110" : "11"));
    look_again(*tree, *pod);
    Probe probe{.seconds = 1};
    probe.before.tasks[500] = {.name = "engine", .cpu = 2, .ticks = 100};
    probe.after.tasks[500] = {.name = "engine", .cpu = 2, .ticks = put_aside ? 400U : 200U};
    sight.probe = &probe;
    for (const Finding& one : examine(sight)) {
      if (one.check->id != "G04" && one.check->id != "V27") continue;
      EXPECT_EQ(one.verdict.outcome, put_aside ? Outcome::kFail : Outcome::kPass)
          << one.check->id << ": " << one.verdict.is;
    }
  }
}

TEST(Cgroups, OfBothVersions) {
  bool v2 = false;
  EXPECT_EQ(cgroup_of("0::/kubepods/podx", v2), "/kubepods/podx");
  EXPECT_TRUE(v2);
  EXPECT_EQ(cgroup_of("3:cpuset:/a\n4:cpu,cpuacct:/kubepods/b\n0::/c", v2), "/kubepods/b");
  EXPECT_FALSE(v2);
  EXPECT_EQ(cgroup_of("0::/../../etc", v2), "") << "a path that leads up";
  EXPECT_EQ(cgroup_of("\xff\n:::\n", v2), "");
  EXPECT_EQ(parse_cpu_stat("nr_throttled 3\nthrottled_time 9000").us, 9U) << "v1 counts nanoseconds";
}

}  // namespace
}  // namespace podlane::doctor::test
