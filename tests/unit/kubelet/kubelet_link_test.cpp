// The device plugin's gRPC side against the test kubelet, over real sockets in a scratch directory.
#include "deviceplugin/kubelet/kubelet_link.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "deviceplugin/kubelet/grpc_util.hpp"
#include "deviceplugin/kubelet/pod_resources.hpp"
#include "tests/kubelet/device_manager.hpp"
#include "tests/kubelet/pod_manager.hpp"
#include "tests/kubelet/pod_resources_server.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/unit/kubelet/memory_table.hpp"

namespace podlane::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testkubelet::DeviceManager;
using testkubelet::ResourceStatus;

class KubeletLinkTest : public ::testing::Test {
 protected:
  KubeletLinkTest() : dir_("/tmp/" + random_name("pk")) {
    ::signal(SIGPIPE, SIG_IGN);
    fs::create_directories(dir_);
  }
  ~KubeletLinkTest() override {
    link_.reset();
    kubelet_.stop();
    fs::remove_all(dir_);
  }

  std::string plugins() const { return dir_ + "/device-plugins"; }
  std::string socket(const std::string& pool) const { return plugins() + "/podlane-" + pool + ".sock"; }

  void start_link(const std::vector<std::string>& pools = {"feed"}) {
    auto link = dp::KubeletLink::start(pools, table_, {.kubelet_dir = dir_}, log_);
    ASSERT_TRUE(link) << link.error().message();
    link_ = std::move(*link);
  }
  void start_kubelet() {
    const auto started = kubelet_.start();
    ASSERT_TRUE(started) << started.error().message();
  }

  ResourceStatus resource(const std::string& pool = "feed") {
    for (ResourceStatus& one : kubelet_.status()) {
      if (one.resource == "podlane.io/" + pool) return one;
    }
    return {};
  }
  static constexpr seconds kPatience{2};
  bool allocatable(std::size_t count, const std::string& pool = "feed", seconds patience = kPatience) {
    return eventually(patience, [&] { return resource(pool).allocatable == count && resource(pool).connected; });
  }
  bool registered(const std::string& pool = "feed") const {
    for (const dp::PoolStatus& status : link_->status()) {
      if (status.pool == pool) return status.registered;
    }
    return false;
  }

  std::string dir_;
  Log log_{STDERR_FILENO, "test", LogLevel::kWarn};
  Log kubelet_log_{STDERR_FILENO, "test-kubelet", LogLevel::kWarn};
  MemoryTable table_{{{"feed", 3}, {"orders", 2}}};
  DeviceManager kubelet_{dir_ + "/device-plugins", kubelet_log_};
  std::unique_ptr<dp::KubeletLink> link_;
};

TEST_F(KubeletLinkTest, RegistersAndTellsItsDevices) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  EXPECT_TRUE(eventually(seconds(1), [&] { return registered(); }));
  EXPECT_EQ(resource().endpoint, "podlane-feed.sock");
  struct stat info {};
  ASSERT_EQ(::lstat(socket("feed").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(KubeletLinkTest, WaitsForAKubeletThatIsAwayAtStart) {
  start_link();
  EXPECT_FALSE(registered());
  start_kubelet();  // Also makes the directory.
  EXPECT_TRUE(allocatable(3));
}

TEST_F(KubeletLinkTest, RegistersAgainWithin2sAfterAKubeletRestart) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  for (const int away_ms : {0, 50, 700}) {
    SCOPED_TRACE(away_ms);
    kubelet_.stop();
    // One that is going down may take a Register that it never answers; that is not one of its next life.
    const auto before = resource().registrations;
    pass_time(milliseconds(away_ms));
    start_kubelet();
    EXPECT_TRUE(allocatable(3));
    EXPECT_TRUE(eventually(kPatience, [&] { return registered(); }));
    EXPECT_EQ(resource().registrations, before + 1);  // A second Register would make a good stream end.
  }
}

TEST_F(KubeletLinkTest, ServesAfreshWhenItsSocketIsDeleted) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  ASSERT_TRUE(fs::remove(socket("feed")));
  EXPECT_TRUE(eventually(seconds(2), [&] { return fs::exists(socket("feed")) && resource().registrations == 2; }));
  EXPECT_TRUE(allocatable(3));
}

TEST_F(KubeletLinkTest, SurvivesARemovedAndRemadeDirectory) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  kubelet_.stop();
  fs::remove_all(plugins());
  EXPECT_TRUE(eventually(seconds(2), [&] { return !registered(); }));
  start_kubelet();
  EXPECT_TRUE(allocatable(3));
}

TEST_F(KubeletLinkTest, RegistersTwoPoolsEachOnASocketOfItsOwn) {
  start_kubelet();
  start_link({"feed", "orders"});
  EXPECT_TRUE(allocatable(3, "feed"));
  EXPECT_TRUE(allocatable(2, "orders"));
  kubelet_.stop();
  start_kubelet();
  EXPECT_TRUE(allocatable(3, "feed"));
  EXPECT_TRUE(allocatable(2, "orders"));
}

TEST_F(KubeletLinkTest, SendsTheWholeListWhenHealthChanges) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  table_.set_health("feed", 1, false);
  EXPECT_TRUE(allocatable(2));
  EXPECT_EQ(resource().capacity, 3u);
  table_.set_health("feed", 1, true);
  EXPECT_TRUE(allocatable(3));
  EXPECT_EQ(resource().registrations, 1u);
}

TEST_F(KubeletLinkTest, AllocatesThePreferredDevices) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  const auto first = kubelet_.allocate("podlane.io/feed", 2);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->device_ids, (std::vector<std::string>{"feed-0", "feed-1"}));  // The kubelet offers in random order.
  EXPECT_EQ(first->answer.envs().at("PODLANE_LANES_feed"), "/run/podlane/lanes/feed");
  ASSERT_EQ(first->answer.mounts_size(), 1);
  EXPECT_EQ(first->answer.mounts(0).container_path(), "/run/podlane/lanes/feed");
  EXPECT_TRUE(kubelet_.pre_start(*first));
  const auto second = kubelet_.allocate("podlane.io/feed", 2);
  EXPECT_FALSE(second);
  kubelet_.release(*first);
  EXPECT_TRUE(kubelet_.allocate("podlane.io/feed", 3));
}

TEST_F(KubeletLinkTest, RefusesInWordsWhatTheTableRefuses) {
  start_kubelet();
  start_link();
  ASSERT_TRUE(allocatable(3));
  const auto target = dp::unix_target(socket("feed"));
  ASSERT_TRUE(target);
  const auto stub = v1beta1::DevicePlugin::NewStub(dp::unix_channel(*target, 1 << 20));
  struct Case {
    const char* name;
    std::vector<std::vector<std::string>> containers;
    const char* message;  // Empty: accepted.
  };
  const Case cases[] = {{"one", {{"feed-0"}}, ""},
                        {"two containers", {{"feed-0"}, {"feed-1", "feed-2"}}, ""},
                        {"unknown id", {{"feed-9"}}, "feed-9"},
                        {"of another pool", {{"orders-0"}}, "orders-0"},
                        {"twice", {{"feed-1", "feed-1"}}, "named twice"},
                        {"second container wrong", {{"feed-0"}, {"nope"}}, "nope"},
                        {"no id", {{}}, "no device id"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    v1beta1::AllocateRequest request;
    for (const auto& container : one.containers) {
      auto& out = *request.add_container_requests();
      for (const std::string& id : container) out.add_devices_ids(id);
    }
    grpc::ClientContext context;
    v1beta1::AllocateResponse answer;
    const grpc::Status status = stub->Allocate(&context, request, &answer);
    EXPECT_EQ(status.ok(), std::string(one.message).empty()) << status.error_message();
    EXPECT_NE(status.error_message().find(one.message), std::string::npos) << status.error_message();
    if (status.ok()) {
      EXPECT_EQ(answer.container_responses_size(), static_cast<int>(one.containers.size()));
    }
  }
  table_.refuse_pre_start = "lane feed-0 is held by a live owner";
  grpc::ClientContext context;
  v1beta1::PreStartContainerRequest request;
  request.add_devices_ids("feed-0");
  v1beta1::PreStartContainerResponse answer;
  const grpc::Status status = stub->PreStartContainer(&context, request, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), table_.refuse_pre_start);
  for (const dp::PoolStatus& pool : link_->status()) {
    EXPECT_EQ(pool.allocations_total, 4u);  // 1 + 2, and the first of "second container wrong".
    EXPECT_EQ(pool.allocation_errors_total, 5u);
    EXPECT_EQ(pool.pre_start_errors_total, 1u);
  }
}

TEST_F(KubeletLinkTest, RegistersAgainWhenOnlyTheStreamBreaks) {
  // A kubelet that takes the registration and whose stream is cancelled, while its socket stays where it is.
  class OneStream final : public v1beta1::Registration::Service {
   public:
    explicit OneStream(std::string directory) : directory_(std::move(directory)) {}
    grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* request, v1beta1::Empty*) override {
      ++registrations;
      auto stub =
          v1beta1::DevicePlugin::NewStub(dp::unix_channel("unix:" + directory_ + "/" + request->endpoint(), 1 << 20));
      grpc::ClientContext context;
      const auto stream = stub->ListAndWatch(&context, {});
      v1beta1::ListAndWatchResponse list;
      if (stream->Read(&list)) ++lists;
      context.TryCancel();
      stream->Finish();
      return grpc::Status::OK;
    }
    std::atomic<int> registrations{0}, lists{0};

   private:
    std::string directory_;
  } service(plugins());
  fs::create_directories(plugins());
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + plugins() + "/kubelet.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  start_link();
  EXPECT_TRUE(eventually(seconds(3), [&] { return service.registrations >= 2; }));
  EXPECT_GE(service.lists, 1);
  server->Shutdown(std::chrono::system_clock::now() + seconds(1));
}

TEST_F(KubeletLinkTest, StopsCleanlyAndRemovesItsSockets) {
  start_kubelet();
  start_link({"feed", "orders"});
  ASSERT_TRUE(allocatable(3));
  const auto before = std::chrono::steady_clock::now();
  link_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, patient(seconds(3)));
  EXPECT_FALSE(fs::exists(socket("feed")));
  EXPECT_TRUE(eventually(seconds(1), [&] { return !resource().connected; }));
  EXPECT_EQ(resource().capacity, 3u);  // Unhealthy, not forgotten.
  EXPECT_EQ(resource().allocatable, 0u);
}

TEST_F(KubeletLinkTest, StopsCleanlyWhileTheKubeletIsAway) {
  start_link();
  link_.reset();
  fs::create_directories(plugins());
  start_link();
  link_.reset();
  EXPECT_FALSE(fs::exists(socket("feed")));
}

TEST_F(KubeletLinkTest, RunsWithoutPools) {
  start_kubelet();
  start_link({});
  EXPECT_TRUE(link_->status().empty());
}

TEST_F(KubeletLinkTest, LeavesAFileThatIsNoSocketAlone) {
  start_kubelet();
  fs::create_directories(plugins());
  {
    const fs::path file = socket("feed");
    std::FILE* f = std::fopen(file.c_str(), "w");
    ASSERT_NE(f, nullptr);
    std::fclose(f);
  }
  start_link();
  EXPECT_FALSE(allocatable(3, "feed", seconds(1)));
  EXPECT_TRUE(fs::is_regular_file(socket("feed")));
  fs::remove(socket("feed"));
  EXPECT_TRUE(allocatable(3, "feed", seconds(3)));
}

TEST_F(KubeletLinkTest, PodResourcesGivesPodsWithTheirDevices) {
  start_kubelet();
  start_link({"feed", "orders"});
  ASSERT_TRUE(allocatable(3));
  ASSERT_TRUE(allocatable(2, "orders"));
  testkubelet::PodManager pods(kubelet_, nullptr, dir_, "", kubelet_log_);
  const auto server = testkubelet::PodResourcesServer::start(
      dir_ + "/pod-resources", [&] { return pods.resources(); }, false);
  ASSERT_TRUE(server) << server.error().message();
  const dp::PodResourcesQuery query = dp::make_pod_resources_query(dir_);
  auto devices = query();
  ASSERT_TRUE(devices) << devices.error().message();
  EXPECT_TRUE(devices->empty());
  const auto pod = json::parse(R"({"metadata":{"name":"md-0","namespace":"desk"},"spec":{"containers":[
      {"name":"engine","resources":{"limits":{"podlane.io/feed":2,"podlane.io/orders":"1","memory":"64Mi","cpu":"500m"}}},
      {"name":"logger"}]}})");
  ASSERT_TRUE(pod);
  const auto admitted = pods.admit(*pod);
  ASSERT_TRUE(admitted) << admitted.error().message();
  devices = query();
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[2].container, "logger");
  EXPECT_TRUE((*devices)[2].device_ids.empty());
  EXPECT_EQ((*devices)[0].pod, "md-0");
  EXPECT_EQ((*devices)[0].name_space, "desk");
  EXPECT_EQ((*devices)[0].container, "engine");
  EXPECT_EQ((*devices)[0].pool, "feed");
  EXPECT_EQ((*devices)[0].device_ids, (std::vector<std::string>{"feed-0", "feed-1"}));
  EXPECT_EQ((*devices)[1].pool, "orders");
  EXPECT_TRUE(pods.pre_start("desk/md-0", "engine"));
  EXPECT_FALSE(pods.admit(*pod));  // The name is taken.
  EXPECT_TRUE(pods.remove("desk/md-0", seconds(0)));
  EXPECT_EQ(resource().allocated, 0u);
}

TEST_F(KubeletLinkTest, PodResourcesFailsInWordsWithoutAKubelet) {
  const auto devices = dp::make_pod_resources_query(dir_)();
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code(), Errc::kUnavailable);
  EXPECT_NE(devices.error().message().find(dir_ + "/pod-resources/kubelet.sock"), std::string::npos);
  EXPECT_FALSE(dp::make_pod_resources_query("/" + std::string(120, 'x'))());
}

}  // namespace
}  // namespace podlane::test
