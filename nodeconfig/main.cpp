// podlane-nodeconfig: the commands. What each exit status means stands in docs/node-profile.md.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "lib/base/file.hpp"
#include "nodeconfig/daemon.hpp"
#include "nodeconfig/node.hpp"
#include "nodeconfig/report.hpp"
#include "nodeconfig/snapshot.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr int kExitFailed = 1;   // It could not look, or a change failed.
constexpr int kExitChanges = 2;  // There is something to do.
constexpr int kExitCannot = 3;   // The node cannot have what the profile asks for.
constexpr int kExitUsage = 64;   // EX_USAGE: none of the others.

struct Options {
  std::string root = "/";
  std::string run_dir = "/run/podlane";
  std::string profile = "/etc/podlane/node-profile.json";
  std::string output;
  std::string log_level = "info";
  int settle_ms = DaemonOptions{}.settle_ms;
  bool as_json = false;
};

int failed(const Error& error) {
  std::fprintf(stderr, "podlane-nodeconfig: %s\n", error.message().c_str());
  return kExitFailed;
}

// A profile that is wrong, here or on any node, is one that cannot be satisfied.
int failed_profile(const Error& error) {
  failed(error);
  return error.code() == Errc::kInvalid ? kExitCannot : kExitFailed;
}

int status_of(const Plan& plan) {
  if (plan.unsatisfied()) return kExitCannot;
  return plan.changes_something() || plan.has(Outcome::kDeferred) ? kExitChanges : 0;
}

void print(const Options& options, const Profile& profile, const Pass& pass, Shown shown) {
  const Report report{profile, pass.plan, pass.advice};
  std::fputs((options.as_json ? render_json(report) : render_text(report, shown)).c_str(), stdout);
}

int run_look(const Options& options, Shown shown) {
  const auto tree = Tree::open(options.root);
  if (!tree) return failed(tree.error());
  const auto profile = load_profile(options.profile);
  if (!profile) return failed_profile(profile.error());
  // A person who asks sees what an apply by hand would do.
  const auto pass = look(*tree, *profile, options.run_dir, {.forgive_drift = shown == Shown::kChanges});
  if (!pass) return failed_profile(pass.error());
  print(options, *profile, *pass, shown);
  return status_of(pass->plan);
}

int run_apply(const Options& options) {
  const auto tree = Tree::open(options.root);
  if (!tree) return failed(tree.error());
  const auto profile = load_profile(options.profile);
  if (!profile) return failed_profile(profile.error());
  const auto lock = lock_node(options.run_dir);
  if (!lock) return failed(lock.error());
  const auto pass = change(*tree, *profile, options.run_dir, {.forgive_drift = true});
  if (!pass) return failed_profile(pass.error());
  print(options, *profile, *pass, Shown::kAll);
  if (const auto published = publish_status(*profile, *pass, options.run_dir); !published)
    return failed(published.error());
  return status_of(pass->plan);
}

int run_undo(const Options& options) {
  const auto tree = Tree::open(options.root);
  if (!tree) return failed(tree.error());
  const auto lock = lock_node(options.run_dir);
  if (!lock) return failed(lock.error());
  const auto undone = take_back(*tree, options.run_dir);
  if (!undone) return failed(undone.error());
  std::fputs((options.as_json ? render_json(*undone) : render_text(*undone)).c_str(), stdout);
  const bool all = std::none_of(undone->begin(), undone->end(), [](const Undone& one) {
    return one.outcome == UndoOutcome::kFailed || one.outcome == UndoOutcome::kDeferred;
  });
  return all ? 0 : kExitFailed;
}

int run_snapshot(const Options& options) {
  auto tree = Tree::open(options.root);
  if (!tree) return failed(tree.error());
  auto recording = record_node(*tree);
  if (!recording) return failed(recording.error());
  scrub(*recording);
  const std::string tar = tar_of(*recording);
  if (!options.output.empty()) {
    const auto written = write_file_atomic(options.output, tar, Durability::kMemory, 0644);
    return written ? 0 : failed(written.error());
  }
  return std::fwrite(tar.data(), 1, tar.size(), stdout) == tar.size() ? 0 : kExitFailed;
}

int run_run(const Options& options) {
  const auto level = parse_log_level(options.log_level);
  if (!level) {
    failed(level.error());
    return kExitUsage;
  }
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Log log(STDERR_FILENO, "nodeconfig", *level);
  log.info("running", {{"version", PODLANE_VERSION}, {"profile", options.profile}});
  const auto ended = run_daemon(
      {.root = options.root, .run_dir = options.run_dir, .profile = options.profile, .settle_ms = options.settle_ms},
      log);
  if (!ended) {
    log.error("ended", {{"error", ended.error().message()}});
    return kExitFailed;
  }
  log.info("stopping; every setting stays");
  return 0;
}

int run_check(const Options& options) {
  const auto profile = load_profile(options.profile);
  if (!profile) return failed_profile(profile.error());
  std::printf("%s is a profile, named %s.\n", options.profile.c_str(), profile->name.c_str());
  return 0;
}

}  // namespace

int main_inner(int argc, char** argv) {
  CLI::App app("podlane-nodeconfig: tunes this node as its profile says, shows what is in force, and takes it back");
  app.set_version_flag("--version", "podlane-nodeconfig " PODLANE_VERSION);
  app.require_subcommand(1);
  Options options;
  int status = 0;
  app.add_option("--root", options.root, "Where the node's /sys, /proc, /etc and /var are")->capture_default_str();
  app.add_option("--run-dir", options.run_dir, "Journal, lock and status")->capture_default_str();
  app.add_option("--profile", options.profile, "The node profile")->capture_default_str();
  app.add_flag("--json", options.as_json, "As JSON, for programs");
  app.fallthrough();
  const auto command = [&](const char* name, const char* what, const auto& run) {
    CLI::App* const sub = app.add_subcommand(name, what);
    sub->callback([&status, &options, run] { status = run(options); });
    return sub;
  };
  command("plan", "Now, wanted, why and undo; 0: nothing to do, 2: changes, 3: cannot be satisfied",
          [](const Options& o) { return run_look(o, Shown::kChanges); });
  command("apply", "Makes the changes of the plan, reads each back, says what came of it", run_apply);
  command("status", "Every setting of the profile and what is in force; statuses as plan",
          [](const Options& o) { return run_look(o, Shown::kAll); });
  command("undo", "Puts back what was changed since the node booted, where nobody else wrote since", run_undo);
  command("check", "Reads the profile, and nothing of the node", run_check);
  command("snapshot", "A scrubbed tar of the files that decisions are made from; usable as --root once unpacked",
          run_snapshot)
      ->add_option("--output", options.output, "File; standard output otherwise");
  CLI::App* const run = command("run", "Keeps the node as the profile says: the daemon", run_run);
  run->add_option("--settle-ms", options.settle_ms, "From an event to the next look")
      ->check(CLI::Range(1, 600000))
      ->capture_default_str();
  run->add_option("--log-level", options.log_level, "debug, info, warn or error")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return status;
}

}  // namespace podlane::nodeconfig

int main(int argc, char** argv) {
  return podlane::nodeconfig::main_inner(argc, argv);
}
