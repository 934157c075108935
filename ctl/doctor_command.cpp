// podlanectl doctor: what makes this node slow, why, and which command mends it. It changes nothing.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "ctl/commands.hpp"
#include "ctl/doctor/doctor.hpp"
#include "ctl/doctor/render.hpp"
#include "lib/base/file.hpp"
#include "nodeconfig/snapshot.hpp"

namespace podlane::ctl {

namespace {

constexpr std::size_t kMaxSnapshotBytes = 256 << 20;

struct Options {
  std::string root = "/", snapshot, pod, nic, cpus;
  bool as_json = false, all = false, no_probe = false, table = false;
};

int failed(const Error& error) {
  std::fprintf(stderr, "podlanectl: %s\n", error.message().c_str());
  return doctor::kExitCannotLook;
}

Result<nodeconfig::Tree> open_tree(const Options& options) {
  if (options.snapshot.empty()) return nodeconfig::Tree::open(options.root);
  PODLANE_TRY_ASSIGN(const std::string tar, read_file(options.snapshot, kMaxSnapshotBytes));
  PODLANE_TRY_ASSIGN(nodeconfig::Recording recording, nodeconfig::recording_of(tar));
  return nodeconfig::Tree::replay(std::move(recording));
}

int run_doctor(const Options& options) {
  if (options.table) {
    std::fputs(doctor::render_table().c_str(), stdout);
    return 0;
  }
  const auto cpus = nodeconfig::CpuSet::parse_list(options.cpus);
  if (!cpus) return failed(Error(cpus.error()).with("--cpus"));
  const auto tree = open_tree(options);
  if (!tree) return failed(tree.error());
  // What is measured is this machine: of another root it would say nothing.
  const bool may_measure = !options.no_probe && options.root == "/" && options.snapshot.empty();
  const auto report =
      doctor::consult(*tree, {.pod = options.pod, .nic = options.nic, .cpus = *cpus, .may_measure = may_measure});
  if (!report) return failed(report.error());
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  const std::string text =
      options.as_json ? doctor::render_json(report->findings)
                      : doctor::render_text(report->findings, report->head, {.all = options.all, .colour = colour});
  std::fputs(text.c_str(), stdout);
  return doctor::exit_status(report->findings);
}

}  // namespace

void register_doctor(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("doctor", "What makes this node slow, why, and which command mends it; changes nothing");
  command->add_option("--pod", options->pod, "NAMESPACE/NAME or NAME of a pod with lanes");
  command->add_option("--nic", options->nic, "Only this interface");
  command->add_option("--cpus", options->cpus, "CPUs that are meant for lanes, as 4-15");
  command->add_option("--root", options->root, "Where the node's /sys, /proc, /etc and /run are")
      ->capture_default_str();
  command->add_option("--snapshot", options->snapshot, "A tar of podlane-nodeconfig snapshot, instead of this node");
  command->add_flag("--json", options->as_json, "As JSON, an array of every check");
  command->add_flag("--all", options->all, "What passes too");
  command->add_flag("--no-probe", options->no_probe, "Measure nothing");
  command->add_flag("--table", options->table, "Every check as a table, for docs/doctor.md");
  command->callback([options, &status] { status = run_doctor(*options); });
}

}  // namespace podlane::ctl
