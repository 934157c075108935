// The calls of the container runtime interface that a pod's life needs, to a real containerd. Any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cri.grpc.pb.h"
#include "lib/base/result.hpp"

namespace podlane::testkubelet {

struct ContainerState {
  std::string state;  // "created", "running", "exited", "unknown"
  int exit_code = 0;
  std::string reason;
  int pid = 0;  // 0 when the runtime does not say.
};

struct SandboxState {
  bool ready = false;
  std::string ip, netns;
};

struct ExecResult {
  std::string out, err;
  int exit_code = 0;
};

class CriClient {
 public:
  explicit CriClient(const std::string& socket);

  Result<std::string> version();
  Result<std::string> run_sandbox(const runtime::v1::PodSandboxConfig& config);
  Result<void> stop_sandbox(const std::string& id);
  Result<void> remove_sandbox(const std::string& id);
  Result<SandboxState> sandbox(const std::string& id);
  Result<std::string> create_container(const std::string& sandbox, const runtime::v1::ContainerConfig& config,
                                       const runtime::v1::PodSandboxConfig& sandbox_config);
  Result<void> start_container(const std::string& id);
  Result<void> stop_container(const std::string& id, std::chrono::seconds grace);
  Result<void> remove_container(const std::string& id);
  Result<ContainerState> container(const std::string& id);
  Result<ExecResult> exec(const std::string& id, const std::vector<std::string>& command, std::chrono::seconds limit);

 private:
  std::unique_ptr<runtime::v1::RuntimeService::Stub> stub_;
};

}  // namespace podlane::testkubelet
