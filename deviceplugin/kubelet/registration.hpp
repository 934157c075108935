// One Register call to the kubelet; can be cancelled by another thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <string>

#include "lib/base/result.hpp"

namespace podlane::dp {

class Registration {
 public:
  // Blocks up to 10 s: a kubelet may dial us back before it answers.
  Result<void> call(const std::string& kubelet_socket, const std::string& pool, std::chrono::milliseconds patience);
  void cancel();  // Any thread: the running call and each later one fail at once.

 private:
  std::mutex mutex_;
  bool cancelled_ = false;
  grpc::ClientContext* running_ = nullptr;
};

}  // namespace podlane::dp
