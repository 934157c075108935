// Each check on a tree where it passes and on one where it does not; garbage; order; exit status; snapshots.
#include "ctl/doctor/doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ctl/doctor/counters.hpp"
#include "ctl/doctor/probe.hpp"
#include "ctl/doctor/render.hpp"
#include "ctl/doctor/sight.hpp"
#include "nodeconfig/snapshot.hpp"
#include "tests/unit/doctor/check_cases.hpp"

namespace podlane::doctor::test {
namespace {

using nodeconfig::Tree;

std::vector<Finding> findings_of(const Tree& tree, const std::string& cpus) {
  const auto report = consult(tree, {.cpus = CpuSet::parse_list(cpus).value_or(CpuSet()), .may_measure = false});
  if (!report) throw std::runtime_error(report.error().message());
  return report->findings;
}

const Finding& finding(const std::vector<Finding>& all, std::string_view id) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Finding& one) { return one.check->id == id; });
  if (it == all.end()) throw std::runtime_error("no check " + std::string(id));
  return *it;
}

// One file of a healthy node with another text, and then as it was: building trees takes longer than judging them.
class Healthy {
 public:
  Healthy() { furnish(node_); }
  std::vector<Finding> with(const std::string& file, const std::string& text, const std::string& cpus) {
    const std::string before = file.empty() ? std::string() : node_.get(file);
    if (!file.empty()) node_.put(file, text);
    auto all = findings_of(*tree_, cpus);
    if (!file.empty()) node_.put(file, before);
    return all;
  }

 private:
  Node node_{shape()};
  Result<Tree> tree_ = Tree::open(node_.root());
};

void expect(const Case& one, const std::vector<Finding>& all) {
  const Finding& found = finding(all, one.id);
  EXPECT_EQ(to_string(found.verdict.outcome), to_string(one.expected))
      << one.id << ": " << one.name << ": " << found.verdict.is;
  EXPECT_FALSE(found.verdict.is.empty()) << one.id;
  EXPECT_FALSE(found.fix().empty()) << one.id;
}

TEST(Checks, JudgeEachTree) {
  Healthy healthy;
  const auto well = healthy.with("", "", "2-3");
  for (const Case& one : cases()) {
    if (!one.change) {
      expect(one, one.file.empty() && one.cpus == "2-3" ? well : healthy.with(one.file, one.text, one.cpus));
      continue;
    }
    Node node(shape());
    furnish(node);
    one.change(node);
    expect(one, findings_of(*Tree::open(node.root()), one.cpus));
  }
}

TEST(Checks, EachHasATreeWhereItPassesAndOneWhereItDoesNot) {
  std::set<std::string> passing, failing;
  for (const Case& one : cases()) (one.expected == Outcome::kPass ? passing : failing).insert(one.id);
  // Judged from the pod or the probe: pod_test.cpp, and ProbeChecks below.
  const std::set<std::string> elsewhere = {"A02", "A06", "A16", "E05", "E15", "F11", "G01",
                                           "G02", "G04", "V13", "V27", "H08", "H10", "M01"};
  const std::set<std::string> only_told = {"F08", "F20"};
  for (const Check* check : all_checks()) {
    const std::string id(check->id);
    if (elsewhere.contains(id)) continue;
    EXPECT_TRUE(passing.contains(id)) << id;
    EXPECT_TRUE(failing.contains(id) || only_told.contains(id)) << id;
  }
}

TEST(Checks, GarbageGivesUnknown) {
  const std::string garbage[] = {"", std::string("\x01\xff\xfe\0z", 5), std::string(40, '9'), std::string(100000, 'x')};
  Healthy healthy;
  for (const auto& [id, path] : judged_files()) {
    for (const std::string& text : garbage) {
      const auto all = healthy.with(path, text, "2-3");
      const Finding& found = finding(all, id);
      EXPECT_TRUE(found.verdict.outcome == Outcome::kUnknown || found.verdict.outcome == Outcome::kNotApplicable)
          << id << ": " << path << " of " << text.size() << " bytes: " << found.verdict.is;
    }
  }
}

TEST(Checks, GarbageEverywhereIsNoCrash) {
  Node node(shape());
  furnish(node);
  const auto tree = Tree::open(node.root());
  const auto facts = nodeconfig::read_facts(*tree);
  ASSERT_TRUE(facts);
  for (const std::string& text :
       {std::string(), std::string("\xff\0", 2), std::string(64, '7'), std::string("-1"), std::string(4096, ',')}) {
    Readings readings = nodeconfig::take_readings(*tree, *facts);
    for (auto& [path, file] : readings.files) file.text = text;
    EXPECT_EQ(examine(make_sight(*facts, readings, {}, "")).size(), all_checks().size());
  }
}

TEST(Order, IsByMicrosecondsThenBySeverity) {
  Node node(shape());  // As the builder leaves it: much is wrong.
  node.put("/proc/sys/net/core/bpf_jit_enable", "0");
  const auto all = findings_of(*Tree::open(node.root()), "0");
  double last = 1e12;
  bool problems = true;
  for (const Finding& one : all) {
    EXPECT_TRUE(problems || !one.is_problem()) << one.check->id << " comes after what is none";
    problems = one.is_problem();
    if (!problems) continue;
    EXPECT_LE(one.effect_us(), last) << one.check->id;
    last = one.effect_us();
  }
}

TEST(ExitStatus, FollowsTheWorst) {
  const auto of = [](Severity severity, Outcome outcome) {
    static const Check check{"X01", "x", Severity::kLow, 0, "", "", "", "", nullptr};
    return exit_status({{&check, {.outcome = outcome, .severity = severity}}});
  };
  EXPECT_EQ(exit_status({}), 0);
  EXPECT_EQ(of(Severity::kCrit, Outcome::kPass), 0);
  EXPECT_EQ(of(Severity::kCrit, Outcome::kUnknown), 0);
  EXPECT_EQ(of(Severity::kInfo, Outcome::kWarn), 0);
  EXPECT_EQ(of(Severity::kLow, Outcome::kWarn), 1);
  EXPECT_EQ(of(Severity::kMed, Outcome::kFail), 1);
  EXPECT_EQ(of(Severity::kHigh, Outcome::kFail), 2);
  EXPECT_EQ(of(Severity::kCrit, Outcome::kWarn), 2);
}

TEST(Consult, SaysInWordsWhatItCannotLookAt) {
  Node node(shape());
  furnish(node);
  const auto tree = Tree::open(node.root());
  const auto cpus = consult(*tree, {.cpus = *CpuSet::parse_list("6-9"), .may_measure = false});
  ASSERT_FALSE(cpus);
  EXPECT_NE(cpus.error().message().find("8-9"), std::string::npos) << cpus.error().message();
  const auto nic = consult(*tree, {.nic = "eth7", .may_measure = false});
  ASSERT_FALSE(nic);
  EXPECT_NE(nic.error().message().find("ens1f0"), std::string::npos) << nic.error().message();
  node.remove("/proc");
  EXPECT_FALSE(consult(*tree, {.may_measure = false}));
}

TEST(Consult, ChangesNothing) {
  Node node(shape());
  furnish(node);
  const auto before = node.contents();
  (void)findings_of(node.tree(), "");
  EXPECT_EQ(node.contents(), before);
  EXPECT_TRUE(node.writes.empty());
}

TEST(Snapshot, GivesTheSameFindings) {
  for (const bool healthy : {true, false}) {
    Node node(shape());
    if (healthy) furnish(node);
    auto tree = Tree::open(node.root());
    auto recording = nodeconfig::record_node(*tree);
    ASSERT_TRUE(recording);
    nodeconfig::scrub(*recording);
    const std::string tar = nodeconfig::tar_of(*recording);
    auto again = nodeconfig::recording_of(tar);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(nodeconfig::tar_of(*again), tar) << "reading and writing are inverse";
    const auto replayed = Tree::replay(std::move(*again));
    const auto live = findings_of(*tree, "2-3"), then = findings_of(replayed, "2-3");
    for (const Finding& one : live) {
      const Finding& other = finding(then, one.check->id);
      EXPECT_EQ(to_string(other.verdict.outcome), to_string(one.verdict.outcome))
          << one.check->id << ": " << one.verdict.is << " | " << other.verdict.is;
    }
    EXPECT_EQ(tar.find("md-0"), std::string::npos) << "names of pods stay at home";
  }
}

TEST(Snapshot, ThatIsNoneIsRefused) {
  EXPECT_FALSE(nodeconfig::recording_of(""));
  EXPECT_FALSE(nodeconfig::recording_of(std::string(2048, 'x')));
  nodeconfig::Recording recording;
  recording.files["/proc/uptime"] = {.text = std::string(600, '1'), .mode = 0444};
  const std::string tar = nodeconfig::tar_of(recording);
  EXPECT_TRUE(nodeconfig::recording_of(tar));
  EXPECT_FALSE(nodeconfig::recording_of(tar.substr(0, 1200))) << "cut off";
}

TEST(Counters, AreReadFromProc) {
  const auto lines = parse_interrupts(
      "           CPU0       CPU3\n 24:   7  9  IO-APIC 5-edge ens1f0-TxRx-0\nLOC:  100  200   Local timer "
      "interrupts\nERR: 0\n");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].by_cpu.at(3), 9U) << "columns are the CPUs online";
  EXPECT_EQ(lines[0].what, "ens1f0-TxRx-0");
  EXPECT_EQ(lines[1].what, "Local timer interrupts");
  const auto times = parse_cpu_times("cpu 1 2 3\ncpu5 1 2 3 4 5 6 7 8 9 10\ncpuX 1\n");
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times.at(5).steal, 8U);
  EXPECT_EQ(times.at(5).busy, 1U + 2 + 3 + 6 + 7);
}

// What the probe saw, without probing.
struct Probed {
  Node node{shape()};
  Result<Tree> tree = Tree::open(node.root());
  Result<nodeconfig::Facts> facts = nodeconfig::read_facts(*tree);
  Readings readings = nodeconfig::take_readings(*tree, *facts);
  Sight sight = make_sight(*facts, readings, *CpuSet::parse_list("2-3"), "");
  Probe probe{.seconds = 1};
  Verdict judge(std::string_view id) {
    sight.probe = &probe;
    const auto all = examine(sight);
    return finding(all, id).verdict;
  }
};

TEST(ProbeChecks, JudgeWhatWasMeasured) {
  Probed good, poor;
  good.probe.cpus = {{.cpu = 2, .wake_p99_us = 12, .gap_max_us = 8}};
  poor.probe.cpus = {{.cpu = 2, .wake_p99_us = 70, .gap_max_us = 83, .gaps = 4}};
  good.probe.before.cpus[0] = good.probe.before.cpus[2] = {.busy = 100, .idle = 100, .steal = 0};
  good.probe.after.cpus[0] = good.probe.after.cpus[2] = {.busy = 110, .idle = 190, .steal = 0};
  poor.probe.before.cpus[0] = poor.probe.before.cpus[2] = {.busy = 100, .idle = 100, .steal = 0};
  poor.probe.after.cpus[0] = poor.probe.after.cpus[2] = {.busy = 190, .idle = 110, .steal = 10};
  poor.probe.before.tasks[7] = {.name = "hog", .cpu = 2, .ticks = 10};
  poor.probe.after.tasks[7] = {.name = "hog", .cpu = 2, .ticks = 60};
  poor.probe.before.interrupts = {{.name = "24", .what = "nvme0q0", .by_cpu = {{2, 10}}}};
  poor.probe.after.interrupts = {{.name = "24", .what = "nvme0q0", .by_cpu = {{2, 310}}}};
  for (const char* id : {"M01", "H10", "H01", "H08", "A06", "C03"}) {
    EXPECT_EQ(good.judge(id).outcome, Outcome::kPass) << id << good.judge(id).is;
    const Outcome outcome = poor.judge(id).outcome;
    EXPECT_TRUE(outcome == Outcome::kFail || outcome == Outcome::kWarn) << id;
  }
  EXPECT_EQ(poor.judge("H10").effect_us, 83);
  EXPECT_TRUE(poor.judge("H10").measured);
}

TEST(Probe, MeasuresACpuOfThisMachine) {
  const Probe probe = measure(*Tree::open("/"), {.cpus = *CpuSet::parse_list("0,8000"), .wake_ms = 5, .gap_ms = 5});
  ASSERT_EQ(probe.cpus.size(), 2U);
  EXPECT_FALSE(probe.cpus[1].problem.empty()) << "there is no CPU 8000 here";
  EXPECT_TRUE(!probe.cpus[0].problem.empty() || probe.cpus[0].wake_max_us > 0);
  EXPECT_FALSE(probe.after.cpus.empty());
}

TEST(Doctor, LooksAtThisMachine) {
  const auto all = findings_of(*Tree::open("/"), "");
  EXPECT_EQ(all.size(), all_checks().size());
}

}  // namespace
}  // namespace podlane::doctor::test
