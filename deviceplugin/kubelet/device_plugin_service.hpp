// DevicePluginService: the kubelet's DevicePlugin service for one pool. Answers from the lane table; keeps the
// ListAndWatch streams. gRPC's threads only take requests over; Workers do what waits for the table.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deviceplugin.grpc.pb.h"
#include "deviceplugin/kubelet/kubelet_counters.hpp"
#include "deviceplugin/kubelet/workers.hpp"
#include "deviceplugin/lanes/lane_table.hpp"
#include "lib/base/log.hpp"

namespace podlane::dp {

class ListStream;

// Shared, because work posted for a stream may still wait for a worker when the server has gone.
class DevicePluginService final : public v1beta1::DevicePlugin::CallbackService,
                                  public std::enable_shared_from_this<DevicePluginService> {
 public:
  // stream_ended: called on a gRPC thread each time a stream is over, whoever ended it.
  DevicePluginService(std::string pool, LaneTable& table, Workers& workers, PoolCounters& counters, Log& log,
                      std::function<void()> stream_ended);

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context, const v1beta1::Empty* request,
                                                   v1beta1::DevicePluginOptions* answer) override;
  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(grpc::CallbackServerContext* context,
                                                                        const v1beta1::Empty* request) override;
  grpc::ServerUnaryReactor* GetPreferredAllocation(grpc::CallbackServerContext* context,
                                                   const v1beta1::PreferredAllocationRequest* request,
                                                   v1beta1::PreferredAllocationResponse* answer) override;
  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context, const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* answer) override;
  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* answer) override;

  // Sends the whole list on every stream again. Waits for the table: workers' threads only.
  void send_devices();
  // Ends every stream, and each that comes later: the server is about to stop.
  void end_streams();
  std::size_t live_streams() const;

 private:
  friend class ListStream;
  void stream_done(const ListStream* stream);
  v1beta1::ListAndWatchResponse device_list();

  const std::string pool_;
  LaneTable& table_;
  Workers& workers_;
  PoolCounters& counters_;
  Log& log_;
  const std::function<void()> stream_ended_;
  mutable std::mutex mutex_;
  bool ending_ = false;
  std::vector<std::shared_ptr<ListStream>> streams_;
};

// The options that both Register and GetDevicePluginOptions tell.
v1beta1::DevicePluginOptions device_plugin_options();

}  // namespace podlane::dp
