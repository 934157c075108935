// KubeletLink: keeps every pool registered with the kubelet for as long as it lives. See kubelet_link.cpp, "How it
// works".
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "deviceplugin/kubelet/kubelet_counters.hpp"
#include "deviceplugin/lanes/lane_table.hpp"
#include "lib/base/log.hpp"
#include "lib/base/result.hpp"

namespace podlane::dp {

struct KubeletLinkOptions {
  std::string kubelet_dir = "/var/lib/kubelet";
  std::chrono::milliseconds look_every{5000};        // Periodic look, for what inotify does not tell.
  std::chrono::milliseconds retry_first{100};        // After a failed registration; doubles …
  std::chrono::milliseconds retry_longest{5000};     // … up to this.
  std::chrono::milliseconds stream_patience{10000};  // Registered, but no stream came or it broke: register again.
};

class KubeletLink {
 public:
  // Starts the thread. The kubelet need not be there yet. Table and log outlive the link.
  static Result<std::unique_ptr<KubeletLink>> start(const std::vector<std::string>& pools, LaneTable& table,
                                                    const KubeletLinkOptions& options, Log& log);
  virtual ~KubeletLink() = default;  // Stops: streams end, sockets are removed. The table's health callback is emptied.

  virtual std::vector<PoolStatus> status() const = 0;  // Any thread.
};

}  // namespace podlane::dp
