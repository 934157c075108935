// Workers: a few threads for calls that wait for the lane table, so that gRPC's own threads never wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace podlane::dp {

class Workers {
 public:
  explicit Workers(std::size_t threads);
  ~Workers();  // Runs what was posted, then ends. Nothing may post any more.
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void post(std::function<void()> work);  // Any thread, also a worker.

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace podlane::dp
