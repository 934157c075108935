// How it works. One thread looks at the kubelet's directory, woken by inotify, by a stream's end, or by time, and
// brings every pool one step on:
//
//   no directory     -> nothing served; look again soon. The kubelet makes the directory, not we.
//   not serving      -> serve: our socket is not in the directory, or is not the one that we made. A starting kubelet
//                       removes every socket there (kubernetes.md 2.2).
//   no kubelet.sock  -> kubelet away: wait for the file.
//   not registered   -> Register, since kubelet.sock is another file than the one we registered at, or since the
//   kubelet
//                       has let go of our stream. A failed attempt is repeated with back-off, which ends at once when
//                       kubelet.sock is made anew.
//   registered       -> nothing, while the stream lives.
//
// All Register calls come from this thread, so two never race; a second one for a pool that is served well would make
// the kubelet drop the good stream. Limits: a kubelet that accepts and never opens a stream is asked again each
// stream_patience only.
#include "deviceplugin/kubelet/kubelet_link.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "deviceplugin/kubelet/directory_watch.hpp"
#include "deviceplugin/kubelet/names.hpp"
#include "deviceplugin/kubelet/plugin_server.hpp"
#include "deviceplugin/kubelet/registration.hpp"
#include "lib/base/clock.hpp"

namespace podlane::dp {

namespace {

// Calls that wait for the lane table at the same time; the table has one event thread, more would only queue there.
constexpr std::size_t kWorkers = 4;
constexpr std::chrono::milliseconds kNoDirectoryLook{500};
constexpr std::chrono::milliseconds kRegisterPatience{1000};
// A broken stream is mostly the end of a kubelet: let it go away before it is asked.
constexpr std::chrono::milliseconds kStreamSettle{300};

using Services = std::map<std::string, std::shared_ptr<DevicePluginService>>;

// Shared with the table's health callback, which may outlive the link.
struct HealthHub {
  std::mutex mutex;
  Services services;
  Workers* workers = nullptr;
};

struct Pool {
  std::string name;
  PoolCounters counters;
  std::atomic<bool> accepted{false};  // registered_at has a value; for status().
  std::unique_ptr<PluginServer> server;
  std::optional<FileIdentity> registered_at;
  MonotonicTime registered_since{};
  std::uint64_t streams_at_registration = 0;
  std::optional<MonotonicTime> broken_since;
  MonotonicTime next_try{};
  std::chrono::milliseconds retry{0};
  std::string last_error;
};

class Link final : public KubeletLink {
 public:
  Link(LaneTable& table, const KubeletLinkOptions& options, Log& log, DirectoryWatch watch, UniqueFd wake)
      : table_(table),
        options_(options),
        log_(log),
        directory_(plugin_dir(options.kubelet_dir)),
        kubelet_socket_(directory_ + "/" + kKubeletSocket),
        watch_(std::move(watch)),
        wake_(std::move(wake)) {}
  ~Link() override;
  void begin(const std::vector<std::string>& pools);
  std::vector<PoolStatus> status() const override;

 private:
  void run();
  void sleep_until(MonotonicTime when);
  MonotonicTime step(Pool& pool, bool have_directory);
  bool serve(Pool& pool, MonotonicTime now);
  void check_stream(Pool& pool, MonotonicTime now);
  void register_pool(Pool& pool);
  void failed(Pool& pool, const Error& error);
  void forget(Pool& pool);
  void try_now(Pool& pool);
  void stop_serving(Pool& pool);
  void wake() const;

  LaneTable& table_;
  const KubeletLinkOptions options_;
  Log& log_;
  const std::string directory_;
  const std::string kubelet_socket_;
  DirectoryWatch watch_;
  UniqueFd wake_;
  std::unique_ptr<Workers> workers_;
  std::shared_ptr<HealthHub> hub_ = std::make_shared<HealthHub>();
  std::vector<std::unique_ptr<Pool>> pools_;
  Registration registration_;
  std::atomic<bool> stopping_{false};
  bool said_away_ = false;
  std::thread thread_;
};

void Link::begin(const std::vector<std::string>& pools) {
  for (const std::string& name : pools) {
    pools_.push_back(std::make_unique<Pool>());
    pools_.back()->name = name;
  }
  if (pools_.empty()) return;
  workers_ = std::make_unique<Workers>(kWorkers);
  hub_->workers = workers_.get();
  // On the table's event thread, which device_list() waits for: so a worker does the rest.
  table_.on_health_change([hub = hub_](const std::string& pool) {
    const std::lock_guard lock(hub->mutex);
    const auto found = hub->services.find(pool);
    if (found == hub->services.end()) return;
    hub->workers->post([service = found->second] { service->send_devices(); });
  });
  thread_ = std::thread([this] { run(); });
}

Link::~Link() {
  stopping_ = true;
  registration_.cancel();
  wake();
  if (thread_.joinable()) thread_.join();
  for (const auto& pool : pools_) stop_serving(*pool);
  workers_.reset();
}

std::vector<PoolStatus> Link::status() const {
  std::vector<PoolStatus> out;
  for (const auto& pool : pools_) {
    bool streaming = false;
    {
      const std::lock_guard lock(hub_->mutex);
      const auto found = hub_->services.find(pool->name);
      streaming = found != hub_->services.end() && found->second->live_streams() > 0;
    }
    const PoolCounters& counters = pool->counters;
    out.push_back({.pool = pool->name,
                   .registered = pool->accepted && streaming,
                   .registrations_total = counters.registrations_total,
                   .registration_errors_total = counters.registration_errors_total,
                   .streams_total = counters.streams_total,
                   .allocations_total = counters.allocations_total,
                   .allocation_errors_total = counters.allocation_errors_total,
                   .pre_starts_total = counters.pre_starts_total,
                   .pre_start_errors_total = counters.pre_start_errors_total});
  }
  return out;
}

void Link::run() {
  while (!stopping_) {
    const std::vector<std::string> events = watch_.drain();
    if (std::find(events.begin(), events.end(), kKubeletSocket) != events.end()) {
      // Only no more waiting: whether it is another kubelet, its socket's identity tells. This event may be older than
      // what step() has seen, and a second Register would make a good stream end.
      for (const auto& pool : pools_) try_now(*pool);
    }
    const bool have_directory = watch_.refresh();
    MonotonicTime next = std::chrono::steady_clock::now() + options_.look_every;
    for (const auto& pool : pools_) {
      if (stopping_) return;
      next = std::min(next, step(*pool, have_directory));
    }
    sleep_until(next);
  }
}

void Link::sleep_until(MonotonicTime when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - std::chrono::steady_clock::now()).count();
  pollfd fds[] = {{.fd = watch_.fd(), .events = POLLIN, .revents = 0},
                  {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  if (left <= 0 || ::poll(fds, 2, static_cast<int>(left)) <= 0) return;
  std::uint64_t count = 0;
  if (fds[1].revents != 0) [[maybe_unused]]
    const ssize_t ignored = ::read(wake_.get(), &count, sizeof(count));
}

// One pool, one step on. Returns when to look at it again.
MonotonicTime Link::step(Pool& pool, bool have_directory) {
  const MonotonicTime now = std::chrono::steady_clock::now();
  const MonotonicTime later = now + options_.look_every;
  if (!have_directory) {
    stop_serving(pool);
    return now + kNoDirectoryLook;
  }
  // The kubelet's socket first, ours second: a starting kubelet removes ours before it makes its own. The other way round
  // we could register at the new kubelet with a socket that it has just removed, and wait in that call for its patience.
  const std::optional<FileIdentity> kubelet = file_identity(kubelet_socket_);
  if (!serve(pool, now)) return std::max(pool.next_try, now);
  if (!kubelet) {
    forget(pool);
    if (!std::exchange(said_away_, true)) log_.info("no kubelet: waiting for its socket", {{"path", kubelet_socket_}});
    return later;
  }
  said_away_ = false;
  if (pool.registered_at == kubelet) {
    check_stream(pool, now);
    if (pool.broken_since) return *pool.broken_since + kStreamSettle;
    if (pool.registered_at == kubelet) return later;
  } else {
    pool.accepted = false;
    pool.registered_at.reset();
  }
  if (now < pool.next_try) return pool.next_try;
  register_pool(pool);
  return pool.registered_at ? later : pool.next_try;
}

// True when the pool's socket is in the directory and is served.
bool Link::serve(Pool& pool, MonotonicTime now) {
  if (pool.server != nullptr && pool.server->socket_in_place()) return true;
  if (pool.server != nullptr) {
    log_.info("the socket was removed: serving afresh", {{"pool", pool.name}});
    stop_serving(pool);
  }
  if (now < pool.next_try) return false;
  auto service =
      std::make_shared<DevicePluginService>(pool.name, table_, *workers_, pool.counters, log_, [this] { wake(); });
  auto server = PluginServer::start(directory_ + "/" + socket_name(pool.name), service);
  if (!server) {
    failed(pool, server.error());
    return false;
  }
  pool.server = std::move(*server);
  const std::lock_guard lock(hub_->mutex);
  hub_->services[pool.name] = std::move(service);
  return true;
}

// A registered pool whose stream is gone is registered again; a kubelet does not open it by itself.
void Link::check_stream(Pool& pool, MonotonicTime now) {
  if (pool.server->service().live_streams() > 0) {
    pool.broken_since.reset();
    return;
  }
  const bool had_one = pool.counters.streams_total > pool.streams_at_registration;
  if (had_one && !pool.broken_since) pool.broken_since = now;
  const bool broken = had_one && now - *pool.broken_since >= kStreamSettle;
  const bool never_came = !had_one && now - pool.registered_since >= options_.stream_patience;
  if (!broken && !never_came) return;
  log_.info(
      broken ? "the kubelet's stream ended: registering again" : "the kubelet opened no stream: registering again",
      {{"pool", pool.name}});
  pool.broken_since.reset();
  pool.registered_at.reset();
  pool.accepted = false;
}

void Link::register_pool(Pool& pool) {
  const std::uint64_t streams_before = pool.counters.streams_total;
  // A kubelet whose dial back met a socket that was just removed answers only after its own patience (10 s), and this
  // thread could not serve afresh meanwhile: little patience at first, more for a kubelet that is slow again and again.
  if (const auto done = registration_.call(kubelet_socket_, pool.name, kRegisterPatience + 2 * pool.retry); !done) {
    if (stopping_) return;
    pool.counters.registration_errors_total.fetch_add(1, std::memory_order_relaxed);
    failed(pool, done.error());
    return;
  }
  pool.counters.registrations_total.fetch_add(1, std::memory_order_relaxed);
  // The kubelet may have changed during the call. A starting kubelet removes our socket before it makes its own: so when
  // ours is still there, the one whose socket is there now is the one that answered. Looked at in this order.
  pool.registered_at = file_identity(kubelet_socket_);
  if (!pool.server->socket_in_place()) pool.registered_at.reset();
  pool.registered_since = std::chrono::steady_clock::now();
  pool.streams_at_registration = streams_before;
  pool.broken_since.reset();
  pool.retry = {};
  pool.next_try = {};
  pool.last_error.clear();
  pool.accepted = pool.registered_at.has_value();
  log_.info("registered with the kubelet",
            {{"pool", pool.name}, {"resource", std::string(kResourcePrefix) + pool.name}});
}

void Link::failed(Pool& pool, const Error& error) {
  pool.retry = pool.retry.count() == 0 ? options_.retry_first : std::min(pool.retry * 2, options_.retry_longest);
  pool.next_try = std::chrono::steady_clock::now() + pool.retry;
  // Once for each reason, not once for each attempt.
  if (std::exchange(pool.last_error, error.message()) == error.message()) return;
  log_.warn("not registered with the kubelet; trying again", {{"pool", pool.name}, {"error", error.message()}});
}

// The kubelet is another one now, or none: what it was told is void, and there is no reason to wait.
void Link::forget(Pool& pool) {
  pool.registered_at.reset();
  pool.accepted = false;
  pool.broken_since.reset();
  try_now(pool);
}

void Link::try_now(Pool& pool) {
  pool.retry = {};
  pool.next_try = {};
}

void Link::stop_serving(Pool& pool) {
  {
    const std::lock_guard lock(hub_->mutex);
    hub_->services.erase(pool.name);
  }
  pool.server.reset();
  forget(pool);
}

void Link::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof(one));
}

}  // namespace

Result<std::unique_ptr<KubeletLink>> KubeletLink::start(const std::vector<std::string>& pools, LaneTable& table,
                                                        const KubeletLinkOptions& options, Log& log) {
  PODLANE_TRY_ASSIGN(DirectoryWatch watch, DirectoryWatch::open(plugin_dir(options.kubelet_dir)));
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return fail_errno("eventfd");
  auto link = std::make_unique<Link>(table, options, log, std::move(watch), std::move(wake));
  link->begin(pools);
  return link;
}

}  // namespace podlane::dp
