#include "ctl/onload.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "ctl/commands.hpp"
#include "lib/base/file.hpp"
#include "lib/json/json.hpp"

namespace podlane::ctl {

namespace {

constexpr int kExitWarnings = 3;  // Nothing but warnings.
constexpr std::size_t kMaxEnviron = 4 << 20;

struct Options {
  std::string mode;
  bool af_xdp = false, native = false, yaml = false;
  std::string pid;
  std::vector<std::string> words;
};

int failed(const Error& error) {
  std::fprintf(stderr, "podlanectl: %s\n", error.message().c_str());
  return kExitFailed;
}

int report(const std::vector<onload::Finding>& findings, std::FILE* to) {
  std::fputs(render_findings(findings).c_str(), to);
  if (findings.empty()) return 0;
  const bool is_wrong = std::any_of(findings.begin(), findings.end(), [](const onload::Finding& finding) {
    return finding.severity == onload::Severity::kError;
  });
  return is_wrong ? kExitFailed : kExitWarnings;
}

int run_env(const Options& options) {
  const auto mode = lane::parse_mode(options.mode);
  if (!mode) return failed(mode.error());
  const auto extra = parse_assignments(options.words);
  if (!extra) return failed(extra.error());
  const auto transport = options.af_xdp ? onload::Transport::kAfXdp : onload::Transport::kNative;
  const auto built = onload::environment(*mode, transport, *extra);
  // Whoever pastes the output into a pod does not read the lines of a check: what is wrong prints no environment.
  const int status = report(onload::validate(built, {*mode, transport}), stderr);
  if (status == kExitFailed) return status;
  std::fputs(render_environment(built, options.yaml ? OnloadFormat::kYaml : OnloadFormat::kShell).c_str(), stdout);
  return 0;
}

int run_check(const Options& options) {
  onload::Circumstances circumstances;
  if (!options.mode.empty()) {
    const auto mode = lane::parse_mode(options.mode);
    if (!mode) return failed(mode.error());
    circumstances.mode = *mode;
  }
  if (options.af_xdp || options.native) {
    circumstances.transport = options.af_xdp ? onload::Transport::kAfXdp : onload::Transport::kNative;
  }
  auto environment = parse_assignments(options.words);
  if (!environment) return failed(environment.error());
  if (!options.pid.empty()) {
    const auto bytes = read_file("/proc/" + options.pid + "/environ", kMaxEnviron);
    if (!bytes) return failed(bytes.error());
    for (auto& one : parse_environ(*bytes)) environment->push_back(std::move(one));
  }
  const auto findings = onload::validate(*environment, circumstances);
  const int status = report(findings, stdout);
  if (findings.empty()) std::printf("nothing is wrong; EF_* variables set: %zu\n", environment->size());
  return status;
}

}  // namespace

Result<onload::Environment> parse_assignments(const std::vector<std::string>& words) {
  onload::Environment environment;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !word.starts_with("EF_")) {
      return fail(Errc::kInvalid, "'" + word + "' must be an option of Onload and its value, such as EF_POLL_USEC=50");
    }
    const std::string name = word.substr(0, equals);
    if (onload::find(environment, name) != nullptr) return fail(Errc::kInvalid, name + " is given twice");
    environment.emplace_back(name, word.substr(equals + 1));
  }
  return environment;
}

onload::Environment parse_environ(std::string_view bytes) {
  onload::Environment environment;
  while (!bytes.empty()) {
    const std::string_view word = bytes.substr(0, bytes.find('\0'));
    bytes.remove_prefix(std::min(bytes.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    if (equals == word.npos || !word.starts_with("EF_")) continue;
    const std::string name(word.substr(0, equals));
    // getenv() takes the first.
    if (onload::find(environment, name) == nullptr) environment.emplace_back(name, word.substr(equals + 1));
  }
  return environment;
}

std::string render_environment(const onload::Environment& environment, OnloadFormat format) {
  std::string text;
  for (const auto& [name, value] : environment) {
    if (format == OnloadFormat::kShell) text += name + "=" + value + "\n";
    // A JSON string is one of YAML's too, and a number must be in quotes there.
    else text += "- {name: " + name + ", value: " + json::dump(json::Value(value)) + "}\n";
  }
  return text;
}

std::string render_findings(const std::vector<onload::Finding>& findings) {
  std::string text;
  for (const onload::Severity severity : {onload::Severity::kError, onload::Severity::kWarning}) {
    for (const onload::Finding& finding : findings) {
      if (finding.severity != severity) continue;
      text += std::string(onload::to_string(severity)) + " " + finding.rule + ": " + finding.message + "\n";
    }
  }
  return text;
}

void register_onload(CLI::App& app, int& status) {
  CLI::App* const onload = app.add_subcommand("onload", "Environments of Onload (docs/onload.md)");
  onload->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  CLI::App* const env = onload->add_subcommand("env", "Print a mode's whole environment, to be put into a pod by hand");
  env->add_option("--mode", options->mode, "spinning, interrupt or adaptive")->required();
  env->add_flag("--yaml", options->yaml, "As entries of a container's env");
  CLI::App* const check = onload->add_subcommand(
      "check", "Say what is wrong with an environment; exit 0 nothing, 1 errors, 3 warnings alone");
  check->add_option("--mode", options->mode, "The mode that is meant");
  check->add_option("--pid", options->pid, "Of a running process")->check(CLI::PositiveNumber);
  check->add_flag("--native", options->native, "The NIC is Onload's own")
      ->excludes(check->add_flag("--af-xdp", options->af_xdp, "The NIC is reached by AF_XDP"));
  env->add_flag("--af-xdp", options->af_xdp, "For a NIC that Onload reaches by AF_XDP");
  for (CLI::App* const command : {env, check}) {
    command->add_option("variables", options->words, "EF_NAME=VALUE, which win over the mode's");
  }
  env->callback([options, &status] { status = run_env(*options); });
  check->callback([options, &status] { status = run_check(*options); });
}

}  // namespace podlane::ctl
