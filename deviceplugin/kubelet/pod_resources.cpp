#include "deviceplugin/kubelet/pod_resources.hpp"

#include "deviceplugin/kubelet/grpc_util.hpp"
#include "deviceplugin/kubelet/names.hpp"
#include "podresources.grpc.pb.h"

namespace podlane::dp {

namespace {

constexpr std::chrono::milliseconds kDeadline{2000};
constexpr int kMaxMessageBytes = 16 << 20;

void collect(const v1::PodResources& pod, std::vector<PodDevices>& out) {
  for (const auto& container : pod.containers()) {
    // The kubelet gives one entry per id (cases/README.md) or several ids in one: join them by pool.
    std::vector<PodDevices> by_pool;
    for (const auto& devices : container.devices()) {
      const std::string_view resource = devices.resource_name();
      if (!resource.starts_with(kResourcePrefix)) continue;
      const std::string_view pool = resource.substr(kResourcePrefix.size());
      PodDevices* entry = nullptr;
      for (PodDevices& known : by_pool) {
        if (known.pool == pool) entry = &known;
      }
      if (entry == nullptr) {
        by_pool.push_back({.name_space = pod.namespace_(),
                           .pod = pod.name(),
                           .container = container.name(),
                           .pool = std::string(pool),
                           .device_ids = {}});
        entry = &by_pool.back();
      }
      entry->device_ids.insert(entry->device_ids.end(), devices.device_ids().begin(), devices.device_ids().end());
    }
    // The kubelet lists containers without devices, too: an annotation may name one.
    if (by_pool.empty()) {
      out.push_back({.name_space = pod.namespace_(),
                     .pod = pod.name(),
                     .container = container.name(),
                     .pool = {},
                     .device_ids = {}});
    }
    for (PodDevices& entry : by_pool) out.push_back(std::move(entry));
  }
}

}  // namespace

PodResourcesQuery make_pod_resources_query(const std::string& kubelet_dir) {
  const std::string path = kubelet_dir + "/pod-resources/kubelet.sock";
  return [path]() -> Result<std::vector<PodDevices>> {
    PODLANE_TRY_ASSIGN(const std::string target, unix_target(path));
    const auto stub = v1::PodResourcesLister::NewStub(unix_channel(target, kMaxMessageBytes));
    grpc::ClientContext context;
    context.set_deadline(deadline_in(kDeadline));
    v1::ListPodResourcesResponse answer;
    if (const grpc::Status status = stub->List(&context, {}, &answer); !status.ok()) {
      return std::unexpected(from_status(status, "list pod resources at " + path));
    }
    std::vector<PodDevices> out;
    for (const auto& pod : answer.pod_resources()) collect(pod, out);
    return out;
  };
}

}  // namespace podlane::dp
