// The lane table's threads. SerialThread owns what only its own work may touch; BlockingWorkers run what may block.
// No exception, no future: work posts its answer back. Any thread may post and call.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace podlane::dp {

class SerialThread {
 public:
  explicit SerialThread(const std::string& name);
  ~SerialThread();  // Runs what was posted, then ends.
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  void post(std::function<void()> work);

  // Runs work on the thread and waits for what it returns; on the thread itself it runs at once.
  template <typename Work>
  auto call(Work&& work) -> std::invoke_result_t<Work&> {
    using Value = std::invoke_result_t<Work&>;
    if (std::this_thread::get_id() == thread_.get_id()) return work();
    Done done;
    if constexpr (std::is_void_v<Value>) {
      post([&] {
        work();
        done.set();
      });
      done.wait();
    } else {
      std::optional<Value> value;
      post([&] {
        value.emplace(work());
        done.set();
      });
      done.wait();
      return std::move(*value);
    }
  }

 private:
  struct Done {
    // Set under the lock: the waiter destroys this as soon as it sees the flag.
    void set() {
      const std::lock_guard lock(mutex);
      is_set = true;
      changed.notify_one();
    }
    void wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_set; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool is_set = false;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::thread thread_;
};

class BlockingWorkers {
 public:
  BlockingWorkers(const std::string& name, std::size_t threads, std::size_t queue_limit);
  ~BlockingWorkers();  // Runs what was posted, then ends.
  BlockingWorkers(const BlockingWorkers&) = delete;
  BlockingWorkers& operator=(const BlockingWorkers&) = delete;

  bool post(std::function<void()> work);  // false: the queue is full or the workers are ending; work was not taken.

 private:
  void run();

  const std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace podlane::dp
