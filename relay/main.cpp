// podlane-relay: the native sidecar that serves a pod's lanes to unmodified programs. Runs without any capability.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/unique_fd.hpp"
#include "relay/options.hpp"
#include "relay/relay.hpp"

extern char** environ;

int main(int argc, char** argv) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const auto options = podlane::relay::parse_options({argv + 1, argv + argc}, environment);
  if (!options) {
    std::fprintf(stderr, "podlane-relay: %s\n", options.error().message().c_str());
    return podlane::relay::kExitOptions;
  }
  if (options->help) {
    std::fputs(podlane::relay::usage().data(), stdout);
    return podlane::relay::kExitEnded;
  }
  if (options->version) {
    std::puts("podlane-relay " PODLANE_VERSION);
    return podlane::relay::kExitEnded;
  }
  if (options->check) return podlane::relay::check_relay(*options);

  // Blocked before any thread is there, so that all of them inherit it.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  podlane::UniqueFd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  podlane::Log log(STDERR_FILENO, "relay", options->log_level);
  if (!signal_fd.valid()) {
    log.error("signalfd failed");
    return podlane::relay::kExitCannotRun;
  }
  return podlane::relay::run_relay(*options, signal_fd.get(), log);
}
