#include "deviceplugin/kubelet/registration.hpp"

#include "deviceplugin.grpc.pb.h"
#include "deviceplugin/kubelet/device_plugin_service.hpp"
#include "deviceplugin/kubelet/grpc_util.hpp"
#include "deviceplugin/kubelet/names.hpp"

namespace podlane::dp {

namespace {
constexpr int kMaxAnswerBytes = 64 << 10;  // The answer is empty.
}  // namespace

Result<void> Registration::call(const std::string& kubelet_socket, const std::string& pool,
                                std::chrono::milliseconds patience) {
  PODLANE_TRY_ASSIGN(const std::string target, unix_target(kubelet_socket));
  const auto stub = v1beta1::Registration::NewStub(unix_channel(target, kMaxAnswerBytes));
  grpc::ClientContext context;
  context.set_deadline(deadline_in(patience));
  v1beta1::RegisterRequest request;
  request.set_version(kApiVersion);
  request.set_endpoint(socket_name(pool));
  request.set_resource_name(std::string(kResourcePrefix) + pool);
  *request.mutable_options() = device_plugin_options();
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return fail(Errc::kUnavailable, "the device plugin is stopping");
    running_ = &context;
  }
  v1beta1::Empty answer;
  const grpc::Status status = stub->Register(&context, request, &answer);
  {
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
  }
  if (!status.ok()) return std::unexpected(from_status(status, "register " + request.resource_name()));
  return {};
}

void Registration::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (running_ != nullptr) running_->TryCancel();
}

}  // namespace podlane::dp
