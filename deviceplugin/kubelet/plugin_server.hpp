// PluginServer: one pool's gRPC server on its own socket file in the kubelet's directory. Owned and used by
// KubeletLink's thread; live_streams() and service() from any thread.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "deviceplugin/kubelet/device_plugin_service.hpp"
#include "lib/base/result.hpp"

namespace podlane::dp {

// Which file a path names now; a file made anew differs, also where the inode number is used again.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
std::optional<FileIdentity> file_identity(const std::string& path);  // Empty when there is none.

class PluginServer {
 public:
  // Serves `service` at `path`; a socket file left there by an earlier life is replaced.
  static Result<std::unique_ptr<PluginServer>> start(const std::string& path,
                                                     std::shared_ptr<DevicePluginService> service);
  ~PluginServer();  // Ends streams and calls; gRPC removes the socket file.
  PluginServer(const PluginServer&) = delete;
  PluginServer& operator=(const PluginServer&) = delete;

  // Is the socket file still the one that this server listens on?
  bool socket_in_place() const;
  DevicePluginService& service() const { return *service_; }

 private:
  PluginServer(std::string path, std::shared_ptr<DevicePluginService> service)
      : path_(std::move(path)), service_(std::move(service)) {}

  const std::string path_;
  const std::shared_ptr<DevicePluginService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<FileIdentity> socket_;
};

}  // namespace podlane::dp
