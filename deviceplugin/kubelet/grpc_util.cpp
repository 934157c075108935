#include "deviceplugin/kubelet/grpc_util.hpp"

#include <sys/un.h>

namespace podlane::dp {

Result<std::string> unix_target(const std::string& path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kLongest) {
    return fail(Errc::kInvalid, "socket path '" + path + "' has " + std::to_string(path.size()) +
                                    " bytes; a unix socket takes at most " + std::to_string(kLongest) +
                                    ": use a shorter directory or pool name");
  }
  return "unix:" + path;
}

std::shared_ptr<grpc::Channel> unix_channel(const std::string& target, int max_message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(max_message_bytes);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

std::chrono::system_clock::time_point deadline_in(std::chrono::milliseconds duration) {
  return std::chrono::system_clock::now() + duration;
}

grpc::Status to_status(const Error& error) {
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  switch (error.code()) {
    case Errc::kInvalid: code = grpc::StatusCode::INVALID_ARGUMENT; break;
    case Errc::kNotFound: code = grpc::StatusCode::NOT_FOUND; break;
    case Errc::kExists: code = grpc::StatusCode::ALREADY_EXISTS; break;
    case Errc::kDenied: code = grpc::StatusCode::PERMISSION_DENIED; break;
    case Errc::kBusy: code = grpc::StatusCode::FAILED_PRECONDITION; break;
    case Errc::kUnavailable: code = grpc::StatusCode::UNAVAILABLE; break;
    case Errc::kUnsupported: code = grpc::StatusCode::UNIMPLEMENTED; break;
    case Errc::kGone: code = grpc::StatusCode::FAILED_PRECONDITION; break;
    case Errc::kProtocol: code = grpc::StatusCode::INVALID_ARGUMENT; break;
    case Errc::kIo: code = grpc::StatusCode::INTERNAL; break;
  }
  return grpc::Status(code, error.message());
}

Error from_status(const grpc::Status& status, std::string_view operation) {
  Errc code = Errc::kIo;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED: code = Errc::kUnavailable; break;
    case grpc::StatusCode::NOT_FOUND: code = Errc::kNotFound; break;
    case grpc::StatusCode::INVALID_ARGUMENT: code = Errc::kInvalid; break;
    case grpc::StatusCode::UNIMPLEMENTED: code = Errc::kUnsupported; break;
    case grpc::StatusCode::PERMISSION_DENIED: code = Errc::kDenied; break;
    default: break;
  }
  return Error(code, std::string(operation) + ": " + status.error_message() + " (gRPC status " +
                         std::to_string(static_cast<int>(status.error_code())) + ")");
}

}  // namespace podlane::dp
