// NetnsVisit: this one thread in another network namespace, and back at the end. The process must be single-threaded.
#pragma once

#include <sched.h>

#include <utility>

#include "lib/base/assert.hpp"
#include "lib/net/netns.hpp"

namespace podlane::cni {

class [[nodiscard]] NetnsVisit {
 public:
  static Result<NetnsVisit> enter(int netns_fd) {
    PODLANE_TRY_ASSIGN(UniqueFd home, net::own_netns());
    if (::setns(netns_fd, CLONE_NEWNET) != 0) return fail_errno("setns into the pod");
    return NetnsVisit(std::move(home));
  }
  NetnsVisit(NetnsVisit&&) = default;
  NetnsVisit& operator=(NetnsVisit&&) = delete;
  ~NetnsVisit() {
    if (home_.valid()) leave();
  }
  // Going on in the wrong namespace would act on the pod's or the host's links by mistake; dying is better. The
  // descriptor was our own namespace a moment ago, so this cannot fail but by our mistake.
  void leave() {
    PODLANE_ASSERT(::setns(home_.get(), CLONE_NEWNET) == 0);
    home_.reset();
  }

 private:
  explicit NetnsVisit(UniqueFd home) : home_(std::move(home)) {}
  UniqueFd home_;
};

}  // namespace podlane::cni
