// EventLoop: epoll with handlers by descriptor, and functions posted from other threads. watch, change, unwatch and the
// handlers belong to the thread in run(); post and stop may be called from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::dp {

class EventLoop {
 public:
  using Handler = std::function<void(std::uint32_t events)>;
  using Function = std::move_only_function<void()>;

  static Result<std::unique_ptr<EventLoop>> create();

  Result<void> watch(int fd, std::uint32_t events, Handler handler);  // EPOLL*, level-triggered.
  void change(int fd, std::uint32_t events);
  void unwatch(int fd);  // Before fd is closed.

  void post(Function function);
  // Makes the calling thread the loop's; before run(). Peers' descriptors are to be closed by it alone: whatever such a
  // peer does to make close() sleep, the thread does not sleep for more than some ms (event_loop.cpp, Hurry).
  Result<void> enter();
  // Calls before_wait in each turn; it does what is due and says when it wants to be called next. at_end is called last.
  void run(const std::function<std::optional<MonotonicTime>()>& before_wait, const std::function<void()>& at_end);
  void stop();

  ~EventLoop();

 private:
  class Hurry;
  EventLoop();
  void wake();
  bool run_posted();  // False when stopped.

  std::unique_ptr<Hurry> hurry_;
  UniqueFd epoll_, wake_fd_;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  std::mutex mutex_;  // Guards posted_ and stopped_.
  std::vector<Function> posted_;
  bool stopped_ = false;
};

}  // namespace podlane::dp
