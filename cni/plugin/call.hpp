// Call: what every verb works with. One thread: the plugin has no other, so that it may change its network namespace.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "cni/spec/cni_args.hpp"
#include "cni/spec/net_conf.hpp"
#include "lib/base/log.hpp"
#include "lib/journal/journal.hpp"

namespace podlane::cni {

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now) : end_(std::chrono::steady_clock::now() + from_now) {}
  // What is left, at least 1 ms, at most `cap`.
  std::chrono::milliseconds left(std::chrono::milliseconds cap) const {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return std::clamp(rest, std::chrono::milliseconds(1), cap);
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

// Long: a node that starts a hundred pods at once on few cores is slow, not broken, and a pod that fails is made anew,
// which costs more than waiting. kubelet gives RunPodSandbox four minutes (2 x runtimeRequestTimeout).
inline constexpr std::chrono::milliseconds kAddTimeout{60000};
inline constexpr std::chrono::milliseconds kDelTimeout{10000};

struct Call {
  const CniArgs& args;
  const NetConf& conf;
  const journal::Journal& journal;
  Log& log;
  Deadline deadline;

  journal::AttachmentKey key() const { return {conf.name, args.container_id, args.ifname}; }
};

// Marks our interfaces, so that DEL finds them whatever the pod named them.
inline std::string alias_of(const std::string& container_id) {
  return "podlane:" + container_id;
}

}  // namespace podlane::cni
