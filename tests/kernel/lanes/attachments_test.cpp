// What the table does with the CNI plugin's records whose DEL never came: leases go back by the real host-local, and
// none is given back that a living pod may hold.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/journal/ipam.hpp"
#include "lib/journal/journal.hpp"
#include "tests/kernel/lanes/node.hpp"

namespace podlane::test {
namespace {

namespace fs = std::filesystem;

constexpr char kPool[] =
    R"([{"name":"feed","lane":"veth","devices":{"names":["@"]},"lanes":4,"subnets":["10.9.0.0/24"]}])";
constexpr char kCniPath[] = "/usr/lib/cni";

// A pod's attachment as ADD leaves it: a lease of host-local and both records.
struct Attached {
  explicit Attached(const Node& node)
      : journal(node.run_dir(), node.state_dir()), leases(node.state_dir() + "/host-local") {
    auto id = journal::read_boot_id();
    if (!id) throw std::runtime_error(id.error().message());
    boot_id = *id;
  }

  void add(const std::string& netns_path, bool with_daemon, const std::string& plugin = "host-local",
           const std::string& of_boot = "") {
    const std::string boot = of_boot.empty() ? boot_id : of_boot;
    journal::IpamCall call{
        .plugin = "host-local",
        .cni_path = kCniPath,
        .container_id = key.container_id,
        .netns_path = netns_path,
        .ifname = "lane0",
        .args = "",
        .config = {
            {"cniVersion", "1.0.0"},
            {"name", "podlane-feed"},
            {"type", "podlane"},
            {"ipam", {{"type", "host-local"}, {"dataDir", leases}, {"ranges", {{{{"subnet", "10.9.0.0/24"}}}}}}}}};
    if (auto taken = journal::call_ipam(call, "ADD", {}); !taken)
      throw std::runtime_error(taken.error().error.message());
    call.plugin = plugin;
    must(journal.write_addresses({.key = key, .boot_id = boot, .netns_path = netns_path, .calls = {call}}));
    must(journal.write({.key = key,
                        .boot_id = boot,
                        .netns_path = netns_path,
                        .pod_namespace = "default",
                        .pod_name = "p1",
                        .with_daemon = with_daemon,
                        .state = journal::RecordState::kMade,
                        .lanes = {{.ifname = "lane0"}}}));
  }

  static void must(const Result<void>& done) {
    if (!done) throw std::runtime_error(done.error().message());
  }

  bool holds_lease() const {
    for (const auto& entry : fs::directory_iterator(leases + "/podlane-feed")) {
      if (entry.path().filename().string().starts_with("10.9.0.")) return true;
    }
    return false;
  }
  bool is_recorded() const {
    const auto record = journal.read(key);
    const auto addresses = journal.read_addresses(key);
    return !record || *record || !addresses || *addresses;
  }
  bool is_whole() const {
    const auto record = journal.read(key);
    const auto addresses = journal.read_addresses(key);
    return holds_lease() && record && *record && addresses && *addresses;
  }
  bool is_gone() const { return !holds_lease() && !is_recorded(); }

  journal::Journal journal;
  std::string leases, boot_id;
  journal::AttachmentKey key{"net", "c1", "eth0"};
};

constexpr auto kRounds = std::chrono::milliseconds(1500);  // Many rounds of the reconcile.

struct Row {
  const char* name;
  bool with_daemon;
};
constexpr Row kBoth[] = {{"plain TUN", false}, {"lanes", true}};

TEST(Attachments, WhoseNamespaceIsGoneGiveTheirLeasesBack) {
  for (const Row& row : kBoth) {
    SCOPED_TRACE(row.name);
    Node node(kPool);
    node.reconcile_ms = 100;
    Attached pod(node);
    ScratchNetns netns("plp");
    pod.add(netns.path(), row.with_daemon);
    node.set_pods("default p1 app feed feed-0\n");
    node.start();
    EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); })) << "taken from a living pod";
    netns.remove();
    EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] { return pod.is_gone(); }));
    // The lock goes after the records.
    EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return fs::is_empty(node.run_dir() + "/locks"); }));
  }
}

TEST(Attachments, OfAnOlderBootGiveTheirLeasesBackAtStart) {
  for (const Row& row : kBoth) {
    SCOPED_TRACE(row.name);
    Node node(kPool);
    Attached pod(node);
    // A path that is taken by a living namespace again: the boot id alone must decide.
    const ScratchNetns netns("plp");
    pod.add(netns.path(), row.with_daemon, "host-local", "an-older-boot");
    node.lose_pods();  // The kubelet may start later than we do.
    node.start();
    EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] { return pod.is_gone(); }));
  }
}

// hostPath without propagation, a runtime that names /proc/<pid>/ns/net, a pod whose namespace is elsewhere.
TEST(Attachments, OfPlainTunsWhoseNamespaceIsNotSeenKeepTheirLeases) {
  struct Path {
    const char* name;
    std::string path;
  };
  for (const Path& row : {Path{"directory not visible", "/run/podlane-no-such-directory/netns/pod"},
                          Path{"process not visible", "/proc/4194304/ns/net"}, Path{"mount not propagated", ""}}) {
    SCOPED_TRACE(row.name);
    Node node(kPool);
    node.reconcile_ms = 100;
    const std::string file = node.state_dir() + "/unmounted";
    std::ofstream(file) << "";
    Attached pod(node);
    pod.add(row.path.empty() ? file : row.path, false);
    node.start();
    EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); }));
  }
}

TEST(Attachments, OfLanesWhoseNamespaceIsNotSeenGoWithTheirPod) {
  Node node(kPool);
  node.reconcile_ms = 100;
  Attached pod(node);
  pod.add("/run/podlane-no-such-directory/netns/pod", true);
  node.set_pods("default p1 app feed feed-0\n");
  node.start();
  EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); })) << "its pod is listed";
  node.lose_pods();
  EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); })) << "nobody knows";
  node.set_pods("");
  EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] { return pod.is_gone(); }));
}

TEST(Attachments, WhoseIpamPluginIsMissingAreKeptUntilItIsBack) {
  Node node(kPool);
  node.reconcile_ms = 100;
  Attached pod(node);
  pod.add("/run/netns/plp-never-there", false, "nosuch-ipam");
  testing::internal::CaptureStderr();  // The daemon's log goes where ours goes.
  node.start();
  EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); }));
  // The plugin is back: the same record works.
  auto record = pod.journal.read_addresses(pod.key);
  ASSERT_TRUE(record && *record);
  (*record)->calls[0].plugin = "host-local";
  Attached::must(pod.journal.write_addresses(**record));
  EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] { return pod.is_gone(); }));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("nosuch-ipam"), std::string::npos) << log;
}

TEST(Attachments, AtWorkAreLeftAlone) {
  Node node(kPool);
  node.reconcile_ms = 100;
  Attached pod(node);
  pod.add("/run/netns/plp-never-there", false);
  {
    const auto lock = pod.journal.lock(pod.key, std::chrono::seconds(1));
    ASSERT_TRUE(lock.has_value());
    node.start();
    EXPECT_TRUE(holds_for(kRounds, [&] { return pod.is_whole(); }));
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(10), [&] { return pod.is_gone(); }));
}

TEST(PendingDeletes, AreCarriedOutWithoutTheKubelet) {
  Node node(kPool);
  node.reconcile_ms = 100;
  node.start();
  node.set_pods("default p1 app feed feed-0\n");
  ASSERT_EQ(word(node.ask("allocate feed feed-0"), 0), "ok");
  Pod pod(node, "p1", "c1");
  ASSERT_FALSE(pod.attach({{"podlane.io/lanes", "feed"}}).refusal.has_value());
  ASSERT_FALSE(pod.commit({"10.9.0.50/24"}).refusal.has_value());
  node.lose_pods();
  const lane::Attachment& attachment = pod.attachment();
  const journal::AttachmentKey key{attachment.network, attachment.container_id, attachment.ifname};
  const journal::Journal journal(node.run_dir(), node.state_dir());
  // Rubbish beside it hides nothing.
  fs::create_directories(node.run_dir() + "/pending-del");
  std::ofstream(node.run_dir() + "/pending-del/a.json") << "{";
  {
    // Its DEL is still at work: wait.
    const auto lock = journal.lock(key, std::chrono::seconds(1));
    ASSERT_TRUE(lock.has_value());
    Attached::must(journal.write_pending_delete(key));
    EXPECT_TRUE(holds_for(kRounds, [&] { return node.ask("report").find("feed-0=ready") != std::string::npos; }));
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(10),
                         [&] { return node.ask("report").find("feed-0=reserved") != std::string::npos; }));
  const auto waits = [&] { return journal.has_pending_delete(key).value_or(true); };
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return !waits(); }));
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return fs::is_empty(node.run_dir() + "/locks"); }));
  EXPECT_TRUE(fs::exists(node.run_dir() + "/pending-del/a.json"));
}

}  // namespace
}  // namespace podlane::test
