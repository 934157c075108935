#include "deviceplugin/handover/event_loop.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace podlane::dp {

// A peer decides what closing its descriptors costs: a TCP socket with SO_LINGER and a receiver that does not read makes
// close() sleep for as long as the peer likes (net/ipv4/tcp.c, tcp_close), and it comes by SCM_RIGHTS. It is closed by our
// thread wherever it goes: at close(), in recvmsg() when it does not fit, when a socket goes with messages that nobody has
// read. Clearing SO_LINGER before would be a race with the peer. But a signal ends that sleep: so the thread in run() is
// sent one again and again while a turn takes long.
class EventLoop::Hurry {
 public:
  static Result<std::unique_ptr<Hurry>> create() {
    // A handler, because a signal that is ignored interrupts nothing. SIGURG: nobody uses it, and by default it is harmless.
    struct sigaction action {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    if (::sigaction(SIGURG, &action, nullptr) != 0) return fail_errno("sigaction");
    std::unique_ptr<Hurry> hurry(new Hurry);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event._sigev_un._tid = ::gettid();  // glibc 2.36 has no sigev_notify_thread_id.
    if (::timer_create(CLOCK_MONOTONIC, &event, &hurry->timer_) != 0) return fail_errno("timer_create");
    hurry->made_ = true;
    return hurry;
  }
  ~Hurry() {
    if (made_) ::timer_delete(timer_);
  }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

  void begin_turn() { set({.it_interval = {.tv_sec = 0, .tv_nsec = 5'000'000}, .it_value = {.tv_sec = 0, .tv_nsec = 10'000'000}}); }
  void end_turn() { set({}); }

 private:
  Hurry() = default;
  void set(const itimerspec& when) { ::timer_settime(timer_, 0, &when, nullptr); }
  timer_t timer_{};
  bool made_ = false;
};

EventLoop::EventLoop() = default;
EventLoop::~EventLoop() = default;

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

Result<void> EventLoop::enter() {
  PODLANE_TRY_ASSIGN(hurry_, Hurry::create());
  return {};
}

void EventLoop::run(const std::function<std::optional<MonotonicTime>()>& before_wait, const std::function<void()>& at_end) {
  epoll_event events[64];
  hurry_->begin_turn();
  while (run_posted()) {
    int timeout_ms = -1;
    if (const auto due = before_wait()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - std::chrono::steady_clock::now());
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60000));
    }
    hurry_->end_turn();
    const int n = ::epoll_wait(epoll_.get(), events, static_cast<int>(std::size(events)), timeout_ms);
    hurry_->begin_turn();
    for (int i = 0; i < n; ++i) {
      // An earlier handler of this batch may have unwatched it; and a handler may unwatch itself while it runs.
      const auto it = handlers_.find(events[i].data.fd);
      if (it == handlers_.end()) continue;
      const std::shared_ptr<Handler> handler = it->second;
      (*handler)(events[i].events);
    }
  }
  at_end();
  hurry_.reset();
}

}  // namespace podlane::dp
