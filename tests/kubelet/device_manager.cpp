#include "tests/kubelet/device_manager.hpp"

#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "lib/base/file.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::testkubelet {

namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kDialPatience{10};      // As the kubelet's.
constexpr std::chrono::seconds kPreStartPatience{30};  // As the kubelet's.

std::shared_ptr<grpc::Channel> dial(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

void leave_dead_socket(const std::string& path) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  // Fails when the directory has gone too; there is nothing to leave then.
  [[maybe_unused]] const int ignored = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

Error status_error(const std::string& operation, const grpc::Status& status) {
  return Error(Errc::kUnavailable, operation + ": " + status.error_message() + " (gRPC status " +
                                       std::to_string(static_cast<int>(status.error_code())) + ")");
}

}  // namespace

// One registered plugin: its channel, its stream and the last list that came.
struct DeviceManager::Endpoint {
  std::string resource, name;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub;
  v1beta1::DevicePluginOptions options;
  mutable std::mutex mutex;
  std::map<std::string, std::string> devices;  // id -> health
  bool connected = true;
  grpc::ClientContext stream_context;
  std::thread reader;

  void stop() {
    stream_context.TryCancel();
    if (reader.joinable()) reader.join();
  }
};

class DeviceManager::Service final : public v1beta1::Registration::Service {
 public:
  explicit Service(DeviceManager& manager) : manager_(manager) {}
  grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* request, v1beta1::Empty*) override {
    return manager_.register_plugin(*request);
  }

 private:
  DeviceManager& manager_;
};

DeviceManager::DeviceManager(std::string directory, Log& log) : directory_(std::move(directory)), log_(log) {}

DeviceManager::~DeviceManager() {
  stop();
}

Result<void> DeviceManager::start() {
  PODLANE_TRY(make_directories(directory_));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    if (entry.is_socket(error)) fs::remove(entry.path(), error);
  }
  service_ = std::make_unique<Service>(*this);
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort("unix:" + directory_ + "/kubelet.sock", grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || bound == 0) return fail(Errc::kIo, "cannot listen on " + directory_ + "/kubelet.sock");
  return {};
}

void DeviceManager::stop() {
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
    server_.reset();
    // gRPC has removed its socket file; a kubelet that ends leaves it, with nobody behind it.
    leave_dead_socket(directory_ + "/kubelet.sock");
  }
  std::map<std::string, std::shared_ptr<Endpoint>> endpoints;
  {
    const std::lock_guard lock(mutex_);
    endpoints.swap(endpoints_);
  }
  for (const auto& [resource, endpoint] : endpoints) endpoint->stop();
}

grpc::Status DeviceManager::register_plugin(const v1beta1::RegisterRequest& request) {
  if (request.version() != "v1beta1") {
    return {grpc::StatusCode::INVALID_ARGUMENT, "version '" + request.version() + "' is not v1beta1"};
  }
  if (request.resource_name().find('/') == std::string::npos || request.endpoint().find('/') != std::string::npos) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "resource_name must be domain/name, endpoint a file name"};
  }
  auto endpoint = std::make_shared<Endpoint>();
  endpoint->resource = request.resource_name();
  endpoint->name = request.endpoint();
  endpoint->stub = v1beta1::DevicePlugin::NewStub(dial(directory_ + "/" + request.endpoint()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDialPatience);
  context.set_wait_for_ready(true);
  const grpc::Status status = endpoint->stub->GetDevicePluginOptions(&context, {}, &endpoint->options);
  if (!status.ok()) return {grpc::StatusCode::UNKNOWN, "cannot dial back: " + status.error_message()};

  endpoint->reader = std::thread([this, raw = endpoint.get()] {
    const auto stream = raw->stub->ListAndWatch(&raw->stream_context, {});
    v1beta1::ListAndWatchResponse list;
    while (stream->Read(&list)) {
      const std::scoped_lock lock(mutex_, raw->mutex);
      ++lists_[raw->resource];
      raw->devices.clear();
      for (const auto& device : list.devices()) raw->devices[device.id()] = device.health();
    }
    const grpc::Status end = stream->Finish();
    log_.info("stream ended", {{"resource", raw->resource}, {"status", end.error_message()}});
    const std::lock_guard lock(raw->mutex);
    raw->connected = false;
    for (auto& [id, health] : raw->devices) health = "Unhealthy";  // Capacity stays, nothing is allocatable.
  });
  std::shared_ptr<Endpoint> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(endpoints_[request.resource_name()], endpoint);
    ++registrations_[request.resource_name()];
  }
  if (old != nullptr) old->stop();
  log_.info("registered", {{"resource", request.resource_name()}, {"endpoint", request.endpoint()}});
  return grpc::Status::OK;
}

std::shared_ptr<DeviceManager::Endpoint> DeviceManager::endpoint(const std::string& resource) const {
  const std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(resource);
  return found == endpoints_.end() ? nullptr : found->second;
}

Result<std::vector<std::string>> DeviceManager::choose(Endpoint& endpoint, int count) {
  std::vector<std::string> available;
  {
    const std::scoped_lock lock(mutex_, endpoint.mutex);
    const std::vector<std::string>& taken = allocated_[endpoint.resource];
    for (const auto& [id, health] : endpoint.devices) {
      if (health == "Healthy" && std::find(taken.begin(), taken.end(), id) == taken.end()) available.push_back(id);
    }
  }
  if (available.size() < static_cast<std::size_t>(count)) {
    return fail(Errc::kUnavailable, "requested number of devices unavailable for " + endpoint.resource +
                                        ". Requested: " + std::to_string(count) +
                                        ", Available: " + std::to_string(available.size()));
  }
  std::shuffle(available.begin(), available.end(), std::mt19937(std::random_device{}()));
  if (endpoint.options.get_preferred_allocation_available()) {
    v1beta1::PreferredAllocationRequest request;
    auto& one = *request.add_container_requests();
    for (const std::string& id : available) one.add_available_deviceids(id);
    one.set_allocation_size(count);
    grpc::ClientContext context;
    v1beta1::PreferredAllocationResponse answer;
    const grpc::Status status = endpoint.stub->GetPreferredAllocation(&context, request, &answer);
    if (!status.ok()) return std::unexpected(status_error("GetPreferredAllocation", status));
    if (answer.container_responses_size() == 1) {
      const auto& ids = answer.container_responses(0).deviceids();
      std::vector<std::string> preferred;
      for (const std::string& id : ids) {
        if (std::find(available.begin(), available.end(), id) != available.end()) preferred.push_back(id);
      }
      if (preferred.size() == static_cast<std::size_t>(count)) return preferred;
    }
  }
  available.resize(static_cast<std::size_t>(count));
  return available;
}

Result<Allocation> DeviceManager::allocate(const std::string& resource, int count) {
  const std::lock_guard one_at_a_time(allocate_mutex_);
  const auto plugin = endpoint(resource);
  if (plugin == nullptr) return fail(Errc::kUnavailable, "no plugin has registered " + resource);
  Allocation out{.resource = resource, .device_ids = {}, .answer = {}};
  PODLANE_TRY_ASSIGN(out.device_ids, choose(*plugin, count));
  v1beta1::AllocateRequest request;
  auto& one = *request.add_container_requests();
  for (const std::string& id : out.device_ids) one.add_devices_ids(id);
  grpc::ClientContext context;
  v1beta1::AllocateResponse answer;
  const grpc::Status status = plugin->stub->Allocate(&context, request, &answer);
  if (!status.ok()) return std::unexpected(status_error("Allocate " + resource, status));
  if (answer.container_responses_size() != 1) return fail(Errc::kProtocol, "Allocate answered for no container");
  out.answer = answer.container_responses(0);
  const std::lock_guard lock(mutex_);
  auto& taken = allocated_[resource];
  taken.insert(taken.end(), out.device_ids.begin(), out.device_ids.end());
  return out;
}

void DeviceManager::release(const Allocation& allocation) {
  const std::lock_guard lock(mutex_);
  auto& taken = allocated_[allocation.resource];
  for (const std::string& id : allocation.device_ids) std::erase(taken, id);
}

Result<void> DeviceManager::pre_start(const Allocation& allocation) {
  const auto plugin = endpoint(allocation.resource);
  if (plugin == nullptr) return fail(Errc::kUnavailable, "endpoint not found in cache for " + allocation.resource);
  if (!plugin->options.pre_start_required()) return {};
  {
    const std::lock_guard lock(plugin->mutex);
    if (!plugin->connected) return fail(Errc::kUnavailable, "endpoint " + plugin->name + " has been stopped");
  }
  v1beta1::PreStartContainerRequest request;
  for (const std::string& id : allocation.device_ids) request.add_devices_ids(id);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPreStartPatience);
  v1beta1::PreStartContainerResponse answer;
  const grpc::Status status = plugin->stub->PreStartContainer(&context, request, &answer);
  if (!status.ok()) return std::unexpected(status_error("PreStartContainer " + allocation.resource, status));
  return {};
}

std::vector<ResourceStatus> DeviceManager::status() const {
  std::vector<ResourceStatus> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [resource, registrations] : registrations_) {
    ResourceStatus one{.resource = resource, .endpoint = {}, .registrations = registrations, .devices = {}};
    const auto lists = lists_.find(resource);
    one.lists = lists == lists_.end() ? 0 : lists->second;
    const auto taken = allocated_.find(resource);
    one.allocated = taken == allocated_.end() ? 0 : taken->second.size();
    if (const auto found = endpoints_.find(resource); found != endpoints_.end()) {
      const std::lock_guard endpoint_lock(found->second->mutex);
      one.endpoint = found->second->name;
      one.connected = found->second->connected;
      one.capacity = found->second->devices.size();
      for (const auto& device : found->second->devices) {
        one.devices.push_back(device);
        if (device.second == "Healthy") ++one.allocatable;
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace podlane::testkubelet
