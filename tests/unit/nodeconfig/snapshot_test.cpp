#include "nodeconfig/snapshot.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodeconfig/report.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

namespace fs = std::filesystem;

// Unpacked by tar(1), as a reader of an issue would.
struct Unpacked {
  explicit Unpacked(const std::string& tar) : root("/tmp/" + podlane::test::random_name("plsnap-")) {
    fs::create_directories(root);
    std::ofstream(root + "/node.tar", std::ios::binary) << tar;
    podlane::test::must_run("tar -x -p -f " + root + "/node.tar -C " + root);
  }
  ~Unpacked() { fs::remove_all(root); }
  std::string root;
};

std::string planned(const std::string& root, const std::string& json) {
  const Profile profile = profile_of(json);
  const auto tree = Tree::open(root);
  const auto pass = look(*tree, profile, root + "/run/none", {});
  return pass ? render_json({profile, pass->plan, pass->advice}) : pass.error().message();
}

std::string snapshot_of(const std::string& root) {
  auto tree = Tree::open(root);
  auto recording = record_node(*tree);
  if (!recording) throw std::runtime_error(recording.error().message());
  scrub(*recording);
  return tar_of(*recording);
}

TEST(Snapshot, GivesTheSamePlanElsewhere) {
  Node node({.sockets = 2, .cores = 2, .threads = 2, .nvme_queues = 4, .other_irqs = 3});
  constexpr char kArguments[] = "/usr/bin/kubelet\0--hostname-override=secret-host\0--config=/etc/k.yaml";
  node.run_process(12, "kubelet", std::string(kArguments, sizeof(kArguments)));
  node.put("/etc/k.yaml", "cpuManagerPolicy: static\nclusterDNS:\n- 10.9.8.7\nreservedSystemCPUs: \"0,4\"");
  node.put(
      "/var/lib/kubelet/cpu_manager_state",
      R"({"policyName":"static","defaultCpuSet":"0-1,4-5","entries":{"secret-uid":{"secret-name":"2-3,6-7"}},"checksum":1})");
  node.put("/proc/cmdline", "root=UUID=secret nohz_full=2-3");
  node.put("/sys/class/net/ens1f0/address", "02:00:00:00:00:99");
  const std::string tar = snapshot_of(node.root());
  const Unpacked copy(tar);
  for (const char* json :
       {R"({"interrupts": {"irqs": "housekeeping", "defaultAffinity": "housekeeping"}, "memory": {"thp": "never"},
                              "power": {"governor": "performance", "maxIdleLatencyUs": 10}, "hugepages": [{"size": "2Mi", "count": 8}],
                              "nics": [{"match": {"driver": "ice"}, "irqs": "local", "rps": "off", "xps": "0", "txQueueLen": 5}],
                              "kubelet": {"cpuManagerPolicy": "static"}, "boot": {"args": ["nohz_full=2-3", "nosmt"]}})",
        R"({"power": {"governor": "ondemand"}})"}) {
    EXPECT_EQ(planned(copy.root, json), planned(node.root(), json));
  }
  EXPECT_EQ(tar.find("secret"), std::string::npos);
  EXPECT_EQ(tar.find("10.9.8.7"), std::string::npos);
  EXPECT_EQ(tar.find("02:00:00"), std::string::npos);
  EXPECT_EQ(snapshot_of(node.root()), tar) << "the same node gives the same bytes";
  EXPECT_EQ(snapshot_of(copy.root), tar) << "a snapshot of a snapshot is the same";
}

TEST(Snapshot, OfThisMachineCanBePlannedFrom) {
  const std::string json = R"({"interrupts": {"irqs": "0"}, "memory": {"thp": "never", "statIntervalSeconds": 10}})";
  const Unpacked copy(snapshot_of("/"));
  EXPECT_EQ(planned(copy.root, json), planned("/", json));
}

TEST(Snapshot, KeepsLongNames) {
  Recording recording;
  const std::string deep = "/sys/" + std::string(90, 'a') + "/" + std::string(90, 'b');
  recording.files[deep + "/file"] = {.text = "x", .mode = 0444};
  recording.links["/sys/link"] = deep;
  const Unpacked copy(tar_of(recording));
  const auto tree = Tree::open(copy.root);
  EXPECT_EQ(tree->real_path("/sys/link"), deep);
  EXPECT_EQ(tree->read("/sys/link/file"), "x");
  EXPECT_EQ(tree->mode("/sys/link/file"), 0444U);
}

}  // namespace
}  // namespace podlane::nodeconfig::test
