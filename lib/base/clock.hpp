// Clock: monotonic time as a constructor argument, so that timers can be tested without waiting. Any thread.
#pragma once

#include <chrono>
#include <functional>

namespace podlane {

using MonotonicTime = std::chrono::steady_clock::time_point;
using Clock = std::function<MonotonicTime()>;

inline Clock system_clock() {
  return [] { return std::chrono::steady_clock::now(); };
}

}  // namespace podlane
