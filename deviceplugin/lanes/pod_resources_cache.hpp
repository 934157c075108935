// PodResourcesCache: one query of the kubelet answers all that wait. A hundred ADDs at once would otherwise pass the
// kubelet's limit of 100 queries a second with bursts of 10 (pod-resources, pkg/kubelet/apis/podresources). Any thread
// that may block.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::dp {

using PodListing = std::shared_ptr<const std::vector<PodDevices>>;

class PodResourcesCache {
 public:
  explicit PodResourcesCache(PodResourcesQuery query) : query_(std::move(query)) {}

  // A listing whose query began after this call: an older one may show a pod that has been replaced since.
  Result<PodListing> fresh();

 private:
  PodResourcesQuery query_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  std::uint64_t begun_ = 0;  // Queries begun so far; `answer_` is that of query number `answered_`.
  std::uint64_t answered_ = 0;
  Result<PodListing> answer_ = PodListing();
};

}  // namespace podlane::dp
