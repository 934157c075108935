#include "deviceplugin/kubelet/device_plugin_service.hpp"

#include <algorithm>

#include "deviceplugin/kubelet/grpc_util.hpp"
#include "deviceplugin/kubelet/list_stream.hpp"
#include "deviceplugin/kubelet/names.hpp"

namespace podlane::dp {

namespace {

std::vector<std::string> ids(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(out.empty() ? "" : ",").append(name);
  return out;
}

void fill(const AllocateAnswer& lanes, v1beta1::ContainerAllocateResponse& out) {
  for (const auto& [key, value] : lanes.environment) (*out.mutable_envs())[key] = value;
  for (const std::string& path : lanes.device_nodes) {
    v1beta1::DeviceSpec& node = *out.add_devices();
    node.set_container_path(path);
    node.set_host_path(path);
    node.set_permissions("rw");
  }
  for (const std::string& path : lanes.files) {
    v1beta1::Mount& file = *out.add_mounts();
    file.set_container_path(path);
    file.set_host_path(path);
    file.set_read_only(true);
  }
  if (lanes.host_path.empty()) return;
  // Read-only is enough: connecting to a socket needs write permission on its inode, not a writable mount (Linux,
  // fs/namei.c sb_permission: EROFS is for files, directories and links only).
  v1beta1::Mount& mount = *out.add_mounts();
  mount.set_container_path(lanes.container_path);
  mount.set_host_path(lanes.host_path);
  mount.set_read_only(true);
}

}  // namespace

v1beta1::DevicePluginOptions device_plugin_options() {
  v1beta1::DevicePluginOptions options;
  options.set_pre_start_required(true);
  options.set_get_preferred_allocation_available(true);
  return options;
}

DevicePluginService::DevicePluginService(std::string pool, LaneTable& table, Workers& workers, PoolCounters& counters,
                                         Log& log, std::function<void()> stream_ended)
    : pool_(std::move(pool)),
      table_(table),
      workers_(workers),
      counters_(counters),
      log_(log),
      stream_ended_(std::move(stream_ended)) {}

grpc::ServerUnaryReactor* DevicePluginService::GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                                      const v1beta1::Empty*,
                                                                      v1beta1::DevicePluginOptions* answer) {
  *answer = device_plugin_options();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* DevicePluginService::ListAndWatch(grpc::CallbackServerContext*,
                                                                                           const v1beta1::Empty*) {
  auto stream = std::make_shared<ListStream>(*this);
  bool ending = false;
  {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
    ending = ending_;
  }
  counters_.streams_total.fetch_add(1, std::memory_order_relaxed);
  if (ending) {
    stream->end(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the device plugin is stopping"));
  } else {
    workers_.post([self = shared_from_this(), stream] { stream->send(self->device_list()); });
  }
  return stream.get();
}

grpc::ServerUnaryReactor* DevicePluginService::GetPreferredAllocation(
    grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  workers_.post([this, reactor, request, answer] {
    for (const auto& one : request->container_requests()) {
      if (one.allocation_size() < 0) {
        reactor->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "allocation_size is negative"));
        return;
      }
      const auto chosen = table_.prefer(pool_, ids(one.available_deviceids()), ids(one.must_include_deviceids()),
                                        static_cast<std::size_t>(one.allocation_size()));
      if (!chosen) {
        log_.warn("preferred allocation refused", {{"pool", pool_}, {"error", chosen.error().message()}});
        reactor->Finish(to_status(chosen.error()));
        return;
      }
      auto& out = *answer->add_container_responses();
      for (const std::string& id : *chosen) out.add_deviceids(id);
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* DevicePluginService::Allocate(grpc::CallbackServerContext* context,
                                                        const v1beta1::AllocateRequest* request,
                                                        v1beta1::AllocateResponse* answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  workers_.post([this, reactor, request, answer] {
    for (const auto& one : request->container_requests()) {
      const std::vector<std::string> wanted = ids(one.devices_ids());
      const auto lanes = table_.allocate(pool_, wanted);
      if (!lanes) {
        counters_.allocation_errors_total.fetch_add(1, std::memory_order_relaxed);
        log_.warn("allocation refused",
                  {{"pool", pool_}, {"devices", joined(wanted)}, {"error", lanes.error().message()}});
        // A half-filled answer does not travel: gRPC sends none beside an error.
        reactor->Finish(to_status(lanes.error()));
        return;
      }
      counters_.allocations_total.fetch_add(1, std::memory_order_relaxed);
      log_.info("allocated", {{"pool", pool_},
                              {"devices", joined(wanted)},
                              {lanes->note.empty() ? "directory" : "onload", lanes->note + lanes->host_path}});
      fill(*lanes, *answer->add_container_responses());
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* DevicePluginService::PreStartContainer(grpc::CallbackServerContext* context,
                                                                 const v1beta1::PreStartContainerRequest* request,
                                                                 v1beta1::PreStartContainerResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  workers_.post([this, reactor, request] {
    const std::vector<std::string> wanted = ids(request->devices_ids());
    const auto armed = table_.pre_start(pool_, wanted);
    counters_.pre_starts_total.fetch_add(1, std::memory_order_relaxed);
    if (!armed) {
      counters_.pre_start_errors_total.fetch_add(1, std::memory_order_relaxed);
      log_.warn("container start refused",
                {{"pool", pool_}, {"devices", joined(wanted)}, {"error", armed.error().message()}});
      reactor->Finish(to_status(armed.error()));
      return;
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

v1beta1::ListAndWatchResponse DevicePluginService::device_list() {
  v1beta1::ListAndWatchResponse list;
  for (const DeviceState& device : table_.devices(pool_)) {
    v1beta1::Device& out = *list.add_devices();
    out.set_id(device.id);
    out.set_health(device.healthy ? kHealthy : kUnhealthy);
  }
  return list;
}

void DevicePluginService::send_devices() {
  const v1beta1::ListAndWatchResponse list = device_list();
  std::vector<std::shared_ptr<ListStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  for (const auto& stream : streams) stream->send(list);
}

void DevicePluginService::end_streams() {
  std::vector<std::shared_ptr<ListStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    streams = streams_;
  }
  for (const auto& stream : streams) {
    stream->end(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the device plugin is stopping"));
  }
}

std::size_t DevicePluginService::live_streams() const {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

void DevicePluginService::stream_done(const ListStream* stream) {
  std::shared_ptr<ListStream> keep;  // Destroyed after the lock is released.
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& s) { return s.get() == stream; });
    if (found != streams_.end()) {
      keep = std::move(*found);
      streams_.erase(found);
    }
  }
  stream_ended_();
}

}  // namespace podlane::dp
