// ListStream: one open ListAndWatch call. Owned by the service's list and by gRPC until OnDone; any thread may send.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "deviceplugin/kubelet/device_plugin_service.hpp"

namespace podlane::dp {

class ListStream final : public grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse> {
 public:
  explicit ListStream(DevicePluginService& service) : service_(service) {}

  void send(const v1beta1::ListAndWatchResponse& list);  // A list not yet written is replaced: only the last counts.
  void end(const grpc::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void write_locked(const v1beta1::ListAndWatchResponse& list);

  DevicePluginService& service_;
  std::mutex mutex_;
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> end_;  // Wanted; taken when no write is under way.
  std::optional<v1beta1::ListAndWatchResponse> next_;
  v1beta1::ListAndWatchResponse message_;  // Belongs to gRPC while writing_.
};

}  // namespace podlane::dp
