// WorkerPool: threads for work that blocks. Threads are started when work waits and none is idle, up to a bound; with a
// bound of one, jobs run in the order of their submission. Any thread may submit.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace podlane::dp {

class WorkerPool {
 public:
  using Job = std::move_only_function<void()>;

  explicit WorkerPool(std::size_t max_threads) : max_threads_(max_threads) {}
  ~WorkerPool();  // Waits for the running jobs; those that wait are dropped.
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void submit(Job job);
  std::size_t waiting() const;

 private:
  void work();

  const std::size_t max_threads_;
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace podlane::dp
