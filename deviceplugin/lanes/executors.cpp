#include "deviceplugin/lanes/executors.hpp"

#include <pthread.h>

namespace podlane::dp {

SerialThread::SerialThread(const std::string& name) : thread_([this] { run(); }) {
  ::pthread_setname_np(thread_.native_handle(), name.c_str());
}

SerialThread::~SerialThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void SerialThread::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_one();
}

void SerialThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

BlockingWorkers::BlockingWorkers(const std::string& name, std::size_t threads, std::size_t queue_limit) : queue_limit_(queue_limit) {
  for (std::size_t at = 0; at < threads; ++at) {
    threads_.emplace_back([this] { run(); });
    ::pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

BlockingWorkers::~BlockingWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool BlockingWorkers::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || work_.size() >= queue_limit_) return false;
  work_.push_back(std::move(work));
  changed_.notify_one();
  return true;
}

void BlockingWorkers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace podlane::dp
