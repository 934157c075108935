#include "cni/plugin/dispatch.hpp"

#include <fcntl.h>

#include "cni/plugin/verbs.hpp"

namespace podlane::cni {

namespace {

struct OpenLog {
  UniqueFd file;
  Log log;
};

// A log file that cannot be opened is no reason to keep a pod from starting.
OpenLog open_log(const NetConf& conf, int fallback_fd) {
  UniqueFd file;
  if (!conf.log_file.empty()) {
    file.reset(::open(conf.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  const int fd = file.valid() ? file.get() : fallback_fd;
  return {std::move(file), Log(fd, "cni", conf.log_level)};
}

CniResult<std::string> run_verb(const CniArgs& args, const NetConf& conf, Log& log) {
  const journal::Journal journal(conf.run_dir, conf.state_dir);
  const bool is_del = args.command == Command::kDel;
  const Call call{.args = args,
                  .conf = conf,
                  .journal = journal,
                  .log = log,
                  .deadline = Deadline(is_del ? kDelTimeout : kAddTimeout)};
  switch (args.command) {
    case Command::kAdd: return cmd_add(call);
    case Command::kDel: return cmd_del(call);
    case Command::kCheck: return cmd_check(call);
    case Command::kGc: return cmd_gc(call);
    case Command::kStatus: return cmd_status(call);
    case Command::kVersion: break;
  }
  return std::string();
}

CniResult<std::string> run(const EnvironmentReader& environment, std::string_view stdin_text, int log_fd,
                           std::string& version) {
  PODLANE_TRY_ASSIGN(const CniArgs args, read_cni_args(environment));
  if (args.command == Command::kVersion) return cmd_version(stdin_text);
  const bool tolerant = args.command == Command::kDel || args.command == Command::kGc;
  PODLANE_TRY_ASSIGN(const NetConf conf,
                     parse_net_conf(stdin_text, tolerant ? Strictness::kTolerant : Strictness::kStrict));
  version = to_string(conf.version);
  OpenLog open = open_log(conf, log_fd);
  auto outcome = run_verb(args, conf, open.log);
  if (!outcome) {
    open.log.error("refused", {{"container_id", args.container_id},
                               {"ifname", args.ifname},
                               {"code", std::to_string(outcome.error().code)},
                               {"err", outcome.error().message}});
  }
  return outcome;
}

}  // namespace

Outcome dispatch(const EnvironmentReader& environment, std::string_view stdin_text, int log_fd) {
  std::string version(kNewestVersion);
  auto outcome = run(environment, stdin_text, log_fd, version);
  if (!outcome) return {.exit_status = 1, .output = to_json(outcome.error(), version)};
  return {.exit_status = 0, .output = std::move(*outcome)};
}

}  // namespace podlane::cni
