// Facts and plans of built nodes: what is read, what each outcome of a plan looks like.
#include <gtest/gtest.h>

#include <algorithm>

#include "nodeconfig/report.hpp"
#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

Pass looked(Node& node, const std::string& json) {
  auto pass = look(node.tree(), profile_of(json), node.run_dir(), {});
  if (!pass) throw std::runtime_error(pass.error().message());
  return std::move(*pass);
}

std::string refusal(Node& node, const std::string& json) {
  const auto pass = look(node.tree(), profile_of(json), node.run_dir(), {});
  return pass ? "no refusal" : pass.error().message();
}

TEST(Facts, OfATwoSocketNode) {
  Node node({.sockets = 2, .cores = 2, .threads = 2, .nics = {{.numa_node = 1}}, .other_irqs = 1});
  const auto facts = read_facts(node.tree());
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->online.list(), "0-7");
  EXPECT_EQ(facts->siblings_of(*CpuSet::parse_list("1")).list(), "1,5");
  ASSERT_EQ(facts->numa_nodes.size(), 2U);
  EXPECT_EQ(facts->numa_nodes[1].cpus.list(), "2-3,6-7");
  EXPECT_EQ(facts->numa_nodes[0].free_kib, 8U << 20);
  ASSERT_EQ(facts->nics.size(), 1U);
  EXPECT_EQ(facts->nics[0].pci, "0000:3b:00.0");
  EXPECT_EQ(facts->nics[0].driver, "ice");
  EXPECT_EQ(facts->nics[0].numa_node, 1);
  EXPECT_EQ(facts->nics[0].rx_queues.size(), 4U);
  ASSERT_NE(facts->irq_by_key("irq/0000:3b:00.0/queue-3"), nullptr);
  EXPECT_EQ(facts->irq_by_key("irq/0000:3b:00.0/queue-3")->number, node.irq_of("ice-ens1f0-TxRx-3"));
  EXPECT_NE(facts->irq_by_key("irq/-/other-0"), nullptr);
  EXPECT_EQ(facts->policies.size(), 8U);
}

// A virtio interface's device is below the PCI device, which alone knows a NUMA node.
TEST(Facts, VirtioNicHasTheAddressOfItsParent) {
  Node node({.nics = {}});
  const std::string pci = "/sys/devices/pci0000:00/0000:00:03.0";
  node.put(pci + "/numa_node", "-1");
  node.link("/sys/bus/pci/devices/0000:00:03.0", pci);
  node.put(pci + "/virtio2/net/eth0/queues/rx-0/rps_cpus", "0");
  node.link(pci + "/virtio2/net/eth0/device", pci + "/virtio2");
  node.link("/sys/class/net/eth0", pci + "/virtio2/net/eth0");
  node.add_irq("virtio2-input.0", "0000:00:03.0");
  const auto facts = read_facts(node.tree());
  ASSERT_TRUE(facts);
  ASSERT_EQ(facts->nics.size(), 1U);
  EXPECT_EQ(facts->nics[0].pci, "0000:00:03.0");
  EXPECT_EQ(facts->nics[0].numa_node, -1);
  EXPECT_NE(facts->irq_by_key("irq/0000:00:03.0/rx-0"), nullptr);
}

TEST(Plan, EmptyProfileWantsNothing) {
  Node node;
  const Pass pass = looked(node, "{}");
  EXPECT_TRUE(pass.plan.changes.empty());
  EXPECT_FALSE(pass.plan.changes_something() || pass.plan.unsatisfied());
}

TEST(Plan, SaysNowWantedAndUndo) {
  Node node;
  const Pass pass =
      looked(node, R"({"memory": {"thp": "never", "statIntervalSeconds": 1}, "cpus": {"workqueues": "0-1"}})");
  const Change& thp = change_of(pass.plan, "memory/thp");
  EXPECT_EQ(thp.outcome, Outcome::kWanted);
  EXPECT_EQ(thp.now, "always");
  EXPECT_EQ(thp.setting.wanted, "never");
  EXPECT_EQ(thp.undo, "always");
  EXPECT_EQ(change_of(pass.plan, "sysctl/vm.stat_interval").outcome, Outcome::kInForce);
  EXPECT_EQ(change_of(pass.plan, "cpu/workqueues").setting.wanted, "3");
  EXPECT_TRUE(node.writes.empty());
}

TEST(Plan, InterruptsKeepOffLanesAndTheirSiblings) {
  Node node({.sockets = 1, .cores = 4, .threads = 2});
  const Pass pass = looked(
      node, R"({"cpus": {"lanes": "2-3"}, "interrupts": {"irqs": "housekeeping", "defaultAffinity": "housekeeping"}})");
  EXPECT_EQ(pass.plan.housekeeping.list(), "0-1,4-5");
  EXPECT_EQ(change_of(pass.plan, "irq/0000:3b:00.0/queue-0/affinity").setting.wanted, "0-1,4-5");
  EXPECT_EQ(change_of(pass.plan, "irq/default").setting.wanted, "33");
  const Change& managed = change_of(pass.plan, "irq/0000:02:00.0/nvme0q1/affinity");
  EXPECT_EQ(managed.outcome, Outcome::kRefusedManaged);
  EXPECT_NE(managed.words.find("managed"), std::string::npos);
  EXPECT_EQ(change_of(pass.plan, "irq/0000:02:00.0/nvme0q0/affinity").outcome, Outcome::kWanted);
  EXPECT_FALSE(pass.plan.unsatisfied()) << "a managed interrupt is a normal thing";
  const Pass allowed =
      looked(node, R"({"cpus": {"lanes": "2-3", "siblings": "allow"}, "interrupts": {"irqs": "housekeeping"}})");
  EXPECT_EQ(allowed.plan.housekeeping.list(), "0-1,4-7");
}

// irqbalance moves interrupts among the CPUs that it may use: as good as the whole set.
TEST(Plan, InterruptWithinTheWantedCpusIsInForce) {
  Node node;
  node.put(node.irq_path("ice-ens1f0-TxRx-0") + "/smp_affinity_list", "1");
  node.put(node.irq_path("ice-ens1f0-TxRx-0") + "/effective_affinity_list", "1");
  node.put(node.irq_path("ice-ens1f0-TxRx-1") + "/smp_affinity_list", "0");
  const Pass pass = looked(node, R"({"cpus": {"lanes": "2-3"}, "interrupts": {"irqs": "housekeeping"}})");
  EXPECT_EQ(change_of(pass.plan, "irq/0000:3b:00.0/queue-0/affinity").outcome, Outcome::kInForce);
  EXPECT_EQ(change_of(pass.plan, "irq/0000:3b:00.0/queue-1/affinity").outcome, Outcome::kPending);
}

TEST(Plan, NicRuleWinsOverAllInterruptsAndQueueOverNic) {
  Node node({.sockets = 2, .cores = 2, .nics = {{.numa_node = 1}}});
  const Pass pass = looked(node, R"({"cpus": {"lanes": "3"}, "interrupts": {"irqs": "housekeeping"},
    "nics": [{"match": {"pciAddress": "0000:3b:*"}, "irqs": "local", "rps": "off", "xps": {"1": "3"}},
             {"match": {"name": "*"}, "irqs": "0"}]})");
  EXPECT_EQ(change_of(pass.plan, "irq/0000:3b:00.0/queue-0/affinity").setting.wanted, "2");
  EXPECT_EQ(change_of(pass.plan, "irq/0000:02:00.0/nvme0q0/affinity").setting.wanted, "0-2");
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/rx-2/rps").outcome, Outcome::kInForce);
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/tx-1/xps").setting.wanted, "8");
  EXPECT_TRUE(std::any_of(pass.plan.notes.begin(), pass.plan.notes.end(),
                          [](const std::string& note) { return note.find("nics[1].match") != std::string::npos; }));
  const Pass one = looked(node, R"({"nics": [{"match": {"name": "ens*"}, "irqs": {"2": "1"}}]})");
  EXPECT_EQ(one.plan.changes.size(), 1U);
  EXPECT_EQ(one.plan.changes[0].setting.key, "irq/0000:3b:00.0/queue-2/affinity");
}

TEST(Plan, WhatThisNodeCannotHave) {
  Node node({.clocks = true, .free_kib = 1 << 20});
  struct Row {
    const char *json, *key;
    Outcome outcome;
    std::vector<std::string> words;
  };
  node.remove("/proc/sys/kernel/numa_balancing");
  for (const Row& row : {
           Row{R"({"memory": {"numaBalancing": "off"}})",
               "sysctl/kernel.numa_balancing",
               Outcome::kAbsent,
               {"does not exist"}},
           Row{R"({"cpus": {"lanes": "2"}, "power": {"governor": "ondemand"}})",
               "policy/2/governor",
               Outcome::kImpossible,
               {"power.governor", "ondemand", "performance, powersave"}},
           Row{R"({"hugepages": [{"size": "2Mi", "count": 512}]})",
               "numa/0/hugepages/2048kB",
               Outcome::kImpossible,
               {"hugepages[0].count 512", "room for 460", "1048576 kB"}},
           Row{R"({"hugepages": [{"size": "1Gi", "count": 1}]})",
               "numa/0/hugepages/1048576kB",
               Outcome::kAbsent,
               {"does not exist"}},
           Row{R"({"hugepages": [{"size": "2Mi", "count": 460}]})", "numa/0/hugepages/2048kB", Outcome::kWanted, {}},
       }) {
    const Pass pass = looked(node, row.json);
    const Change& change = change_of(pass.plan, row.key);
    EXPECT_EQ(change.outcome, row.outcome) << row.json << ": " << change.words;
    for (const std::string& word : row.words) EXPECT_NE(change.words.find(word), std::string::npos) << change.words;
    EXPECT_EQ(pass.plan.unsatisfied(), row.outcome != Outcome::kWanted);
  }
}

TEST(Plan, RefusesCpusQueuesAndNodesThatDoNotExist) {
  Node node({.threads = 1});
  node.put("/sys/devices/system/cpu/online", "0-2");
  struct Row {
    const char* json;
    std::vector<std::string> words;
  };
  for (const Row& row : {
           Row{R"({"cpus": {"lanes": "3"}})", {"cpus.lanes", "CPUs 3 are offline", "0-2"}},
           Row{R"({"cpus": {"housekeeping": "0-9"}})", {"cpus.housekeeping", "CPUs 3-9 do not exist"}},
           Row{R"({"interrupts": {"irqs": "7"}})", {"interrupts.irqs", "CPUs 7 do not exist"}},
           Row{R"({"nics": [{"match": {"name": "*"}, "xps": {"9": "0"}}]})",
               {"nics[0].xps.9", "ens1f0", "no transmit queue 9", "it has 4"}},
           Row{R"({"hugepages": [{"size": "2Mi", "count": 1, "numaNode": 3}]})", {"hugepages[0].numaNode 3", "has 1"}},
           Row{R"({"cpus": {"lanes": "0-2"}, "interrupts": {"irqs": "housekeeping"}})",
               {"no CPU is left for housekeeping", "0-2"}},
       }) {
    const std::string words = refusal(node, row.json);
    for (const std::string& word : row.words)
      EXPECT_NE(words.find(word), std::string::npos) << row.json << ": " << words;
  }
}

// A virtual machine: neither clocks nor idle states. Said, and in nobody's way.
TEST(Plan, PowerInAVirtualMachine) {
  Node node({.clocks = false, .idle_states = false});
  const Pass pass =
      looked(node, R"({"cpus": {"lanes": "2"}, "power": {"governor": "performance", "maxIdleLatencyUs": 10}})");
  EXPECT_EQ(change_of(pass.plan, "cpu/2/idle-latency").outcome, Outcome::kUnsupported);
  EXPECT_TRUE(std::any_of(pass.plan.notes.begin(), pass.plan.notes.end(), [](const std::string& note) {
    return note.find("no clock that the kernel controls") != std::string::npos;
  }));
}

TEST(Plan, ZeroIdleLatencyIsWrittenAsNotApplicable) {
  Node node;
  const Pass pass = looked(node, R"({"cpus": {"lanes": "2"}, "power": {"maxIdleLatencyUs": 0}})");
  EXPECT_EQ(change_of(pass.plan, "cpu/2/idle-latency").setting.wanted, "n/a");
}

TEST(Plan, LanesAreTheKubeletsExclusiveCpus) {
  Node node;
  node.put("/var/lib/kubelet/cpu_manager_state",
           R"({"policyName":"static","defaultCpuSet":"0-1","entries":{"cb153af0":{"engine":"2-3"}},"checksum":1})");
  node.put("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nreservedSystemCPUs: \"0\"\n");
  const Pass pass = looked(node, R"({"interrupts": {"irqs": "housekeeping"}})");
  EXPECT_EQ(pass.plan.lanes.list(), "2-3");
  EXPECT_EQ(pass.plan.housekeeping.list(), "0");
}

TEST(Owners, TunedKeepsWhatItsProfileSets) {
  Node node;
  node.run_process(700, "tuned", "/usr/sbin/tuned");
  node.put("/etc/tuned/active_profile", "trading");
  node.put("/etc/tuned/trading/tuned.conf", "[main]\ninclude=latency-performance\n\n[sysctl]\nvm.stat_interval = 10");
  node.put("/usr/lib/tuned/latency-performance/tuned.conf",
           "[main]\ninclude=trading\n[vm]\ntransparent_hugepages=madvise\n[cpu]\ngovernor=performance");
  const Pass pass = looked(node, R"({"memory": {"thp": "never", "statIntervalSeconds": 120, "ksm": "on"}})");
  EXPECT_EQ(change_of(pass.plan, "memory/thp").outcome, Outcome::kOverridden);
  const Change& interval = change_of(pass.plan, "sysctl/vm.stat_interval");
  EXPECT_EQ(interval.outcome, Outcome::kOverridden);
  EXPECT_NE(interval.words.find("TuneD keeps this at \"10\" (/etc/tuned/trading/tuned.conf:5)"), std::string::npos)
      << interval.words;
  EXPECT_EQ(change_of(pass.plan, "memory/ksm").outcome, Outcome::kWanted);
  node.remove("/proc/700");
  EXPECT_EQ(change_of(looked(node, R"({"memory": {"thp": "never"}})").plan, "memory/thp").outcome, Outcome::kWanted);
}

TEST(Owners, NodeTuningOperatorHasTheWholeNode) {
  Node node;
  node.put("/var/lib/ocp-tuned/x", "");
  const Pass pass = looked(node, R"({"mode": "enforce", "memory": {"thp": "never"}})");
  EXPECT_EQ(change_of(pass.plan, "memory/thp").outcome, Outcome::kOverridden);
}

TEST(Owners, AreNamedWithTheirEvidence) {
  Node node;
  node.run_process(41, "irqbalance", "/usr/sbin/irqbalance");
  node.put("/etc/crio/crio.conf.d/99-runtimes.conf", "[crio.runtime.runtimes.high-performance]");
  const Pass pass = looked(node, "{}");
  std::string notes;
  for (const std::string& note : pass.plan.notes) notes += note + "\n";
  for (const char* part : {"irqbalance: it runs as process 41", "IRQBALANCE_BANNED_CPULIST", "99-runtimes.conf"}) {
    EXPECT_NE(notes.find(part), std::string::npos) << notes;
  }
}

TEST(Report, TextAndJsonSayTheSame) {
  Node node;
  const Profile profile =
      profile_of(R"({"name": "trading", "memory": {"thp": "never"}, "boot": {"args": ["nohz_full=2-3"]}})");
  const Pass pass =
      looked(node, R"({"name": "trading", "memory": {"thp": "never"}, "boot": {"args": ["nohz_full=2-3"]}})");
  const std::string text = render_text({profile, pass.plan, pass.advice}, Shown::kChanges);
  const std::string json = render_json({profile, pass.plan, pass.advice});
  for (const std::string& part :
       {std::string("memory/thp"), std::string("always"), std::string("never"), std::string("wanted"),
        std::string("khugepaged"), std::string("nohz_full=2-3"), std::string("reboot-required")}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(json.find(part), std::string::npos) << json;
  }
}

}  // namespace
}  // namespace podlane::nodeconfig::test
