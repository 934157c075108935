// The kubelet's pod-resources service: which pod holds which devices. One entry per id, no uid, as kubelet 1.36
// answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "podresources.grpc.pb.h"

namespace podlane::testkubelet {

class PodResourcesServer {
 public:
  using Pods = std::function<std::vector<v1::PodResources>()>;
  // Serves <directory>/kubelet.sock; with_get false answers Get as kubelets before 1.34 do: unimplemented.
  static Result<std::unique_ptr<PodResourcesServer>> start(const std::string& directory, Pods pods, bool with_get);
  ~PodResourcesServer();

 private:
  class Service;
  PodResourcesServer();
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace podlane::testkubelet
