// podlane-cni-installer: keeps the CNI binary and its entry on the node (run), takes them away (uninstall), tells how
// things are for the probe (status). Runs as a sidecar of the device plugin, as root without any capability.
#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <map>

#include "cni/install/conflist.hpp"
#include "cni/install/installer.hpp"
#include "lib/base/file.hpp"
#include "lib/base/log.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/json/json.hpp"

namespace {

using podlane::cni::Installer;
using podlane::cni::InstallOptions;
using podlane::cni::InstallReport;
using podlane::cni::InstallState;
using podlane::cni::Method;

constexpr int kExitFailed = 1;

struct Arguments {
  InstallOptions options;
  std::string keys = "{}";
  std::string status_file;
  bool uninstall = false;  // run: hold the node without us, until the pod goes.
};

void add_options(CLI::App& command, Arguments& arguments) {
  InstallOptions& options = arguments.options;
  command.add_option("--source", options.source, "The CNI binary in the image")->capture_default_str();
  command.add_option("--bin-dir", options.bin_dir, "Where the runtime looks for CNI plugins")->capture_default_str();
  command.add_option("--conf-dir", options.conf_dir, "Where the runtime looks for CNI lists")->capture_default_str();
  command.add_option("--cache-dir", options.cache_dir, "libcni's cache, which holds results/")->capture_default_str();
  command.add_option("--run-dir", options.run_dir, "The device plugin's")->capture_default_str();
  command.add_option("--status-file", arguments.status_file,
                     "How things are, as JSON; default RUN_DIR/cni-install.json");
  command
      .add_option("--entry", arguments.keys,
                  "Keys of our entry beside type and capability, as a JSON object (docs/cni.md)")
      ->capture_default_str();
  const std::map<std::string, Method> methods{
      {"edit", Method::kEdit}, {"drop-in", Method::kDropIn}, {"none", Method::kNone}};
  command.add_option("--method", options.method, "edit the first list, drop-in beside it (containerd 2.1), or none")
      ->transform(CLI::CheckedTransformer(methods));
}

std::string status_file(const Arguments& arguments) {
  return arguments.status_file.empty() ? arguments.options.run_dir + "/cni-install.json" : arguments.status_file;
}

bool is_good(const Arguments& arguments, InstallState state) {
  return state == (arguments.uninstall ? InstallState::kUninstalled : InstallState::kInstalled);
}

// Logs what changed and writes it down for the probe.
void tell(podlane::Log& log, const Arguments& arguments, const InstallReport& report, InstallReport& last) {
  if (report.state == last.state && report.message == last.message && report.file == last.file) return;
  const bool newly = report.state != last.state || report.message != last.message;
  const std::string state(to_string(report.state));
  const auto level = report.state == InstallState::kConflict || report.state == InstallState::kRefused
                         ? podlane::LogLevel::kError
                     : report.state == InstallState::kLost ? podlane::LogLevel::kWarn
                                                           : podlane::LogLevel::kInfo;
  last = report;
  if (newly && level == podlane::LogLevel::kError) log.error(report.message, {{"state", state}, {"file", report.file}});
  else if (newly && level == podlane::LogLevel::kWarn)
    log.warn(report.message, {{"state", state}, {"file", report.file}});
  else if (newly) log.info(report.message, {{"state", state}, {"file", report.file}});
  podlane::json::Value value{
      {"state", state}, {"good", is_good(arguments, report.state)}, {"message", report.message}, {"file", report.file}};
  const auto written = podlane::write_file_atomic(status_file(arguments), podlane::json::dump(value) + "\n",
                                                  podlane::Durability::kMemory, 0644);
  if (!written) log.error(written.error().message());
}

void drain(int fd) {
  char events[4096];
  while (::read(fd, events, sizeof(events)) > 0) {
  }
}

int run(const Arguments& arguments) {
  podlane::Log log(STDERR_FILENO, "cni-installer");
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  const podlane::UniqueFd signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  const podlane::UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!signals.valid() || !watch.valid()) {
    log.error("signalfd or inotify_init1 failed");
    return kExitFailed;
  }
  Installer installer(arguments.options, podlane::system_clock());
  InstallReport last;
  for (;;) {
    // Before the look, so that nothing is missed between the two; again each time, as a directory may have been made
    // anew.
    constexpr std::uint32_t kEvents = IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_DELETE;
    for (const std::string* directory : {&arguments.options.conf_dir, &arguments.options.bin_dir}) {
      (void)::inotify_add_watch(watch.get(), directory->c_str(), kEvents);
    }
    tell(log, arguments, arguments.uninstall ? installer.uninstall() : installer.step(), last);
    pollfd ready[]{{.fd = signals.get(), .events = POLLIN, .revents = 0},
                   {.fd = watch.get(), .events = POLLIN, .revents = 0}};
    if (::poll(ready, 2, static_cast<int>(installer.next_step_in().count())) < 0 && errno != EINTR) return kExitFailed;
    // The node stays as it is: an upgrade looks the same from here, and pods that run need the plugin for their DEL.
    if (ready[0].revents != 0) return 0;
    drain(watch.get());
  }
}

int uninstall(const Arguments& arguments) {
  Installer installer(arguments.options, podlane::system_clock());
  const InstallReport report = installer.uninstall();
  std::fprintf(report.state == InstallState::kUninstalled ? stdout : stderr, "%s\n", report.message.c_str());
  return report.state == InstallState::kUninstalled ? 0 : kExitFailed;
}

int status(const Arguments& arguments) {
  const auto text = podlane::read_file(status_file(arguments));
  const auto value = text ? podlane::json::parse(*text) : std::unexpected(text.error());
  if (!value || !value->is_object()) {
    std::fprintf(stderr, "%s\n", value ? "the status file holds no object" : value.error().message().c_str());
    return kExitFailed;
  }
  std::printf("%s", text->c_str());
  return value->value("good", false) ? 0 : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("podlane-cni-installer: keeps podlane's CNI binary and its entry on the node");
  app.set_version_flag("--version", "podlane-cni-installer " PODLANE_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* run_command =
      app.add_subcommand("run", "Install, and watch that it stays so; TERM ends it and changes nothing");
  CLI::App* uninstall_command = app.add_subcommand("uninstall", "Take the entry out of every list, then the binary");
  CLI::App* status_command = app.add_subcommand("status", "Print how things are; exit code 0 when they are as wanted");
  for (CLI::App* command : {run_command, uninstall_command, status_command}) add_options(*command, arguments);
  run_command->add_flag("--uninstall", arguments.uninstall, "Keep the node without the entry instead");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  auto entry = podlane::cni::make_entry(arguments.keys);
  if (!entry) {
    std::fprintf(stderr, "--entry: %s\n", entry.error().message().c_str());
    return 2;
  }
  arguments.options.entry = std::move(*entry);
  if (*status_command) return status(arguments);
  return *uninstall_command ? uninstall(arguments) : run(arguments);
}
