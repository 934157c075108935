#include "lib/xsk/idle_policy.hpp"

#include <ctime>

namespace podlane::xsk {

bool IdlePolicy::wait(std::span<pollfd> fds, std::chrono::microseconds timeout) {
  if (mode_ == WaitMode::kSpinning) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    for (pollfd& fd : fds) fd.revents = 0;
    return true;
  }
  ++sleeps_;
  const timespec limit{static_cast<time_t>(timeout.count() / 1000000), static_cast<long>(timeout.count() % 1000000 * 1000)};
  return ::ppoll(fds.data(), fds.size(), &limit, nullptr) > 0;
}

}  // namespace podlane::xsk
