#include <cstdio>

#include "lib/base/file.hpp"
#include "lib/base/seqpacket.hpp"
#include "tests/kubelet/control.hpp"

namespace podlane::testkubelet {

namespace {

// Longer than any operation: a pod may take the runtime two minutes, a command an hour.
constexpr std::chrono::milliseconds kPatience{4000000};

Result<json::Value> request_of(const std::vector<std::string>& words) {
  const std::string& op = words[0];
  if (op.starts_with('{')) return json::parse(op);
  json::Value out{{"op", op}};
  std::size_t at = 1;
  if (op == "run-pod" || op == "admit-pod") {
    if (words.size() != 2) return fail(Errc::kInvalid, op + " FILE: the pod as JSON, - for standard input");
    PODLANE_TRY_ASSIGN(const std::string text,
                       words[1] == "-" ? read_fd(0, 1 << 20, "standard input") : read_file(words[1]));
    PODLANE_TRY_ASSIGN(out["spec"], json::parse(text));
    return out;
  }
  if (at < words.size() && words[at].find('/') != std::string::npos) out["pod"] = words[at++];
  if (at < words.size() && words[at] != "--" && words[at].find('=') == std::string::npos)
    out["container"] = words[at++];
  for (; at < words.size() && words[at] != "--"; ++at) {
    const std::size_t equals = words[at].find('=');
    if (equals == std::string::npos) return fail(Errc::kInvalid, "'" + words[at] + "' is not KEY=VALUE");
    const auto value = json::parse(words[at].substr(equals + 1));
    out[words[at].substr(0, equals)] = value ? *value : json::Value(words[at].substr(equals + 1));
  }
  if (at < words.size())
    out["command"] = std::vector<std::string>(words.begin() + static_cast<long>(at) + 1, words.end());
  return out;
}

}  // namespace

Result<json::Value> control_call(const std::string& socket, const json::Value& request) {
  PODLANE_TRY_ASSIGN(const UniqueFd connection, seqpacket_connect(socket, std::chrono::seconds(5)));
  PODLANE_TRY(seqpacket_send(connection.get(), json::dump(request), {}, std::chrono::seconds(5)));
  PODLANE_TRY_ASSIGN(const SeqpacketMessage answer,
                     seqpacket_receive(connection.get(), kMaxControlBytes, 0, kPatience));
  return json::parse(answer.text);
}

int control_main(const std::string& socket, const std::vector<std::string>& words) {
  const auto request = request_of(words);
  const auto answer = request ? control_call(socket, *request) : request;
  if (!answer) {
    std::fprintf(stderr, "%s\n", answer.error().message().c_str());
    return 2;
  }
  if (!answer->value("ok", false)) {
    std::fprintf(stderr, "%s\n", answer->value("message", "").c_str());
    return 1;
  }
  if (answer->contains("exitCode")) {  // exec: as if the command had run here.
    std::fputs(answer->value("stdout", "").c_str(), stdout);
    std::fputs(answer->value("stderr", "").c_str(), stderr);
    return answer->value("exitCode", 0);
  }
  json::Value shown = *answer;
  shown.erase("ok");
  if (!shown.empty()) std::printf("%s\n", shown.dump(2).c_str());
  return 0;
}

}  // namespace podlane::testkubelet
