#include "tests/kubelet/pod_resources_server.hpp"

#include <grpcpp/grpcpp.h>

#include "lib/base/file.hpp"

namespace podlane::testkubelet {

class PodResourcesServer::Service final : public v1::PodResourcesLister::Service {
 public:
  Service(Pods pods, bool with_get) : pods_(std::move(pods)), with_get_(with_get) {}

  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* answer) override {
    for (const v1::PodResources& pod : pods_()) *answer->add_pod_resources() = pod;
    return grpc::Status::OK;
  }

  grpc::Status Get(grpc::ServerContext*, const v1::GetPodResourcesRequest* request,
                   v1::GetPodResourcesResponse* answer) override {
    if (!with_get_) return {grpc::StatusCode::UNIMPLEMENTED, "PodResources API Get method disabled"};
    for (const v1::PodResources& pod : pods_()) {
      if (pod.name() != request->pod_name() || pod.namespace_() != request->pod_namespace()) continue;
      *answer->mutable_pod_resources() = pod;
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::NOT_FOUND, "pod not found"};
  }

 private:
  const Pods pods_;
  const bool with_get_;
};

PodResourcesServer::PodResourcesServer() = default;

Result<std::unique_ptr<PodResourcesServer>> PodResourcesServer::start(const std::string& directory, Pods pods,
                                                                      bool with_get) {
  PODLANE_TRY(make_directories(directory));
  std::unique_ptr<PodResourcesServer> self(new PodResourcesServer);
  self->service_ = std::make_unique<Service>(std::move(pods), with_get);
  grpc::ServerBuilder builder;
  int bound = 0;
  builder.AddListeningPort("unix:" + directory + "/kubelet.sock", grpc::InsecureServerCredentials(), &bound);
  builder.RegisterService(self->service_.get());
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr || bound == 0) return fail(Errc::kIo, "cannot listen on " + directory + "/kubelet.sock");
  return self;
}

PodResourcesServer::~PodResourcesServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
}

}  // namespace podlane::testkubelet
