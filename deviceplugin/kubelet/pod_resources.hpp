// Client of the kubelet's pod-resources service: which pod holds which devices. It knows no pod uid.
#pragma once

#include <string>

#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::dp {

// Asks <kubelet_dir>/pod-resources/kubelet.sock by List (Get is not there before Kubernetes 1.34, and one List tells of
// all pods). 2 s deadline, 16 MiB of answer: a big node passes gRPC's 4 MiB. The query may be called from any thread.
PodResourcesQuery make_pod_resources_query(const std::string& kubelet_dir);

}  // namespace podlane::dp
