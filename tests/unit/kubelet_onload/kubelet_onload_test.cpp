// Pools of kind onload from the recorded node to the kubelet: the real store, offer and gRPC side, without BPF. What
// the lane table adds to it is in deviceplugin/lanes/onload_watch.cpp.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "deviceplugin/kubelet/kubelet_link.hpp"
#include "deviceplugin/lanes/lane_store.hpp"
#include "deviceplugin/lanes/onload_answer.hpp"
#include "tests/kubelet/device_manager.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/unit/inventory/onload_tree.hpp"

namespace podlane::test {
namespace {

using std::chrono::seconds;

// The lane table's way of onload pools, on one lock instead of threads.
class OnloadTable final : public dp::LaneTable {
 public:
  OnloadTable(const dp::Config& config, const std::string& journal)
      : store_(config, *dp::list_devices(config), *dp::LaneJournal::open(journal, "boot-1")) {}

  void look(const dp::OnloadNode& node) {
    const std::lock_guard lock(mutex_);
    for (auto& [name, offer] : store_.onload()) offer = dp::offer_of(*store_.pool(name), node);
    if (callback_) callback_("accel");
  }
  std::vector<dp::DeviceState> devices(const std::string&) override {
    const std::lock_guard lock(mutex_);
    std::vector<dp::DeviceState> states;
    for (const auto& [id, lane] : store_.lanes()) {
      const std::string why = store_.why_unhealthy(lane);
      states.push_back({.id = id, .healthy = why.empty(), .why = why});
    }
    return states;
  }
  void on_health_change(std::function<void(const std::string&)> callback) override { callback_ = std::move(callback); }
  Result<dp::AllocateAnswer> allocate(const std::string& pool, const std::vector<std::string>& wanted) override {
    const std::lock_guard lock(mutex_);
    PODLANE_TRY_ASSIGN(const auto ids, store_.validate(pool, wanted));
    PODLANE_TRY(store_.reserve(ids, "/never/made"));
    return dp::onload_answer(store_.onload().at(pool), store_.pool(pool)->default_mode, store_.numbers_of(ids));
  }
  Result<std::vector<std::string>> prefer(const std::string&, const std::vector<std::string>& available,
                                          const std::vector<std::string>&, std::size_t count) override {
    std::vector<std::string> sorted = available;
    std::sort(sorted.begin(), sorted.end());
    sorted.resize(std::min(count, sorted.size()));
    return sorted;
  }
  Result<void> pre_start(const std::string& pool, const std::vector<std::string>& ids) override {
    const std::lock_guard lock(mutex_);
    PODLANE_TRY(store_.validate(pool, ids));
    return {};
  }
  std::vector<dp::LaneReport> report() override { return {}; }
  dp::TableCounters counters() override { return {}; }

 private:
  std::mutex mutex_;
  dp::LaneStore store_;
  std::function<void(const std::string&)> callback_;
};

class KubeletOnload : public ::testing::Test {
 protected:
  KubeletOnload() : dir_("/tmp/" + random_name("pk")), tree_(dir_ + "/node"), reader_(tree_.roots()) {
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~KubeletOnload() override {
    link_.reset();
    kubelet_.stop();
    std::filesystem::remove_all(dir_);
  }
  void start(const char* pool_json) {
    const auto config = dp::parse_config(std::string(R"({"pools": [)") + pool_json + "]}");
    ASSERT_TRUE(config) << config.error().message();
    table_ = std::make_unique<OnloadTable>(*config, dir_ + "/journal");
    table_->look(reader_.read());
    ASSERT_TRUE(kubelet_.start());
    auto link = dp::KubeletLink::start({"accel"}, *table_, {.kubelet_dir = dir_}, log_);
    ASSERT_TRUE(link) << link.error().message();
    link_ = std::move(*link);
  }
  bool allocatable(std::size_t count) {
    return eventually(seconds(5), [&] {
      const auto status = kubelet_.status();
      return status.size() == 1 && status[0].connected && status[0].allocatable == count;
    });
  }

  std::string dir_;
  OnloadTree tree_;
  dp::OnloadReader reader_;
  Log log_{STDERR_FILENO, "test", LogLevel::kError};
  Log kubelet_log_{STDERR_FILENO, "test-kubelet", LogLevel::kError};
  testkubelet::DeviceManager kubelet_{dir_ + "/device-plugins", kubelet_log_};
  std::unique_ptr<OnloadTable> table_;
  std::unique_ptr<dp::KubeletLink> link_;
};

constexpr const char* kPool = R"({"name": "accel", "lane": "onload", "lanes": 2, "mode": "interrupt",
  "env": {"EF_NAME": "desk"}})";

TEST_F(KubeletOnload, ContainerGetsNodesLibrariesAndEnvironment) {
  if (!tree_.has_nodes()) GTEST_SKIP() << "may make no device nodes";
  start(kPool);
  ASSERT_TRUE(allocatable(1));  // Of two: the recorded NIC has one channel.
  const auto got = kubelet_.allocate("podlane.io/accel", 1);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->device_ids, std::vector<std::string>{"accel-0"});
  std::string nodes, mounts;
  for (const auto& node : got->answer.devices()) {
    EXPECT_EQ(node.container_path(), node.host_path());
    nodes += node.host_path() + ":" + node.permissions() + " ";
  }
  for (const auto& mount : got->answer.mounts()) {
    EXPECT_EQ(mount.container_path(), mount.host_path());
    mounts += mount.host_path() + (mount.read_only() ? ":ro " : ":rw ");
  }
  EXPECT_EQ(nodes, "/dev/onload:rw /dev/onload_epoll:rw /dev/sfc_char:rw ");
  EXPECT_EQ(mounts, "/usr/lib64/libonload.so:ro /usr/lib64/libonload_ext.so:ro ");
  onload::Environment expected =
      onload::environment(lane::Mode::kInterrupt, onload::Transport::kAfXdp, {{"EF_NAME", "desk"}});
  expected.emplace_back("EF_IRQ_CHANNEL", "0");
  expected.emplace_back("LD_PRELOAD", "/usr/lib64/libonload.so");
  EXPECT_EQ(static_cast<std::size_t>(got->answer.envs_size()), expected.size());
  for (const auto& [name, value] : expected) {
    const auto found = got->answer.envs().find(name);
    ASSERT_NE(found, got->answer.envs().end()) << name;
    EXPECT_EQ(found->second, value) << name;
  }
  EXPECT_EQ(got->answer.envs().at("EF_INT_DRIVEN"), "0");
  EXPECT_TRUE(kubelet_.pre_start(*got));
}

TEST_F(KubeletOnload, DevicesAreUnhealthyWhileTheNodeHasNoOnload) {
  if (!tree_.has_nodes()) GTEST_SKIP() << "may make no device nodes";
  tree_.remove("/sys/module/onload");
  start(kPool);
  const auto is_listed = [&] { return kubelet_.status().size() == 1 && kubelet_.status()[0].capacity == 2; };
  ASSERT_TRUE(eventually(seconds(5), is_listed));
  EXPECT_EQ(kubelet_.status()[0].allocatable, 0U);
  EXPECT_NE(table_->devices("accel")[0].why.find("module onload is not loaded"), std::string::npos);
  const auto refused = table_->allocate("accel", {"accel-0"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("unhealthy: the kernel module onload"), std::string::npos);
  tree_.write("/sys/module/onload/version", "ef17681d 2026-07-22 master\n");
  table_->look(reader_.read());
  EXPECT_TRUE(allocatable(1));
  const auto got = kubelet_.allocate("podlane.io/accel", 1);
  ASSERT_TRUE(got) << got.error().message();
  tree_.remove("/dev/onload");
  table_->look(reader_.read());
  EXPECT_TRUE(allocatable(0));
  const auto started = kubelet_.pre_start(*got);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message().find("/dev/onload"), std::string::npos) << started.error().message();
}

}  // namespace
}  // namespace podlane::test
