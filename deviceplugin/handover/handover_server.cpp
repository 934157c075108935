#include "deviceplugin/handover/handover_server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "deviceplugin/handover/event_loop.hpp"
#include "deviceplugin/handover/sessions.hpp"
#include "deviceplugin/handover/worker_pool.hpp"
#include "lib/base/file.hpp"
#include "lib/base/seqpacket.hpp"

// Threads: the loop's thread owns listeners and sessions; up to kWorkersMax workers ask the owner for lanes and make
// grants; one notifier tells the owner what happened. serve, stop_serving and send_neighbor only post to the loop, and
// never wait for it: the owner may call them while one of our threads waits for the owner.

namespace podlane::dp {

namespace {

constexpr std::size_t kWorkersMax = 32;
constexpr int kAcceptsPerEvent = 16;
constexpr std::chrono::milliseconds kAcceptPause{100};

class Server final : public HandoverServer {
 public:
  Server(std::unique_ptr<EventLoop> loop, HandoverOwner& owner, Log& log)
      : loop_(std::move(loop)), log_(log), sessions_(*loop_, workers_, notifier_, owner, log) {
    thread_ = std::thread([this] {
      auto entered = loop_->enter();
      const bool runs = entered.has_value();
      entered_.set_value(std::move(entered));
      if (runs) loop_->run([this] { return tick(); }, [this] { close_all(); });
    });
  }
  Result<void> wait_for_thread() { return entered_.get_future().get(); }

  ~Server() override {
    loop_->stop();
    thread_.join();
  }

  Result<void> serve(const std::string& device, const std::string& directory) override {
    PODLANE_TRY(make_directories(directory));
    // Any uid of the pod may run the client; the network namespace, not the file mode, says who it is.
    if (::chmod(directory.c_str(), 0755) != 0) return fail_errno("chmod", directory);
    const std::string path = directory + "/handover.sock";
    const std::lock_guard lock(mutex_);
    PODLANE_TRY_ASSIGN(UniqueFd listener, seqpacket_listen(path, 0666));
    if (const auto old = paths_.find(device); old != paths_.end() && old->second != path) {
      PODLANE_TRY(remove_file(old->second));
    }
    paths_[device] = path;
    loop_->post([this, device, socket = std::move(listener)]() mutable { listen(device, std::move(socket)); });
    return {};
  }

  void stop_serving(const std::string& device) override {
    const std::lock_guard lock(mutex_);
    const auto path = paths_.find(device);
    if (path == paths_.end()) return;
    if (auto removed = remove_file(path->second); !removed) {
      log_.warn("hand-over socket is left", {{"lane", device}, {"why", removed.error().message()}});
    }
    paths_.erase(path);
    loop_->post([this, device] {
      stop_listening(device);
      sessions_.drop_device(device);
    });
  }

  void send_neighbor(const std::string& device, const lane::Neighbor& neighbor) override {
    loop_->post([this, device, neighbor] { sessions_.send_neighbor(device, neighbor); });
  }

 private:
  struct Listener {
    UniqueFd socket;
    std::optional<MonotonicTime> paused_until;
  };

  // All below: the loop's thread.
  void listen(const std::string& device, UniqueFd socket) {
    stop_listening(device);
    auto watched = loop_->watch(socket.get(), EPOLLIN, [this, device](std::uint32_t) { accept(device); });
    if (!watched) {
      log_.error("hand-over socket is not served", {{"lane", device}, {"why", watched.error().message()}});
      return;
    }
    listeners_[device] = {.socket = std::move(socket)};
  }

  void stop_listening(const std::string& device) {
    const auto it = listeners_.find(device);
    if (it == listeners_.end()) return;
    loop_->unwatch(it->second.socket.get());
    listeners_.erase(it);
  }

  void accept(const std::string& device) {
    Listener& listener = listeners_.at(device);
    for (int i = 0; i < kAcceptsPerEvent; ++i) {
      UniqueFd client(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.valid()) {
        sessions_.add(device, std::move(client));
        continue;
      }
      if (errno == EAGAIN) return;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors or memory: the listener would stay readable, and the loop would spin.
      log_.error("cannot accept", {{"lane", device}, {"op", "accept4"}, {"errno", ::strerrorname_np(errno)}});
      listener.paused_until = std::chrono::steady_clock::now() + kAcceptPause;
      loop_->change(listener.socket.get(), 0);
      return;
    }
  }

  void close_all() {
    sessions_.drop_all();
    for (const auto& [device, listener] : listeners_) loop_->unwatch(listener.socket.get());
    listeners_.clear();
  }

  std::optional<MonotonicTime> tick() {
    std::optional<MonotonicTime> next = sessions_.tick();
    for (auto& [device, listener] : listeners_) {
      if (!listener.paused_until) continue;
      if (std::chrono::steady_clock::now() >= *listener.paused_until) {
        listener.paused_until.reset();
        loop_->change(listener.socket.get(), EPOLLIN);
      } else if (!next || *listener.paused_until < *next) {
        next = listener.paused_until;
      }
    }
    return next;
  }

  // Destroyed from the bottom: first the workers and the notifier end, then what their jobs refer to.
  std::unique_ptr<EventLoop> loop_;
  Log& log_;
  std::map<std::string, Listener> listeners_;
  std::mutex mutex_;  // Guards paths_ and the order of what is posted about listeners.
  std::map<std::string, std::string> paths_;
  Sessions sessions_;
  WorkerPool notifier_{1};
  WorkerPool workers_{kWorkersMax};
  std::promise<Result<void>> entered_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HandoverServer>> HandoverServer::start(HandoverOwner& owner, Log& log) {
  PODLANE_TRY_ASSIGN(auto loop, EventLoop::create());
  auto server = std::make_unique<Server>(std::move(loop), owner, log);
  PODLANE_TRY(server->wait_for_thread());
  return server;
}

}  // namespace podlane::dp
