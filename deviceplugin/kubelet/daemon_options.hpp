// The command line of podlane-deviceplugin.
#pragma once

#include <string>
#include <variant>

#include "lib/base/log.hpp"

namespace podlane::dp {

// Exit codes of the program, told by --help.
inline constexpr int kExitFailed = 1;  // Could not start or go on; the log says why.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitConfig = 3;  // The configuration is wrong.
inline constexpr int kExitLocked = 4;  // Another device plugin runs on the same run directory.

struct DaemonOptions {
  std::string config;
  bool check_config = false;
  std::string kubelet_dir = "/var/lib/kubelet";
  std::string run_dir = "/run/podlane";
  std::string state_dir = "/var/lib/podlane";
  std::string bpffs = "/sys/fs/bpf/podlane";
  std::string host_root;
  std::string http = "127.0.0.1:9470";
  std::string log_level = "info";
};

// The options, or the exit code after --help, --version or an error, which are printed.
std::variant<DaemonOptions, int> parse_command_line(int argc, char** argv);

}  // namespace podlane::dp
