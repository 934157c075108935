#include "deviceplugin/handover/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

namespace podlane::dp {

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  loop->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_.valid()) return fail_errno("epoll_create1");
  loop->wake_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_fd_.valid()) return fail_errno("eventfd");
  PODLANE_TRY(loop->watch(loop->wake_fd_.get(), EPOLLIN, [raw = loop.get()](std::uint32_t) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(raw->wake_fd_.get(), &count, sizeof(count));
  }));
  return loop;
}

Result<void> EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll_ctl");
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return {};
}

void EventLoop::change(int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

void EventLoop::post(Function function) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    posted_.push_back(std::move(function));
  }
  wake();
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake();
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_.get(), &one, sizeof(one));
}

bool EventLoop::run_posted() {
  std::vector<Function> batch;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    batch.swap(posted_);
  }
  for (Function& function : batch) function();
  return true;
}

void EventLoop::run(const std::function<std::optional<MonotonicTime>()>& before_wait) {
  epoll_event events[64];
  while (run_posted()) {
    int timeout_ms = -1;
    if (const auto due = before_wait()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - std::chrono::steady_clock::now());
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60000));
    }
    const int n = ::epoll_wait(epoll_.get(), events, static_cast<int>(std::size(events)), timeout_ms);
    for (int i = 0; i < n; ++i) {
      // An earlier handler of this batch may have unwatched it; and a handler may unwatch itself while it runs.
      const auto it = handlers_.find(events[i].data.fd);
      if (it == handlers_.end()) continue;
      const std::shared_ptr<Handler> handler = it->second;
      (*handler)(events[i].events);
    }
  }
}

}  // namespace podlane::dp
