#include "cni/spec/cni_args.hpp"

#include <algorithm>
#include <array>

namespace podlane::cni {

namespace {

constexpr std::array<std::pair<std::string_view, Command>, 6> kCommands{{{"ADD", Command::kAdd},
                                                                         {"DEL", Command::kDel},
                                                                         {"CHECK", Command::kCheck},
                                                                         {"GC", Command::kGc},
                                                                         {"STATUS", Command::kStatus},
                                                                         {"VERSION", Command::kVersion}}};

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

CniResult<Command> parse_command(const std::string& text) {
  for (const auto& [name, command] : kCommands) {
    if (name == text) return command;
  }
  return fail(CniCode::kInvalidEnvironment,
              "CNI_COMMAND '" + text + "' must be one of ADD, DEL, CHECK, GC, STATUS, VERSION");
}

// Keys that we do not know are left alone whether IgnoreUnknown is there or not: they may be meant for other plugins.
void read_kubernetes_args(CniArgs& args) {
  std::string_view rest = args.args;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = pair.substr(0, equals);
    const std::string value(pair.substr(equals + 1));
    if (key == "K8S_POD_NAMESPACE") args.pod_namespace = value;
    if (key == "K8S_POD_NAME") args.pod_name = value;
    if (key == "K8S_POD_UID") args.pod_uid = value;
    if (!key.starts_with("K8S_") && key != "IgnoreUnknown") continue;
    args.kubernetes_args.append(args.kubernetes_args.empty() ? "" : ";").append(pair);
  }
}

CniResult<void> check_attachment(const CniArgs& args) {
  if (!is_cni_name(args.container_id)) {
    return fail(CniCode::kInvalidEnvironment,
                "CNI_CONTAINERID '" + args.container_id +
                    "' must begin alphanumeric and hold only alphanumerics, '_', '.', '-'");
  }
  if (!is_interface_name(args.ifname)) {
    return fail(CniCode::kInvalidEnvironment,
                "CNI_IFNAME '" + args.ifname + "' must be an interface name of 1 to 15 bytes without '/', ':', blanks");
  }
  if (args.netns.empty() && args.command != Command::kDel) {
    return fail(CniCode::kInvalidEnvironment,
                "CNI_NETNS is missing; it must be the path of the pod's network namespace");
  }
  return {};
}

}  // namespace

bool is_interface_name(std::string_view name) {
  if (name.empty() || name.size() > 15 || name == "." || name == "..") return false;
  return std::ranges::none_of(name,
                              [](char c) { return c == '/' || c == ':' || static_cast<unsigned char>(c) <= ' '; });
}

bool is_cni_name(std::string_view name) {
  if (name.empty() || !is_alphanumeric(name.front())) return false;
  return std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

CniResult<CniArgs> read_cni_args(const EnvironmentReader& environment) {
  const auto text = [&](const char* name) { return environment(name).value_or(""); };
  CniArgs args;
  PODLANE_TRY_ASSIGN(args.command, parse_command(text("CNI_COMMAND")));
  args.container_id = text("CNI_CONTAINERID");
  args.netns = text("CNI_NETNS");
  args.ifname = text("CNI_IFNAME");
  args.path = text("CNI_PATH");
  args.args = text("CNI_ARGS");
  const std::string override = text("CNI_NETNS_OVERRIDE");
  args.netns_override = override == "1" || (override.size() == 4 && (override[0] | 0x20) == 't');
  read_kubernetes_args(args);
  if (args.command == Command::kAdd || args.command == Command::kDel || args.command == Command::kCheck) {
    PODLANE_TRY(check_attachment(args));
  }
  return args;
}

}  // namespace podlane::cni
