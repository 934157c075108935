#include "deviceplugin/kubelet/daemon_options.hpp"

#include <CLI/CLI.hpp>

namespace podlane::dp {

std::variant<DaemonOptions, int> parse_command_line(int argc, char** argv) {
  DaemonOptions options;
  CLI::App app(
      "podlane's device plugin: offers the pools of its configuration to the kubelet, builds lanes and hands "
      "them over to pods.\n");
  app.set_version_flag("--version", "podlane-deviceplugin " PODLANE_VERSION);
  app.add_option("--config", options.config, "Pools, as JSON (docs/config.md)")->required();
  app.add_flag("--check-config", options.check_config, "Check the configuration, say what is wrong, and exit");
  app.add_option("--kubelet-dir", options.kubelet_dir, "The kubelet's directory")->capture_default_str();
  app.add_option("--run-dir", options.run_dir, "Sockets and journal, on tmpfs")->capture_default_str();
  app.add_option("--state-dir", options.state_dir, "What survives a reboot")->capture_default_str();
  app.add_option("--bpffs", options.bpffs, "Pins; a directory on a bpf file system")->capture_default_str();
  app.add_option("--host-root", options.host_root,
                 "Where the host's /dev and /usr are mounted, for pools of kind onload; empty: at /");
  app.add_option("--http", options.http,
                 "Where /healthz, /readyz and /metrics are served: ADDRESS:PORT, unix:/PATH or off")
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "debug, info, warn or error")->capture_default_str();
  app.footer(
      "Logs are JSON lines on standard error. Exit codes: 0 stopped by a signal, or the configuration is right;\n"
      "1 could not start or go on; 2 wrong command line; 3 wrong configuration; 4 another device plugin runs on\n"
      "the same run directory.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return options;
}

}  // namespace podlane::dp
