#include "deviceplugin/lanes/pod_resources_cache.hpp"

namespace podlane::dp {

Result<PodListing> PodResourcesCache::fresh() {
  std::unique_lock lock(mutex_);
  const std::uint64_t needed = begun_ + 1;
  while (answered_ < needed) {
    if (running_) {
      changed_.wait(lock);
      continue;
    }
    running_ = true;
    const std::uint64_t number = ++begun_;
    lock.unlock();
    auto listing = query_();
    lock.lock();
    running_ = false;
    answered_ = number;
    if (listing) {
      answer_ = std::make_shared<const std::vector<PodDevices>>(std::move(*listing));
    } else {
      answer_ = std::unexpected(std::move(listing).error().with("ask the kubelet's pod-resources").as(Errc::kUnavailable));
    }
    changed_.notify_all();
  }
  return answer_;
}

}  // namespace podlane::dp
