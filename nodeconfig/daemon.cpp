#include "nodeconfig/daemon.hpp"

#include <sys/signalfd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>

#include "lib/base/file.hpp"
#include "lib/json/json.hpp"
#include "nodeconfig/events.hpp"

namespace podlane::nodeconfig {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr unsigned kRetrySeconds = 30;  // After something was busy, or the profile could not be used.
constexpr unsigned kRestPerPass = 99;   // Times the pass's own length, before events bring another.

std::vector<WatchedFile> watched_files(const DaemonOptions& options) {
  const std::string root = options.root == "/" ? "" : options.root;
  const std::size_t slash = options.profile.rfind('/');
  return {
      // The whole directory: a ConfigMap changes by a link "..data" beside the file.
      {slash == std::string::npos ? "." : options.profile.substr(0, slash + 1), ""},
      {options.run_dir, "lanes.json"},
      {root + "/var/lib/kubelet", "cpu_manager_state"},
      {root + "/etc/default", "irqbalance"},
      {root + "/etc/sysconfig", "irqbalance"},
      {root + "/etc/tuned", "active_profile"},
  };
}

bool is_trouble(Outcome outcome) {
  return outcome != Outcome::kInForce && outcome != Outcome::kPending && outcome != Outcome::kRefusedManaged &&
         outcome != Outcome::kWanted && outcome != Outcome::kNeedsKubeletRestart;
}

// One line for each setting whose outcome is new, so that a node which stays as it is logs nothing.
class Changes {
 public:
  void log(const Pass& pass, Log& log) {
    std::map<std::string, Outcome> now;
    for (const Change& change : pass.plan.changes) {
      const Setting& setting = change.setting;
      now.emplace(setting.key, change.outcome);
      const auto before = last_.find(setting.key);
      if (change.drifted) {
        log.warn("somebody else changed a setting",
                 {{"key", setting.key}, {"wanted", setting.wanted}, {"outcome", to_string(change.outcome)}});
      } else if (before == last_.end() || before->second != change.outcome) {
        const bool trouble = is_trouble(change.outcome);
        if (trouble)
          log.warn("setting", {{"key", setting.key},
                               {"outcome", to_string(change.outcome)},
                               {"now", change.now},
                               {"wanted", setting.wanted},
                               {"words", change.words}});
        else log.debug("setting", {{"key", setting.key}, {"outcome", to_string(change.outcome)}, {"now", change.now}});
      }
    }
    const auto in_force =
        std::count_if(now.begin(), now.end(), [](const auto& entry) { return entry.second == Outcome::kInForce; });
    if (now != last_)
      log.info("settings", {{"in_force", std::to_string(in_force)}, {"of", std::to_string(now.size())}});
    last_ = std::move(now);
  }

 private:
  std::map<std::string, Outcome> last_;
};

// An error is said once, not at each try.
void publish_error(const DaemonOptions& options, const Error& error, std::string& last, Log& log) {
  if (error.message() == last) return;
  last = error.message();
  log.error("nothing is changed on this node", {{"error", last}});
  const json::Value status{{"version", 1}, {"error", last}};
  const auto written =
      write_file_atomic(options.run_dir + "/nodeconfig.json", json::dump(status) + "\n", Durability::kMemory, 0644);
  if (!written) log.error("cannot write the status", {{"error", written.error().message()}});
}

Result<UniqueFd> open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd.valid()) return fail_errno("signalfd");
  return fd;
}

// Waits for the next pass. Events within the settling time, and within the rest after a pass, are one event.
Result<bool> wait_for_next(Events& events, int signal_fd, int timeout_ms, milliseconds settle,
                           Clock::time_point not_before) {
  Clock::time_point due = Clock::now() + milliseconds(timeout_ms);
  bool hurried = false;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(due - Clock::now()).count();
    if (left <= 0) return true;
    PODLANE_TRY_ASSIGN(const Events::Woken woken, events.wait(signal_fd, static_cast<int>(left)));
    if (woken == Events::Woken::kStop) return false;
    if (woken == Events::Woken::kHangup) return true;
    if (woken == Events::Woken::kEvent && !hurried) {
      hurried = true;
      due = std::min(due, std::max(Clock::now() + settle, not_before));
    }
  }
}

}  // namespace

int wait_after(const Pass* pass, unsigned resync_seconds) {
  const bool soon = pass == nullptr || pass->plan.has(Outcome::kDeferred);
  return static_cast<int>(std::min(resync_seconds, soon ? kRetrySeconds : resync_seconds)) * 1000;
}

Result<void> run_daemon(const DaemonOptions& options, Log& log) {
  PODLANE_TRY_ASSIGN(const Tree tree, Tree::open(options.root));
  PODLANE_TRY_ASSIGN(const UniqueFd lock, lock_node(options.run_dir));
  PODLANE_TRY_ASSIGN(const UniqueFd signals, open_signals());
  PODLANE_TRY_ASSIGN(Events events, Events::open(watched_files(options)));
  Changes changes;
  std::string last_error;
  unsigned resync_seconds = Profile{}.resync_seconds;
  for (;;) {
    const Clock::time_point start = Clock::now();
    int timeout_ms = wait_after(nullptr, resync_seconds);
    const auto profile = load_profile(options.profile);
    if (!profile) {
      publish_error(options, profile.error(), last_error, log);
    } else {
      resync_seconds = profile->resync_seconds;
      const auto pass = change(tree, *profile, options.run_dir, {});
      if (!pass) {
        publish_error(options, pass.error(), last_error, log);
      } else {
        last_error.clear();
        changes.log(*pass, log);
        PODLANE_TRY(publish_status(*profile, *pass, options.run_dir));
        timeout_ms = wait_after(&*pass, resync_seconds);
      }
    }
    const Clock::time_point end = Clock::now();
    events.watch_again();
    PODLANE_TRY_ASSIGN(const bool again,
                       wait_for_next(events, signals.get(), timeout_ms, milliseconds(options.settle_ms),
                                     end + kRestPerPass * (end - start)));
    if (!again) return {};
  }
}

}  // namespace podlane::nodeconfig
