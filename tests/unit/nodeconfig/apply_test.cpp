// Apply and undo against a kernel that takes, rounds, refuses and changes its mind; and killed at each step.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

constexpr const char* kEverything = R"({"mode": "enforce", "cpus": {"lanes": "2-3", "workqueues": "housekeeping"},
  "hugepages": [{"size": "2Mi", "count": 64}],
  "memory": {"thp": "never", "thpDefrag": "never", "ksm": "on", "numaBalancing": "off", "statIntervalSeconds": 120},
  "sysctls": {"vm.swappiness": 10, "kernel.timer_migration": 0},
  "interrupts": {"irqs": "housekeeping", "defaultAffinity": "housekeeping"},
  "power": {"governor": "performance", "energyPreference": "performance", "maxIdleLatencyUs": 10},
  "nics": [{"match": {"driver": "ice"}, "rps": "0-1", "xps": {"0": "2", "1": "3"}, "txQueueLen": 500,
            "groFlushTimeoutNs": 200000, "deferHardIrqs": 2, "threadedNapi": "on", "rxRing": 1024, "rxUsecs": 0,
            "adaptiveRx": "off", "lro": "off", "ntuple": "on"}]})";

Pass changed(Node& node, const std::string& json, const PlanOptions& options = {}) {
  auto pass = change(node.tree(), profile_of(json), node.run_dir(), options);
  if (!pass) throw std::runtime_error(pass.error().message());
  return std::move(*pass);
}

std::vector<Undone> undone(Node& node) {
  auto all = take_back(node.tree(), node.run_dir());
  if (!all) throw std::runtime_error(all.error().message());
  return std::move(*all);
}

std::size_t records(Node& node) {
  return ChangeJournal::read_only(node.run_dir(), node.get("/proc/sys/kernel/random/boot_id"))->records().size();
}

// What apply made, as the files were at the start: an interrupt's effective CPU is the hardware's business.
std::map<std::string, std::string> settings_of(const Node& node) {
  auto all = node.contents();
  std::erase_if(all, [](const auto& entry) { return entry.first.find("effective_affinity") != std::string::npos; });
  return all;
}

TEST(Apply, ThenPlanIsEmptyAndUndoIsTheBeginning) {
  for (const NodeShape& shape :
       {NodeShape{}, NodeShape{.sockets = 2, .cores = 4, .threads = 2, .nvme_queues = 8, .other_irqs = 20},
        NodeShape{.nics = {}, .clocks = false, .idle_states = false}}) {
    Node node(shape);
    const auto before = settings_of(node);
    const Pass first = changed(node, kEverything);
    for (const Change& change : first.plan.changes) {
      EXPECT_TRUE(change.outcome == Outcome::kInForce || change.outcome == Outcome::kRefusedManaged ||
                  change.outcome == Outcome::kUnsupported)
          << change.setting.key << ": " << to_string(change.outcome) << " " << change.words;
    }
    EXPECT_NE(settings_of(node), before);
    const std::size_t writes = node.writes.size();
    const Pass second = changed(node, kEverything);
    EXPECT_FALSE(second.plan.changes_something());
    EXPECT_EQ(node.writes.size(), writes) << "a second apply writes nothing";
    for (const Undone& one : undone(node))
      EXPECT_EQ(one.outcome, UndoOutcome::kRestored) << one.key << ": " << one.words;
    EXPECT_EQ(settings_of(node), before);
    EXPECT_EQ(records(node), 0U);
  }
}

TEST(Apply, ObserveWritesNothingAtAll) {
  Node node;
  const Pass pass = changed(node, R"({"memory": {"thp": "never"}})");
  EXPECT_EQ(change_of(pass.plan, "memory/thp").outcome, Outcome::kWanted);
  EXPECT_TRUE(node.writes.empty());
  EXPECT_FALSE(node.has("/run/podlane"));
}

// What a kernel makes of one write, and what that is called.
TEST(Apply, ClassifiesWhatTheKernelAnswers) {
  struct Row {
    const char *name, *json, *key, *file;
    Node::Rule rule;
    Outcome outcome;
    const char* words;
    bool recorded;  // There is something to undo.
  };
  const auto refuse = [](int error) { return [error](std::string&) { return error; }; };
  const auto become = [](const char* value) { return [value](std::string& text) { return text = value, 0; }; };
  const char* const irq = R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "irqs": {"0": "0"}}]})";
  const char* const irq_key = "irq/0000:3b:00.0/queue-0/affinity";
  const char* const huge = R"({"mode": "enforce", "hugepages": [{"size": "2Mi", "count": 500}]})";
  const char* const huge_key = "numa/0/hugepages/2048kB";
  const char* const nic = R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "groFlushTimeoutNs": 200001}]})";
  const char* const nic_key = "nic/0000:3b:00.0/gro-flush-timeout";
  const char* const thp = R"({"mode": "enforce", "memory": {"thp": "never"}})";
  for (const Row& row : {
           Row{"managed up to 6.11", irq, irq_key, "smp_affinity_list", refuse(EIO), Outcome::kRefusedManaged,
               "managed", false},
           Row{"no right", irq, irq_key, "smp_affinity_list", refuse(EPERM), Outcome::kDenied, "EPERM", false},
           Row{"no vector", irq, irq_key, "smp_affinity_list", refuse(ENOSPC), Outcome::kFailed, "vector", false},
           Row{"vanished", irq, irq_key, "smp_affinity_list", refuse(ENOENT), Outcome::kAbsent, "does not exist",
               false},
           Row{"read-only", thp, "memory/thp", "enabled", refuse(EROFS), Outcome::kDenied, "read-only", false},
           Row{"no access", thp, "memory/thp", "enabled", refuse(EACCES), Outcome::kDenied, "EACCES", false},
           Row{"another value stays", thp, "memory/thp", "enabled", become("[always] madvise never"),
               Outcome::kOverridden, "always", false},
           Row{"driver cannot", nic, nic_key, "gro_flush_timeout", refuse(EOPNOTSUPP), Outcome::kUnsupported, "driver",
               false},
           Row{"busy", nic, nic_key, "gro_flush_timeout", refuse(EBUSY), Outcome::kDeferred, "EBUSY", false},
           Row{"not valid", nic, nic_key, "gro_flush_timeout", refuse(EINVAL), Outcome::kFailed, "EINVAL", false},
           Row{"disk error", nic, nic_key, "gro_flush_timeout", refuse(EIO), Outcome::kFailed, "EIO", false},
           Row{"rounded", nic, nic_key, "gro_flush_timeout", become("200000"), Outcome::kPartial, "200000 of 200001",
               true},
           Row{"some pages", huge, huge_key, "nr_hugepages", become("450"), Outcome::kPartial, "450 of 500", true},
           Row{"no pages", huge, huge_key, "nr_hugepages", become("0"), Outcome::kPartial, "0 of 500", false},
       }) {
    SCOPED_TRACE(row.name);
    Node node;
    node.rules[row.file] = row.rule;
    const Pass pass = changed(node, row.json);
    const Change& change = change_of(pass.plan, row.key);
    EXPECT_EQ(to_string(change.outcome), to_string(row.outcome)) << change.words;
    EXPECT_NE(change.words.find(row.words), std::string::npos) << change.words;
    EXPECT_EQ(records(node), row.recorded ? 1U : 0U);
    if (!row.recorded) continue;
    // A value that the kernel made its own of is not written again.
    const std::size_t writes = node.writes.size();
    EXPECT_EQ(change_of(changed(node, row.json).plan, row.key).outcome, Outcome::kPartial);
    EXPECT_EQ(node.writes.size(), writes);
    node.rules.clear();
    EXPECT_EQ(undone(node).at(0).outcome, UndoOutcome::kRestored);
  }
}

TEST(Apply, BusyOnceIsTriedAgain) {
  Node node;
  int refusals = 2;
  node.rules["gro_flush_timeout"] = [&](std::string&) { return refusals-- > 0 ? EBUSY : 0; };
  const Pass pass =
      changed(node, R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "groFlushTimeoutNs": 1000}]})");
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/gro-flush-timeout").outcome, Outcome::kInForce);
}

TEST(Apply, MoreHugePagesComeWithMoreTries) {
  Node node;
  int tries = 0;
  node.rules["nr_hugepages"] = [&](std::string& value) {
    return value = std::to_string(std::min(500, 200 * ++tries)), 0;
  };
  const Pass pass = changed(node, R"({"mode": "enforce", "hugepages": [{"size": "2Mi", "count": 500}]})");
  EXPECT_EQ(change_of(pass.plan, "numa/0/hugepages/2048kB").outcome, Outcome::kInForce);
  EXPECT_EQ(tries, 3);
}

TEST(Apply, AnIdleInterruptIsPendingAndNotWrittenAgain) {
  Node node;
  node.interrupts_fire = false;
  const char* const json = R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "irqs": {"0": "0"}}]})";
  const Change first = change_of(changed(node, json).plan, "irq/0000:3b:00.0/queue-0/affinity");
  EXPECT_EQ(first.outcome, Outcome::kPending);
  EXPECT_NE(first.words.find("CPU 3"), std::string::npos) << first.words;
  EXPECT_EQ(change_of(changed(node, json).plan, first.setting.key).outcome, Outcome::kPending);
  EXPECT_EQ(node.writes.size(), 1U);
}

TEST(Apply, OneFailureDoesNotUndoTheOthers) {
  Node node;
  node.rules["defrag"] = [](std::string&) { return EPERM; };
  const Pass pass = changed(node, kEverything);
  EXPECT_EQ(change_of(pass.plan, "memory/thp-defrag").outcome, Outcome::kDenied);
  EXPECT_EQ(change_of(pass.plan, "memory/thp").outcome, Outcome::kInForce);
}

TEST(Apply, NothingIsWrittenWhenOneWishIsImpossible) {
  Node node;
  const Pass pass = changed(
      node, R"({"mode": "enforce", "memory": {"thp": "never"}, "hugepages": [{"size": "2Mi", "count": 99999}]})");
  EXPECT_TRUE(pass.plan.has(Outcome::kImpossible));
  EXPECT_TRUE(node.writes.empty());
}

// igb numbers its interrupts anew when its channels change, and their affinity is then the default one.
TEST(Apply, FindsAnInterruptAgainUnderItsNewNumber) {
  Node node({.nics = {NicShape{}}, .nvme_queues = 0});
  const char* const json = R"({"mode": "enforce", "cpus": {"lanes": "2-3"}, "interrupts": {"irqs": "housekeeping"}})";
  changed(node, json);
  for (unsigned queue = 0; queue < 4; ++queue) {
    const std::string number = std::to_string(node.irq_of("ice-ens1f0-TxRx-" + std::to_string(queue)));
    for (const char* path : {"/proc/irq/", "/sys/kernel/irq/", "/sys/bus/pci/devices/0000:3b:00.0/msi_irqs/"})
      node.remove(path + number);
  }
  for (const char* queue : {"0", "1"}) node.add_irq(std::string("ice-ens1f0-TxRx-") + queue, "0000:3b:00.0");
  const Pass pass = changed(node, json);
  EXPECT_EQ(pass.plan.changes.size(), 2U);
  EXPECT_EQ(node.get(node.irq_path("ice-ens1f0-TxRx-1") + "/smp_affinity_list"), "0-1");
  EXPECT_FALSE(change_of(pass.plan, "irq/0000:3b:00.0/queue-1/affinity").drifted);
  std::map<UndoOutcome, int> outcomes;
  for (const Undone& one : undone(node)) ++outcomes[one.outcome];
  EXPECT_EQ(outcomes[UndoOutcome::kRestored], 2);
  EXPECT_EQ(node.get(node.irq_path("ice-ens1f0-TxRx-1") + "/smp_affinity_list"), "0-3");
}

// As igb does: new numbers, and every affinity is the default again. One apply puts that right.
TEST(Nics, ChannelsMakeInterruptsAnewAndTheseAreFoundInTheSamePass) {
  Node node({.nvme_queues = 0});
  node.rules["channels/combined"] = [&](std::string& value) {
    for (unsigned queue = 0; queue < 4; ++queue) {
      const std::string number = std::to_string(node.irq_of("ice-ens1f0-TxRx-" + std::to_string(queue)));
      for (const char* path : {"/proc/irq/", "/sys/kernel/irq/", "/sys/bus/pci/devices/0000:3b:00.0/msi_irqs/"})
        node.remove(path + number);
    }
    for (int queue = 0; queue < std::stoi(value); ++queue)
      node.add_irq("ice-ens1f0-TxRx-" + std::to_string(queue), "0000:3b:00.0");
    return 0;
  };
  const char* const json = R"({"mode": "enforce", "cpus": {"lanes": "2-3"}, "interrupts": {"irqs": "housekeeping"},
    "nics": [{"match": {"driver": "ice"}, "combinedChannels": 6}]})";
  const Pass pass = changed(node, json);
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/combined-channels").outcome, Outcome::kInForce);
  for (unsigned queue = 0; queue < 6; ++queue) {
    EXPECT_EQ(node.get(node.irq_path("ice-ens1f0-TxRx-" + std::to_string(queue)) + "/smp_affinity_list"), "0-1")
        << queue;
  }
  const std::size_t writes = node.writes.size();
  EXPECT_FALSE(changed(node, json).plan.changes_something());
  EXPECT_EQ(node.writes.size(), writes);
}

TEST(Nics, NobodyIsDisturbed) {
  Node node(
      {.nics = {NicShape{},
                NicShape{.name = "eth9", .pci = "0000:00:03.0", .driver = "virtio_net", .irq_prefix = "eth9-TxRx-"}}});
  const char* const json = R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "rxRing": 1024, "rxUsecs": 0}]})";
  for (
      const char* lanes :
      {R"({"version": 1, "lanes": [{"device": "feed-3", "netdev": "ens1f0"}, {"device": "vpn-0"}, {"device": "feed-4", "netdev": "ens1f0"}]})",
       "no JSON"}) {
    node.put("/run/podlane/lanes.json", lanes);
    const Pass pass = changed(node, json);
    const Change& ring = change_of(pass.plan, "nic/0000:3b:00.0/rx-ring");
    EXPECT_EQ(ring.outcome, Outcome::kDeferred);
    EXPECT_NE(ring.words.find(lanes[0] == '{' ? "feed-3, feed-4" : "lanes.json cannot be read"), std::string::npos)
        << ring.words;
    EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/rx-usecs").outcome, Outcome::kInForce)
        << "no packet is lost by this one";
    EXPECT_EQ(node.get("/ethtool/ens1f0/rings/rx"), "512");
  }
  node.remove("/run/podlane/lanes.json");
  const Pass pass = changed(node, json);
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/rx-ring").outcome, Outcome::kInForce);
  EXPECT_NE(change_of(pass.plan, "nic/0000:00:03.0/rx-ring").words.find("default route"), std::string::npos);
  EXPECT_EQ(
      change_of(
          changed(node, R"({"mode": "enforce", "nics": [{"match": {"pciAddress": "0000:00:03.0"}, "rxRing": 1024}]})")
              .plan,
          "nic/0000:00:03.0/rx-ring")
          .outcome,
      Outcome::kInForce);
  // Nor by undo: the record stays until the lanes are gone.
  node.put("/run/podlane/lanes.json", R"({"version": 1, "lanes": [{"device": "feed-3", "netdev": "eth9"}]})");
  ASSERT_EQ(undone(node).at(0).outcome, UndoOutcome::kDeferred);
  node.remove("/run/podlane/lanes.json");
  EXPECT_EQ(undone(node).at(0).outcome, UndoOutcome::kRestored);
  EXPECT_EQ(node.get("/ethtool/eth9/rings/rx"), "512");
}

TEST(Nics, MoreThanTheDriverHasIsImpossible) {
  Node node;
  const Pass pass =
      changed(node, R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "combinedChannels": 9, "rxUsecs": 0}]})");
  const Change& channels = change_of(pass.plan, "nic/0000:3b:00.0/combined-channels");
  EXPECT_EQ(channels.outcome, Outcome::kImpossible);
  EXPECT_NE(channels.words.find("nics[0].combinedChannels 9: the driver has at most 8"), std::string::npos)
      << channels.words;
  EXPECT_TRUE(node.writes.empty());
}

TEST(Nics, WhatADriverDoesNotTakeIsUnsupported) {
  Node node;
  node.remove("/ethtool/ens1f0/features/ntuple");
  node.rules["adaptive-rx"] = [](std::string&) { return EINVAL; };
  const Pass pass =
      changed(node, R"({"mode": "enforce", "nics": [{"match": {"name": "*"}, "adaptiveRx": "off", "ntuple": "on"}]})");
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/adaptive-rx").outcome, Outcome::kUnsupported);
  EXPECT_EQ(change_of(pass.plan, "nic/0000:3b:00.0/ntuple").outcome, Outcome::kAbsent);
}

// A driver may give its interrupts back while the link is down. What they were at first is not forgotten for that.
TEST(Apply, KeepsTheFirstValueOfAnInterruptThatIsAway) {
  Node node({.nvme_queues = 0});
  const char* const json = R"({"mode": "enforce", "cpus": {"lanes": "2-3"}, "interrupts": {"irqs": "housekeeping"}})";
  changed(node, json);
  const std::string actions = "/sys/kernel/irq/" + std::to_string(node.irq_of("ice-ens1f0-TxRx-0")) + "/actions";
  node.put(actions, "");
  EXPECT_FALSE(changed(node, json).plan.changes_something());
  node.put(actions, "ice-ens1f0-TxRx-0");
  EXPECT_EQ(change_of(changed(node, json).plan, "irq/0000:3b:00.0/queue-0/affinity").outcome, Outcome::kInForce);
  undone(node);
  EXPECT_EQ(node.get(node.irq_path("ice-ens1f0-TxRx-0") + "/smp_affinity_list"), "0-3");
}

TEST(Undo, FollowsARenamedInterfaceAndSkipsWhatIsGone) {
  Node node;
  changed(node,
          R"({"mode": "enforce", "memory": {"ksm": "on"}, "nics": [{"match": {"driver": "ice"}, "txQueueLen": 10}]})");
  node.remove("/sys/kernel/mm/ksm");
  node.remove("/sys/class/net/ens1f0");
  node.link("/sys/class/net/trade0", "/sys/devices/pci0000:3a/0000:3b:00.0/net/ens1f0");
  const std::vector<Undone> all = undone(node);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].outcome, UndoOutcome::kRestored) << all[0].words;
  EXPECT_EQ(all[1].outcome, UndoOutcome::kGone);
  EXPECT_EQ(node.get("/sys/class/net/trade0/tx_queue_len"), "1000");
}

TEST(Undo, LeavesWhatSomebodyElseWroteSince) {
  Node node;
  changed(node, R"({"mode": "enforce", "memory": {"statIntervalSeconds": 120}, "sysctls": {"vm.swappiness": 10}})");
  node.put("/proc/sys/vm/stat_interval", "7");
  for (const Undone& one : undone(node)) {
    EXPECT_EQ(one.outcome, one.key == "sysctl/vm.swappiness" ? UndoOutcome::kRestored : UndoOutcome::kLeft)
        << one.words;
  }
  EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "7");
  EXPECT_EQ(node.get("/proc/sys/vm/swappiness"), "60");
}

TEST(Undo, KeepsTheRecordOfWhatItMayNotWrite) {
  Node node;
  changed(node, R"({"mode": "enforce", "memory": {"statIntervalSeconds": 120}})");
  node.rules["stat_interval"] = [](std::string&) { return EROFS; };
  EXPECT_EQ(undone(node).at(0).outcome, UndoOutcome::kFailed);
  node.rules.clear();
  EXPECT_EQ(undone(node).at(0).outcome, UndoOutcome::kRestored);
}

TEST(Apply, TakesBackWhatTheProfileNoLongerHas) {
  Node node;
  changed(node, R"({"mode": "enforce", "memory": {"ksm": "on", "statIntervalSeconds": 120}})");
  changed(node, R"({"mode": "enforce", "onRemove": "keep", "memory": {"ksm": "on"}})");
  EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "120");
  changed(node, R"({"mode": "enforce", "memory": {"ksm": "on"}})");
  EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "1");
  EXPECT_EQ(node.get("/sys/kernel/mm/ksm/run"), "1");
}

// The first value is the one to go back to, however often the profile changes.
TEST(Apply, KeepsTheFirstValue) {
  Node node;
  for (const char* seconds : {"10", "20", "30"}) {
    changed(node, std::string(R"({"mode": "enforce", "memory": {"statIntervalSeconds": )") + seconds + "}}");
  }
  undone(node);
  EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "1");
}

TEST(Drift, IsMendedThreeTimesAndThenContested) {
  Node node;
  const char* const json = R"({"mode": "enforce", "memory": {"statIntervalSeconds": 120}})";
  changed(node, json);
  for (int mend = 1; mend <= 3; ++mend) {
    node.put("/proc/sys/vm/stat_interval", mend == 2 ? "1" : "5");  // The first value counts as drift too.
    EXPECT_EQ(change_of(changed(node, json).plan, "sysctl/vm.stat_interval").outcome, Outcome::kInForce) << mend;
    EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "120");
  }
  node.put("/proc/sys/vm/stat_interval", "5");
  const Change contested = change_of(changed(node, json).plan, "sysctl/vm.stat_interval");
  EXPECT_EQ(contested.outcome, Outcome::kContested);
  EXPECT_NE(contested.words.find("wrote 5"), std::string::npos) << contested.words;
  EXPECT_NE(contested.words.find("120 was put back 3 times"), std::string::npos) << contested.words;
  EXPECT_EQ(node.get("/proc/sys/vm/stat_interval"), "5");
  // By hand it is tried anew, and so with another wish.
  EXPECT_EQ(change_of(changed(node, json, {.forgive_drift = true}).plan, "sysctl/vm.stat_interval").outcome,
            Outcome::kInForce);
}

TEST(Apply, HugePagesNeedTheKubeletsNextStart) {
  Node node;
  node.run_process(50, "kubelet", "/usr/bin/kubelet", 2000);  // 20 s after boot; it is 1000 s now.
  const char* const json = R"({"mode": "enforce", "hugepages": [{"size": "2Mi", "count": 64}]})";
  changed(node, json);
  EXPECT_EQ(change_of(changed(node, json).plan, "numa/0/hugepages/2048kB").outcome, Outcome::kNeedsKubeletRestart);
  node.run_process(50, "kubelet", "/usr/bin/kubelet", 200000);
  EXPECT_EQ(change_of(changed(node, json).plan, "numa/0/hugepages/2048kB").outcome, Outcome::kInForce);
}

// Killed before or after any write: the next apply ends as if nothing had been, and so does undo.
TEST(Killed, AtEachWriteThenApplyOrUndo) {
  for (const bool before : {true, false}) {
    for (const bool then_apply : {true, false}) {
      int killed = 0;
      for (int step = 1; step <= 200; ++step) {
        Node node({.nics = {NicShape{.queues = 2}}, .nvme_queues = 0});
        const auto at_first = settings_of(node);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
          int left = step;
          (before ? node.before_write : node.after_write) = [&left] {
            if (--left == 0) ::_exit(9);
          };
          changed(node, kEverything);
          ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status));
        if (WEXITSTATUS(status) == 0) break;
        ++killed;
        if (then_apply) {
          const Pass pass = changed(node, kEverything);
          EXPECT_FALSE(pass.plan.unsatisfied()) << step;
        }
        undone(node);
        EXPECT_EQ(settings_of(node), at_first) << "killed " << (before ? "before" : "after") << " write " << step;
        EXPECT_EQ(records(node), 0U);
      }
      EXPECT_GT(killed, 20) << "the kill is what is tested";
    }
  }
}

TEST(Apply, WithoutAJournalNothingIsWritten) {
  Node node;
  node.put("/run/podlane", "a file where the directory should be");
  const auto pass = change(node.tree(), profile_of(kEverything), node.run_dir(), {});
  EXPECT_FALSE(pass);
  EXPECT_TRUE(node.writes.empty());
}

TEST(Lock, IsHeldByOne) {
  Node node;
  const auto first = lock_node(node.run_dir());
  ASSERT_TRUE(first);
  const auto second = lock_node(node.run_dir());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::kBusy);
}

}  // namespace
}  // namespace podlane::nodeconfig::test
