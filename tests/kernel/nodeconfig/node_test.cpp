// podlane-nodeconfig against this machine's kernel: queues of a veth in a scratch namespace, whose /sys shows nothing
// else; mounts that are read-only; and which file needs which right. Nothing of the machine's own is changed: such
// files are written with the value that they have, or behind a read-only mount.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/testlib/testlib.hpp"

namespace {

namespace fs = std::filesystem;
using podlane::test::CommandResult;
using podlane::test::must_run;
using podlane::test::run;

class NodeConfig : public ::testing::Test {
 protected:
  NodeConfig() {
    fs::create_directories(dir_);
    must_run("ip -n " + netns_.name() +
             " link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1 numrxqueues 2 numtxqueues 2");
    // With GRO a veth has NAPI while it is up (drivers/net/veth.c): without one nothing can be threaded.
    must_run("ip netns exec " + netns_.name() + " ethtool -K v0 gro on");
    for (const char* end : {"v0", "v1"}) must_run("ip -n " + netns_.name() + " link set " + end + " up");
  }
  ~NodeConfig() override { fs::remove_all(dir_); }

  void profile(const std::string& json) { std::ofstream(dir_ + "/profile.json") << json; }
  // ip-netns(8) mounts a /sys of the namespace.
  CommandResult in_netns(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), {"ip", "netns", "exec", netns_.name()});
    return run(argv);
  }
  std::vector<std::string> program(const std::string& command) const {
    return {std::string(std::getenv("PODLANE_BIN")) + "/podlane-nodeconfig",
            "--run-dir",
            dir_ + "/run",
            "--profile",
            dir_ + "/profile.json",
            command};
  }
  std::string value(const std::string& file) const {
    std::string text = in_netns({"cat", "/sys/class/net/v0/" + file}).out;
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  std::string journal() const {
    std::ifstream file(dir_ + "/run/nodeconfig-changes.jsonl");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  podlane::test::ScratchNetns netns_;
  std::string dir_ = "/tmp/" + podlane::test::random_name("plnode-");
};

constexpr const char* kVeth = R"({"mode": "enforce", "nics": [{"match": {"name": "v0"}, "rps": {"1": "0"}, "xps": "0",
  "txQueueLen": 123, "groFlushTimeoutNs": 200000, "deferHardIrqs": 2, "threadedNapi": "on"}]})";

TEST_F(NodeConfig, TunesAVethAndPutsItBack) {
  const std::vector<std::string> files = {
      "queues/rx-0/rps_cpus", "queues/rx-1/rps_cpus", "queues/tx-0/xps_cpus", "queues/tx-1/xps_cpus",
      "tx_queue_len",         "gro_flush_timeout",    "napi_defer_hard_irqs", "threaded"};
  std::vector<std::string> before;
  for (const std::string& file : files) before.push_back(value(file));
  profile(kVeth);
  const CommandResult plan = in_netns(program("plan"));
  EXPECT_EQ(plan.status, 2) << plan.out;
  const CommandResult applied = in_netns(program("apply"));
  ASSERT_EQ(applied.status, 0) << applied.out;
  EXPECT_EQ(value("queues/rx-0/rps_cpus"), before[0]);
  EXPECT_EQ(value("queues/rx-1/rps_cpus"), "1");
  EXPECT_EQ(value("queues/tx-1/xps_cpus"), "1");
  EXPECT_EQ(value("tx_queue_len"), "123");
  EXPECT_EQ(value("gro_flush_timeout"), "200000");
  EXPECT_EQ(value("napi_defer_hard_irqs"), "2");
  EXPECT_EQ(value("threaded"), "1");
  const std::string written = journal();
  EXPECT_EQ(in_netns(program("apply")).status, 0);
  EXPECT_EQ(journal(), written) << "a second apply writes nothing";
  EXPECT_EQ(in_netns(program("plan")).status, 0);
  const CommandResult undone = in_netns(program("undo"));
  EXPECT_EQ(undone.status, 0) << undone.out;
  for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(value(files[i]), before[i]) << files[i];
}

TEST_F(NodeConfig, AnInterfaceThatIsGoneNeedsNoUndo) {
  profile(R"({"mode": "enforce", "nics": [{"match": {"name": "v?"}, "txQueueLen": 77}]})");
  ASSERT_EQ(in_netns(program("apply")).status, 0);
  EXPECT_EQ(value("tx_queue_len"), "77");
  EXPECT_EQ(in_netns({"cat", "/sys/class/net/v1/tx_queue_len"}).out, "77\n");
  must_run("ip -n " + netns_.name() + " link del v0");
  const CommandResult undone = in_netns(program("undo"));
  EXPECT_EQ(undone.status, 0) << undone.out;
  EXPECT_NE(undone.out.find("gone"), std::string::npos) << undone.out;
}

// What ethtool sets, by ioctl: a veth has channels and GRO; rings, coalescing and ntuple it has not.
TEST_F(NodeConfig, SetsWhatEthtoolSets) {
  const auto gro = [&] { return in_netns({"sh", "-c", "ethtool -k v0 | grep '^generic-receive-offload:'"}).out; };
  const auto channels = [&] { return in_netns({"sh", "-c", "ethtool -l v0 | grep '^RX:' | tail -1"}).out; };
  const std::string gro_before = gro(), channels_before = channels();
  profile(
      R"({"mode": "enforce", "nics": [{"match": {"name": "v0"}, "gro": "off", "rxChannels": 1, "rxRing": 512, "rxUsecs": 0,
    "combinedChannels": 2, "ntuple": "on"}]})");
  const CommandResult applied = in_netns(program("apply"));
  EXPECT_EQ(applied.status, 3) << applied.out;
  EXPECT_NE(gro().find("off"), std::string::npos) << applied.out;
  EXPECT_NE(channels().find("1"), std::string::npos) << applied.out;
  for (const char* what : {"nic/v0/rx-ring", "nic/v0/rx-usecs", "nic/v0/combined-channels", "nic/v0/ntuple"}) {
    const std::size_t at = applied.out.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    EXPECT_NE(applied.out.substr(at, applied.out.find('\n', at) - at).find("unsupported"), std::string::npos)
        << applied.out;
  }
  EXPECT_EQ(in_netns(program("undo")).status, 0);
  EXPECT_EQ(gro(), gro_before);
  EXPECT_EQ(channels(), channels_before);
}

TEST_F(NodeConfig, SaysThatAMountIsReadOnly) {
  profile(R"({"mode": "enforce", "interrupts": {"defaultAffinity": "0"}})");
  // The program runs only when the mount is there.
  const std::string script =
      "mount --bind /proc/irq /proc/irq && mount -o remount,bind,ro /proc/irq && "
      "grep -q ' /proc/irq [^ ]* ro' /proc/self/mounts && ! (cat /proc/irq/default_smp_affinity > "
      "/proc/irq/default_smp_affinity) 2>/dev/null && "
      "exec \"$@\"";
  std::vector<std::string> argv = {"unshare", "-m", "sh", "-c", script, "sh"};
  for (const std::string& word : program("apply")) argv.push_back(word);
  const CommandResult applied = run(argv);
  EXPECT_EQ(applied.status, 3) << applied.out;
  EXPECT_NE(applied.out.find("denied: /proc/irq/default_smp_affinity is mounted read-only"), std::string::npos)
      << applied.out;
  EXPECT_EQ(journal(), "") << "nothing was changed, so there is nothing to undo";
}

// docs/node-profile.md, "Rights": uid 0 and a writable mount are enough for most, and each other file needs one
// capability.
TEST_F(NodeConfig, NeedsTheRightsThatItsPageNames) {
  struct Row {
    const char *file, *capability;  // nullptr: none.
  };
  int seen = 0;
  for (const Row& row :
       {Row{"/proc/irq/default_smp_affinity", nullptr}, Row{"/proc/sys/vm/stat_interval", nullptr},
        Row{"/proc/sys/vm/swappiness", nullptr}, Row{"/proc/sys/kernel/timer_migration", nullptr},
        Row{"/sys/kernel/mm/ksm/run", nullptr}, Row{"/sys/devices/virtual/workqueue/cpumask", nullptr},
        Row{"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", nullptr},
        Row{"/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", nullptr},
        Row{"/sys/class/net/v0/tx_queue_len", "net_admin"}, Row{"/sys/class/net/v0/gro_flush_timeout", "net_admin"},
        Row{"/sys/class/net/v0/napi_defer_hard_irqs", "net_admin"},
        Row{"/sys/class/net/v0/queues/rx-0/rps_cpus", "net_admin"},
        Row{"/sys/class/net/v0/queues/tx-0/xps_cpus", "net_admin"},
        Row{"/proc/sys/kernel/numa_balancing", "sys_admin"}}) {
    if (in_netns({"test", "-e", row.file}).status != 0) continue;
    ++seen;
    const auto rewrite_with = [&](const std::string& bounding) {
      // THP and the like show more than they take; these files take what they show.
      return in_netns({"setpriv", "--inh-caps=-all", "--bounding-set=" + bounding, "sh", "-c",
                       "v=$(cat $0) && printf %s \"$v\" > $0", row.file})
          .status;
    };
    EXPECT_EQ(rewrite_with("-all") == 0, row.capability == nullptr) << row.file;
    if (row.capability == nullptr) continue;
    EXPECT_EQ(rewrite_with("-all,+" + std::string(row.capability)), 0) << row.file;
  }
  EXPECT_GE(seen, 11);
}

TEST_F(NodeConfig, SaysWhichRightIsMissing) {
  profile(kVeth);
  std::vector<std::string> argv = {"setpriv", "--inh-caps=-all", "--bounding-set=-all"};
  for (const std::string& word : program("apply")) argv.push_back(word);
  const CommandResult applied = in_netns(argv);
  EXPECT_EQ(applied.status, 3) << applied.out;
  EXPECT_NE(applied.out.find("denied: no right to write /sys/class/net/v0/tx_queue_len (EPERM)"), std::string::npos)
      << applied.out;
  EXPECT_EQ(value("tx_queue_len"), "1000");
}

}  // namespace
