// podlanectl: the operator's commands.
#include <cstdio>

#ifdef PODLANE_CTL_BENCH
#include "ctl/bench_command.hpp"
#endif
#include "ctl/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app("podlanectl: what podlane does on this node");
  app.set_version_flag("--version", "podlanectl " PODLANE_VERSION);
  app.require_subcommand(1);
  int exit_status = 0;
  podlane::ctl::register_lanes(app, exit_status);
  podlane::ctl::register_onload(app, exit_status);
#ifndef PODLANE_CTL_IN_POD
  podlane::ctl::register_doctor(app, exit_status);
#endif
#ifdef PODLANE_CTL_BENCH
  podlane::ctl::register_bench(app, exit_status);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    return app.exit(error) == 0 || is_help ? 0 : podlane::ctl::kExitUsage;
  }
  return exit_status;
}
