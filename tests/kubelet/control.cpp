#include "tests/kubelet/control.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/seqpacket.hpp"

namespace podlane::testkubelet {

namespace {

using std::chrono::seconds;

constexpr std::chrono::milliseconds kSocketPatience{10000};

Result<json::Value> restart(const json::Reader& request, DeviceManager& devices) {
  PODLANE_TRY_ASSIGN(const auto away_ms, request.optional_integer("awayMs", 0, 600000));
  devices.stop();
  ::poll(nullptr, 0, static_cast<int>(away_ms.value_or(0)));  // The outage that was asked for.
  PODLANE_TRY(devices.start());
  return json::Value::object();
}

json::Value resource_status(const DeviceManager& devices) {
  json::Value out = json::Value::object();
  for (const ResourceStatus& one : devices.status()) {
    json::Value health = json::Value::object();
    for (const auto& [id, state] : one.devices) health[id] = state;
    out[one.resource] = {{"endpoint", one.endpoint},   {"connected", one.connected},
                         {"capacity", one.capacity},   {"allocatable", one.allocatable},
                         {"allocated", one.allocated}, {"registrations", one.registrations},
                         {"lists", one.lists},         {"devices", health}};
  }
  return out;
}

Result<json::Value> exec(const json::Reader& request, PodManager& pods, const std::string& pod,
                         const std::string& container) {
  PODLANE_TRY_ASSIGN(const auto command, request.optional_strings("command"));
  PODLANE_TRY_ASSIGN(const auto limit, request.optional_integer("timeoutSeconds", 1, 3600));
  PODLANE_TRY_ASSIGN(ExecResult result, pods.exec(pod, container, command, seconds(limit.value_or(60))));
  // The end of a long output is what is looked for.
  constexpr std::size_t kMaxOutput = 80000;
  for (std::string* text : {&result.out, &result.err}) {
    if (text->size() > kMaxOutput) text->erase(0, text->size() - kMaxOutput);
  }
  return json::Value{{"stdout", result.out}, {"stderr", result.err}, {"exitCode", result.exit_code}};
}

Result<json::Value> empty(const Result<void>& done) {
  if (!done) return std::unexpected(done.error());
  return json::Value::object();
}

Result<json::Value> dispatch(const json::Value& value, DeviceManager& devices, PodManager& pods) {
  PODLANE_TRY_ASSIGN(const json::Reader request, json::Reader::open(value, "request"));
  PODLANE_TRY_ASSIGN(const std::string op, request.string("op"));
  PODLANE_TRY_ASSIGN(const auto pod, request.optional_string("pod"));
  PODLANE_TRY_ASSIGN(const auto container, request.optional_string("container"));
  PODLANE_TRY_ASSIGN(const auto grace, request.optional_integer("graceSeconds", 0, 600));
  PODLANE_TRY_ASSIGN(const auto old_one_first, request.optional_boolean("oldFirst"));
  const json::Value* spec = request.find("spec");
  const std::string name = pod.value_or("");
  const std::string in = container.value_or("");
  if (op == "status") return json::Value{{"resources", resource_status(devices)}, {"pods", pods.status()}};
  if (op == "resources") return json::Value{{"resources", resource_status(devices)}};
  if (op == "restart") return restart(request, devices);
  if (op == "run-pod" || op == "admit-pod") {
    if (spec == nullptr) return fail(Errc::kInvalid, "request.spec: the pod is missing");
    return op == "run-pod" ? pods.run(*spec) : pods.admit(*spec);
  }
  if (op == "pre-start") return empty(pods.pre_start(name, in));
  if (op == "restart-container") return empty(pods.restart_container(name, in, seconds(grace.value_or(0))));
  if (op == "new-sandbox") return empty(pods.new_sandbox(name, old_one_first.value_or(true)));
  if (op == "remove-pod") return empty(pods.remove(name, seconds(grace.value_or(2))));
  if (op == "forget-pod") return empty(pods.forget(name));
  if (op == "exec") return exec(request, pods, name, in);
  return fail(Errc::kInvalid, "request.op '" + op +
                                  "' is not one of status, resources, restart, run-pod, admit-pod, pre-start, "
                                  "restart-container, new-sandbox, remove-pod, forget-pod, exec");
}

}  // namespace

json::Value handle(const json::Value& request, DeviceManager& devices, PodManager& pods) {
  auto answer = dispatch(request, devices, pods);
  if (!answer) return {{"ok", false}, {"message", answer.error().message()}};
  json::Value out{{"ok", true}};
  out.update(*answer);
  return out;
}

ControlServer::ControlServer(UniqueFd listener, std::string path, Handler handler)
    : listener_(std::move(listener)), path_(std::move(path)), handler_(std::move(handler)) {
  thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& path, Handler handler) {
  PODLANE_TRY_ASSIGN(UniqueFd listener, seqpacket_listen(path, 0600));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(listener), path, std::move(handler)));
}

ControlServer::~ControlServer() {
  stopping_ = true;
  thread_.join();
  while (busy_ > 0) ::poll(nullptr, 0, 5);
  ::unlink(path_.c_str());
}

void ControlServer::run() {
  while (!stopping_) {
    pollfd ready{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid()) continue;
    ++busy_;
    std::thread([this, connection = std::move(connection)] {
      const auto message = seqpacket_receive(connection.get(), kMaxControlBytes, 0, kSocketPatience);
      json::Value answer{{"ok", false}, {"message", "the request does not parse as JSON"}};
      if (message) {
        if (const auto request = json::parse(message->text)) answer = handler_(*request);
      }
      [[maybe_unused]] const auto sent = seqpacket_send(connection.get(), json::dump(answer), {}, kSocketPatience);
      --busy_;
    }).detach();
  }
}

}  // namespace podlane::testkubelet
