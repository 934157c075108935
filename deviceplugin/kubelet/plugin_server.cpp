#include "deviceplugin/kubelet/plugin_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "deviceplugin/kubelet/grpc_util.hpp"

namespace podlane::dp {

namespace {

// The kubelet's requests are lists of ids; this is gRPC's own default, written down because it is our bound.
constexpr int kMaxRequestBytes = 4 << 20;
constexpr std::chrono::milliseconds kShutdownPatience{1000};

}  // namespace

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{.device = info.st_dev,
                      .inode = info.st_ino,
                      .changed_ns = info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec};
}

Result<std::unique_ptr<PluginServer>> PluginServer::start(const std::string& path,
                                                          std::shared_ptr<DevicePluginService> service) {
  PODLANE_TRY_ASSIGN(const std::string target, unix_target(path));
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return fail(Errc::kExists, "'" + path + "' is not a socket; it stands where podlane's socket belongs: remove it");
  }
  std::unique_ptr<PluginServer> self(new PluginServer(path, std::move(service)));
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort(target, grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(self->service_.get());
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr || bound == 0) {
    return fail(Errc::kIo, "cannot listen on '" + path + "'; is its directory there and writable?");
  }
  // Only the kubelet, which is root, has business here.
  if (::chmod(path.c_str(), 0600) != 0) return fail_errno("chmod", path);
  self->socket_ = file_identity(path);
  return self;
}

PluginServer::~PluginServer() {
  if (server_ == nullptr) return;
  service_->end_streams();
  server_->Shutdown(deadline_in(kShutdownPatience));
  server_->Wait();
}

bool PluginServer::socket_in_place() const {
  return socket_.has_value() && file_identity(path_) == socket_;
}

}  // namespace podlane::dp
