// The installer on a node of plain directories, with a clock of our own.
#include "cni/install/installer.hpp"

#include <gtest/gtest.h>

#include "cni/install/binary.hpp"
#include "cni/install/conf_dir.hpp"
#include "tests/unit/cni_install/lists.hpp"
#include "tests/unit/cni_install/node.hpp"

namespace podlane::cni {
namespace {

using namespace std::chrono_literals;
using test::Node;

constexpr std::string_view kPlain = R"({"name":"base","cniVersion":"0.4.0","plugins":[{"type":"ptp"}]})";

struct Hand {  // A clock that stands until it is moved.
  MonotonicTime now{};
  Clock clock() {
    return [this] { return now; };
  }
};

bool in_force(const Node& node, const std::string& name) {
  return node.read("conf/" + name).find(R"("type":"podlane")") != std::string::npos;
}

TEST(Installer, PutsBinaryAndEntryThereAndTakesThemAwayWithoutATrace) {
  for (const test::List& row : test::kLists) {
    SCOPED_TRACE(row.name);
    Node node;
    Hand hand;
    node.write(std::string("conf/") + row.file, row.text);
    ::chmod(node.at(std::string("conf/") + row.file).c_str(), 0640);
    Installer installer(node.options(), hand.clock());
    const InstallReport report = installer.step();
    EXPECT_EQ(report.state, InstallState::kInstalled) << report.message;
    EXPECT_TRUE(in_force(node, row.file));
    EXPECT_EQ(node.read("bin/podlane"), "the program");
    EXPECT_EQ(test::fs::status(node.at("bin/podlane")).permissions(), test::fs::perms(0755));
    EXPECT_EQ(test::fs::status(node.at(std::string("conf/") + row.file)).permissions(), test::fs::perms(0640));
    EXPECT_EQ(installer.step().state, InstallState::kInstalled);
    EXPECT_EQ(installer.uninstall().state, InstallState::kUninstalled);
    EXPECT_EQ(node.read(std::string("conf/") + row.file), row.text);
    EXPECT_FALSE(node.has("bin/podlane"));
    EXPECT_EQ(std::distance(test::fs::directory_iterator(node.at("conf")), {}), 1) << "something else was left";
  }
}

TEST(Installer, DropInLeavesTheListAloneAndGoesWithoutATrace) {
  for (const test::List& row : test::kLists) {
    SCOPED_TRACE(row.name);
    Node node;
    Hand hand;
    node.write(std::string("conf/") + row.file, row.text);
    const std::string drop_in = "conf/" + read_list(row.text)->name + "/90-podlane.conf";
    Installer installer(node.options(Method::kDropIn), hand.clock());
    EXPECT_EQ(installer.step().state, InstallState::kInstalled);
    EXPECT_EQ(node.read(std::string("conf/") + row.file), row.text);
    EXPECT_EQ(node.read(drop_in), node.options().entry + "\n");
    EXPECT_EQ(installer.step().state, InstallState::kInstalled);
    EXPECT_EQ(installer.uninstall().state, InstallState::kUninstalled);
    EXPECT_EQ(std::distance(test::fs::directory_iterator(node.at("conf")), {}), 1) << "something else was left";
  }
}

TEST(Installer, DropInIsRefusedWhereTheListForbidsIt) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", R"({"name":"n","loadOnlyInlinedPlugins":true,"plugins":[{"type":"ptp"}]})");
  const InstallReport report = Installer(node.options(Method::kDropIn), hand.clock()).step();
  EXPECT_EQ(report.state, InstallState::kRefused);
  EXPECT_NE(report.message.find("loadOnlyInlinedPlugins"), std::string::npos);
  EXPECT_FALSE(node.has("conf/n"));
}

TEST(Installer, ChangingTheMethodNeverRunsUsTwice) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  EXPECT_EQ(Installer(node.options(Method::kEdit), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_EQ(Installer(node.options(Method::kDropIn), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  EXPECT_TRUE(node.has("conf/base/90-podlane.conf"));
  EXPECT_EQ(Installer(node.options(Method::kEdit), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_FALSE(node.has("conf/base/90-podlane.conf"));
  EXPECT_TRUE(in_force(node, "10-a.conflist"));
}

TEST(Installer, WaitsForListAndDevicePluginAndEditsNothingBefore) {
  Node node;
  Hand hand;
  node.stop_device_plugin();
  Installer installer(node.options(), hand.clock());
  EXPECT_EQ(installer.step().state, InstallState::kWaiting);
  EXPECT_TRUE(node.has("bin/podlane")) << "the binary is first";
  node.write("conf/10-a.conflist", kPlain);
  const InstallReport report = installer.step();
  EXPECT_EQ(report.state, InstallState::kWaiting);
  EXPECT_NE(report.message.find("control.sock"), std::string::npos);
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  node.start_device_plugin();
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
  EXPECT_TRUE(in_force(node, "10-a.conflist"));
}

TEST(Installer, MultusModeTouchesNoList) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  EXPECT_EQ(Installer(node.options(Method::kNone), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  EXPECT_TRUE(node.has("bin/podlane"));
}

// containerd has no network at all when the first file is broken: an edit of another file would hide that.
TEST(Installer, MalformedNeighboursAreNamedAndNothingIsWritten) {
  struct Row {
    const char *name, *file;
    std::string_view text, word;
  };
  for (const Row& row : {Row{"cut off", "05-x.conflist", R"({"name":"n","plugins":[)", "05-x.conflist"},
                         Row{"empty", "05-x.conflist", "", "05-x.conflist"},
                         Row{"a single plugin", "05-x.conf", R"({"name":"n","type":"ptp"})", "single plugin"},
                         Row{"a list that is named like a single plugin", "05-x.conf", kPlain, "single plugin"},
                         Row{"json", "05-x.json", "{", "05-x.json"}}) {
    SCOPED_TRACE(row.name);
    Node node;
    Hand hand;
    node.write(std::string("conf/") + row.file, row.text);
    node.write("conf/10-a.conflist", kPlain);
    const InstallReport report = Installer(node.options(), hand.clock()).step();
    EXPECT_EQ(report.state, InstallState::kRefused);
    EXPECT_NE(report.message.find(row.word), std::string::npos) << report.message;
    EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
    EXPECT_EQ(node.read(std::string("conf/") + row.file), row.text);
  }
  // Behind the first file, and what no runtime reads, does not matter.
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  node.write("conf/20-b.conflist", "{");
  node.write("conf/05-old.conflist.cilium_bak", "{");
  EXPECT_EQ(Installer(node.options(), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_EQ(node.read("conf/20-b.conflist"), "{");
}

TEST(Installer, FollowsTheFirstListWhenThePrimaryIsReplaced) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  Installer installer(node.options(), hand.clock());
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
  node.write("conf/05-b.conflist", R"({"name":"b","plugins":[{"type":"cilium-cni"}]})");
  hand.now += 10s;
  EXPECT_EQ(installer.step().state, InstallState::kLost);
  hand.now += 1s;
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
  EXPECT_TRUE(in_force(node, "05-b.conflist"));
  EXPECT_EQ(installer.uninstall().state, InstallState::kUninstalled);
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain) << "the old list is cleaned too";
}

TEST(Installer, SymbolicLinkStaysALink) {
  Node node;
  Hand hand;
  node.write("image/real.conflist", kPlain);
  test::fs::create_symlink(node.at("image/real.conflist"), node.at("conf/10-a.conflist"));
  EXPECT_EQ(Installer(node.options(), hand.clock()).step().state, InstallState::kInstalled);
  EXPECT_TRUE(test::fs::is_symlink(node.at("conf/10-a.conflist")));
  EXPECT_TRUE(in_force(node, "10-a.conflist"));
}

// Ten minutes of a primary that rewrites its list every second.
TEST(Installer, DoesNotFightForEver) {
  Node node;
  Hand hand;
  node.write("conf/05-cilium.conflist", kPlain);
  Installer installer(node.options(), hand.clock());
  ASSERT_EQ(installer.step().state, InstallState::kInstalled);
  int edits = 0, conflicts = 0;
  InstallReport report;
  for (int second = 0; second < 600; ++second) {
    node.rename_in("conf/05-cilium.conflist", kPlain);
    hand.now += 1s;
    report = installer.step();
    edits += in_force(node, "05-cilium.conflist") ? 1 : 0;
    conflicts += report.state == InstallState::kConflict ? 1 : 0;
    ASSERT_GE(installer.next_step_in(), 1ms);
  }
  EXPECT_GE(edits, 4);
  EXPECT_LE(edits, 8) << "that is a fight";
  EXPECT_GT(conflicts, 500);
  ASSERT_EQ(report.state, InstallState::kConflict);
  EXPECT_NE(report.message.find("cni.exclusive"), std::string::npos) << report.message;
  // The owner gives in: five minutes later our entry is there, and stays.
  hand.now += 6min;
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
  hand.now += 6min;
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
  // So the next rewrite is one like any other.
  node.rename_in("conf/05-cilium.conflist", kPlain);
  EXPECT_EQ(installer.step().state, InstallState::kLost);
}

TEST(Installer, OneRewriteIsAnsweredWithinASecond) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  Installer installer(node.options(), hand.clock());
  installer.step();
  hand.now += 1h;
  node.rename_in("conf/10-a.conflist", kPlain);
  EXPECT_EQ(installer.step().state, InstallState::kLost);
  EXPECT_LE(installer.next_step_in(), 1100ms);
  hand.now += installer.next_step_in();
  EXPECT_EQ(installer.step().state, InstallState::kInstalled);
}

TEST(Installer, BinaryThatIsGoneOrOldIsPutBack) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  Installer installer(node.options(), hand.clock());
  installer.step();
  test::fs::remove(node.at("bin/podlane"));
  installer.step();
  EXPECT_EQ(node.read("bin/podlane"), "the program");
  node.write("image/podlane", "a newer program");
  installer.step();
  EXPECT_EQ(node.read("bin/podlane"), "a newer program");
  EXPECT_EQ(std::distance(test::fs::directory_iterator(node.at("bin")), {}), 1) << "a half-written file was left";
}

TEST(Installer, ImageWithoutBinaryIsSaid) {
  Node node;
  Hand hand;
  test::fs::remove(node.at("image/podlane"));
  const InstallReport report = Installer(node.options(), hand.clock()).step();
  EXPECT_EQ(report.state, InstallState::kRefused);
  EXPECT_NE(report.message.find("image/podlane"), std::string::npos);
}

// CRI-O runs the list that it cached at ADD: without the binary such a pod could not be deleted.
TEST(Installer, BinaryStaysWhilePodsThatWereMadeWithItMayNeedIt) {
  Node node;
  Hand hand;
  node.write("conf/10-a.conflist", kPlain);
  Installer installer(node.options(), hand.clock());
  installer.step();
  test::fs::create_directories(node.at("cache/results"));
  // {"name":"base","plugins":[{"type":"ptp"},{"type":"podlane"}]} and the same without us.
  node.write(
      "cache/results/base-1-eth0",
      R"({"kind":"cniCacheV1","config":"eyJuYW1lIjoiYmFzZSIsInBsdWdpbnMiOlt7InR5cGUiOiJwdHAifSx7InR5cGUiOiJwb2RsYW5lIn1dfQ=="})");
  node.write("cache/results/base-2-eth0",
             R"({"kind":"cniCacheV1","config":"eyJuYW1lIjoiYmFzZSIsInBsdWdpbnMiOlt7InR5cGUiOiJwdHAifV19"})");
  node.write("cache/results/base-3-eth0", "{");
  EXPECT_EQ(cached_pods(node.at("cache")).value_or(-1), 1);
  const InstallReport report = installer.uninstall();
  EXPECT_EQ(report.state, InstallState::kUninstalled);
  EXPECT_NE(report.message.find("DEL of 1 pods"), std::string::npos) << report.message;
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  EXPECT_TRUE(node.has("bin/podlane"));
  test::fs::remove(node.at("cache/results/base-1-eth0"));
  EXPECT_EQ(installer.uninstall().state, InstallState::kUninstalled);
  EXPECT_FALSE(node.has("bin/podlane"));
}

TEST(Installer, UninstallFindsEveryTraceAndNothingOfOthers) {
  Node node;
  Hand hand;
  const std::string with = *with_entry(kPlain, node.options().entry);
  node.write("conf/10-a.conflist", with);
  node.write("conf/20-b.conflist", with);
  node.write("conf/30-own.conf", R"({"name":"vpn","type":"podlane"})");
  node.write("conf/40-broken.conflist", R"({"podlane":)");
  test::fs::create_directories(node.at("conf/base"));
  node.write("conf/base/90-podlane.conf", "{}");
  node.write("conf/base/10-other.conf", "{}");
  EXPECT_EQ(Installer(node.options(), hand.clock()).uninstall().state, InstallState::kUninstalled);
  EXPECT_EQ(node.read("conf/10-a.conflist"), kPlain);
  EXPECT_EQ(node.read("conf/20-b.conflist"), kPlain);
  EXPECT_TRUE(node.has("conf/30-own.conf")) << "a network of the operator's own";
  EXPECT_TRUE(node.has("conf/40-broken.conflist"));
  EXPECT_FALSE(node.has("conf/base/90-podlane.conf"));
  EXPECT_TRUE(node.has("conf/base/10-other.conf"));
  // Twice, and on a node that never had us.
  EXPECT_EQ(Installer(node.options(), hand.clock()).uninstall().state, InstallState::kUninstalled);
}

}  // namespace
}  // namespace podlane::cni
