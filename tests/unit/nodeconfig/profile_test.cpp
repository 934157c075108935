#include "nodeconfig/profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace podlane::nodeconfig {
namespace {

TEST(Profile, EmptyOneLeavesEverythingAndObserves) {
  const auto profile = parse_profile("{}");
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->mode, ProfileMode::kObserve);
  EXPECT_TRUE(profile->restore_on_remove);
  EXPECT_TRUE(profile->node.empty() && profile->power.empty() && profile->nics.empty() && profile->huge_pages.empty());
  EXPECT_FALSE(profile->irqs || profile->lanes || profile->housekeeping || profile->kubelet.advise ||
               profile->boot.advise);
}

TEST(Profile, LeaveIsTheSameAsNoKeyForEachKnob) {
  const auto profile =
      parse_profile(R"({"cpus": {"workqueues": "leave"}, "memory": {"thp": "leave", "thpDefrag": "leave",
    "ksm": "leave", "numaBalancing": "leave", "statIntervalSeconds": "leave"}, "power": {"governor": "leave",
    "energyPreference": "leave", "maxIdleLatencyUs": "leave"}, "interrupts": {"irqs": "leave", "defaultAffinity": "leave"},
    "sysctls": {"vm.swappiness": "leave"}, "nics": [{"match": {"name": "*"}, "rps": "leave", "xps": {"0": "leave"},
    "irqs": "leave", "deferHardIrqs": "leave", "groFlushTimeoutNs": "leave", "threadedNapi": "leave",
    "txQueueLen": "leave"}]})");
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_TRUE(profile->node.empty() && profile->power.empty() && !profile->irqs);
  EXPECT_TRUE(profile->nics.at(0).wishes.empty());
}

TEST(Profile, ReadsWishesPerQueueAndInTheFilesWords) {
  const auto profile = parse_profile(R"({"name": "trading", "mode": "enforce", "onRemove": "keep", "resyncSeconds": 30,
    "cpus": {"lanes": "2-3", "housekeeping": "0,1", "siblings": "allow"}, "memory": {"ksm": "unmerge"},
    "nics": [{"match": {"driver": "ice", "numaNode": 1}, "irqs": {"0": "1", "3": "local"}, "rps": "off"}],
    "hugepages": [{"size": "1Gi", "count": 4, "numaNode": 1}, {"size": "2Mi", "count": 512}]})");
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->mode, ProfileMode::kEnforce);
  EXPECT_FALSE(profile->restore_on_remove || profile->siblings_idle);
  EXPECT_EQ(profile->housekeeping->list(), "0-1");
  ASSERT_EQ(profile->node.size(), 1U);
  EXPECT_EQ(profile->node[0].value, "2");
  ASSERT_EQ(profile->nics[0].wishes.size(), 3U);
  EXPECT_EQ(profile->nics[0].wishes[0].value, "off");
  EXPECT_EQ(profile->nics[0].wishes[2].queue, 3U);
  EXPECT_EQ(profile->nics[0].wishes[2].place, "nics[0].irqs.3");
  EXPECT_EQ(profile->huge_pages[0].size_kib, 1048576U);
  EXPECT_EQ(profile->huge_pages[0].numa_node, 1U);
  EXPECT_FALSE(profile->huge_pages[1].numa_node);
}

TEST(Profile, RefusalsNameKeyValueAndWhatWouldBeRight) {
  struct Row {
    const char* json;
    std::vector<std::string> parts;
  };
  for (const Row& row : {
           Row{R"({"mod": "enforce"})", {"'mod'", "'mode'"}},
           Row{R"({"mode": "dryRun"})", {"mode", "dryRun", "observe, enforce"}},
           Row{R"({"memory": {"thb": "never"}})", {"memory.thb", "'thp'"}},
           Row{R"({"memory": {"thp": "sometimes"}})", {"memory.thp", "sometimes", "leave, always, madvise, never"}},
           Row{R"({"memory": {"statIntervalSeconds": 0}})", {"memory.statIntervalSeconds", "0", "1 to 3600"}},
           Row{R"({"memory": {"statIntervalSeconds": "10"}})", {"memory.statIntervalSeconds", "\"10\"", "1 to 3600"}},
           Row{R"({"memory": {"statIntervalSeconds": 18446744073709551615}})", {"1 to 3600"}},
           Row{R"({"memory": []})", {"memory", "not a JSON object"}},
           Row{R"({"sysctls": {"net.ipv4.ip_forward": 1}})", {"net.ipv4.ip_forward", "vm.swappiness"}},
           Row{R"({"cpus": {"lanes": "2-N"}})", {"cpus.lanes", "2-N", "\"0-3,8\""}},
           Row{R"({"cpus": {"lanes": ""}})", {"cpus.lanes"}},
           Row{R"({"cpus": {"lanes": "0-3", "housekeeping": "3-4"}})",
               {"cpus.lanes", "\"0-3\"", "\"3-4\"", "share CPUs 3"}},
           Row{R"({"cpus": {"siblings": "idle"}})", {"cpus.siblings", "keepIdle, allow"}},
           Row{R"({"interrupts": {"irqs": "off"}})", {"interrupts.irqs", "off", "housekeeping"}},
           Row{R"({"interrupts": {"defaultAffinity": "local"}})", {"interrupts.defaultAffinity"}},
           Row{R"({"power": {"maxIdleLatencyUs": 1001}})", {"power.maxIdleLatencyUs", "1001", "0 to 1000"}},
           Row{R"({"power": {"governor": "perf; rm"}})", {"power.governor", "performance"}},
           Row{R"({"nics": [{"rps": "off"}]})", {"nics[0].match", "pciAddress"}},
           Row{R"({"nics": [{"match": {}}]})", {"nics[0].match"}},
           Row{R"({"nics": [{"match": {"nam": "x"}}]})", {"nics[0].match.nam", "'name'"}},
           Row{R"({"nics": [{"match": {"name": ""}}]})", {"nics[0].match.name"}},
           Row{R"({"nics": [{"match": {"name": "e*"}, "rps": {"x": "0"}}]})", {"nics[0].rps.x", "numbers of queues"}},
           Row{R"({"nics": [{"match": {"name": "e*"}, "rps": {"0": 1}}]})", {"nics[0].rps.0", "1"}},
           Row{R"({"nics": [{"match": {"name": "e*"}, "deferHardIrqs": 2}]})", {"deferHardIrqs", "groFlushTimeoutNs"}},
           Row{R"({"hugepages": [{"size": "2M", "count": 1}]})", {"hugepages[0].size", "2M", "2Mi"}},
           Row{R"({"hugepages": [{"size": "2Mi"}]})", {"hugepages[0].count", "missing"}},
           Row{R"({"hugepages": [{"size": "2Mi", "count": 2000000}]})", {"hugepages[0].count", "1048576"}},
           Row{R"({"hugepages": [{"size": "2Mi", "count": 1}, {"size": "2Mi", "count": 2}]})",
               {"hugepages[1].size", "twice"}},
           Row{R"({"kubelet": {"apply": "set"}})", {"kubelet.apply", "not built yet"}},
           Row{R"({"kubelet": {"cpuManagerPolicy": "exclusive"}})", {"cpuManagerPolicy", "static"}},
           Row{R"({"kubelet": {"cpuManagerPolicyOptions": {"full-pcpu-only": "true"}}})",
               {"full-pcpu-only", "full-pcpus-only"}},
           Row{R"({"boot": {"args": ["isolcpus=2-N"]}})", {"boot.args", "instead of N"}},
           Row{R"j({"boot": {"args": ["quiet $(reboot)"]}})j", {"boot.args", "blanks"}},
           Row{R"({"resyncSeconds": 29})", {"resyncSeconds", "30"}},
           Row{"[]", {"not a JSON object"}},
           Row{"", {"JSON"}},
       }) {
    const auto profile = parse_profile(row.json);
    ASSERT_FALSE(profile) << row.json;
    EXPECT_EQ(profile.error().code(), Errc::kInvalid);
    for (const std::string& part : row.parts) {
      EXPECT_NE(profile.error().message().find(part), std::string::npos)
          << part << " is not in: " << profile.error().message();
    }
  }
}

// The table is what documents and schema are made from: names, keys and files stand once.
TEST(Knobs, AreToldApart) {
  for (const Knob& knob : kKnobs) {
    EXPECT_EQ(&knob, find_knob(knob.name));
    EXPECT_EQ(std::count_if(kKnobs.begin(), kKnobs.end(),
                            [&](const Knob& k) { return k.key == knob.key || k.path == knob.path; }),
              1)
        << knob.name;
    EXPECT_FALSE(knob.why.empty() || knob.effect.empty()) << knob.name;
    EXPECT_EQ(std::count(knob.key.begin(), knob.key.end(), '%') > 0, knob.scope != Scope::kNode) << knob.name;
  }
}

}  // namespace
}  // namespace podlane::nodeconfig
