// What all gRPC users of the device plugin share: unix addresses, channels as a kubelet accepts them, and the one table
// from Error to gRPC status. Any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "lib/base/result.hpp"

namespace podlane::dp {

// "unix:<path>". kInvalid when the path is longer than a unix address takes (107 bytes, unix(7)).
Result<std::string> unix_target(const std::string& path);

// Lazy: connects at the first call. A channel of its own each time, so that a failed attempt leaves no back-off behind.
// The authority is "localhost": Go's server rejects the escaped socket path that gRPC would send otherwise.
std::shared_ptr<grpc::Channel> unix_channel(const std::string& target, int max_message_bytes);

std::chrono::system_clock::time_point deadline_in(std::chrono::milliseconds duration);

grpc::Status to_status(const Error& error);
Error from_status(const grpc::Status& status, std::string_view operation);

}  // namespace podlane::dp
