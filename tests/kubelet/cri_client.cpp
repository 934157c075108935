#include "tests/kubelet/cri_client.hpp"

#include "lib/json/json.hpp"

namespace podlane::testkubelet {

namespace {

namespace cri = runtime::v1;
using Stub = cri::RuntimeService::Stub;
constexpr std::chrono::seconds kPatience{120};  // A kubelet waits 2 minutes for a runtime (runtimeRequestTimeout).

template <typename Request, typename Answer>
Result<void> call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Answer*),
                  const char* name, const Request& request, Answer& answer,
                  std::chrono::seconds extra = std::chrono::seconds(0)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience + extra);
  const grpc::Status status = (stub.*method)(&context, request, &answer);
  if (status.ok()) return {};
  return fail(status.error_code() == grpc::StatusCode::NOT_FOUND ? Errc::kNotFound : Errc::kIo,
              std::string(name) + ": " + status.error_message());
}

// What the runtime says beyond the API, as JSON; null when it says nothing or something else.
json::Value verbose(const google::protobuf::Map<std::string, std::string>& info) {
  const auto found = info.find("info");
  if (found == info.end()) return {};
  const auto parsed = json::parse(found->second);
  return parsed ? *parsed : json::Value();
}

}  // namespace

CriClient::CriClient(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetMaxReceiveMessageSize(16 << 20);
  stub_ = cri::RuntimeService::NewStub(
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
}

Result<std::string> CriClient::version() {
  cri::VersionRequest request;
  cri::VersionResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::Version, "Version", request, answer));
  return answer.runtime_name() + " " + answer.runtime_version();
}

Result<std::string> CriClient::run_sandbox(const cri::PodSandboxConfig& config) {
  cri::RunPodSandboxRequest request;
  *request.mutable_config() = config;
  cri::RunPodSandboxResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::RunPodSandbox, "RunPodSandbox", request, answer));
  return answer.pod_sandbox_id();
}

Result<void> CriClient::stop_sandbox(const std::string& id) {
  cri::StopPodSandboxRequest request;
  request.set_pod_sandbox_id(id);
  cri::StopPodSandboxResponse answer;
  return call(*stub_, &Stub::StopPodSandbox, "StopPodSandbox", request, answer);
}

Result<void> CriClient::remove_sandbox(const std::string& id) {
  cri::RemovePodSandboxRequest request;
  request.set_pod_sandbox_id(id);
  cri::RemovePodSandboxResponse answer;
  return call(*stub_, &Stub::RemovePodSandbox, "RemovePodSandbox", request, answer);
}

Result<SandboxState> CriClient::sandbox(const std::string& id) {
  cri::PodSandboxStatusRequest request;
  request.set_pod_sandbox_id(id);
  request.set_verbose(true);
  cri::PodSandboxStatusResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::PodSandboxStatus, "PodSandboxStatus", request, answer));
  SandboxState out{
      .ready = answer.status().state() == cri::SANDBOX_READY, .ip = answer.status().network().ip(), .netns = {}};
  const json::Value info = verbose(answer.info());
  const json::Value namespaces = info.value(json::Value::json_pointer("/runtimeSpec/linux/namespaces"), json::Value());
  for (const auto& one : namespaces) {
    if (one.is_object() && one.value("type", "") == "network") out.netns = one.value("path", "");
  }
  return out;
}

Result<std::string> CriClient::create_container(const std::string& sandbox, const cri::ContainerConfig& config,
                                                const cri::PodSandboxConfig& sandbox_config) {
  cri::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox);
  *request.mutable_config() = config;
  *request.mutable_sandbox_config() = sandbox_config;
  cri::CreateContainerResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::CreateContainer, "CreateContainer", request, answer));
  return answer.container_id();
}

Result<void> CriClient::start_container(const std::string& id) {
  cri::StartContainerRequest request;
  request.set_container_id(id);
  cri::StartContainerResponse answer;
  return call(*stub_, &Stub::StartContainer, "StartContainer", request, answer);
}

Result<void> CriClient::stop_container(const std::string& id, std::chrono::seconds grace) {
  cri::StopContainerRequest request;
  request.set_container_id(id);
  request.set_timeout(grace.count());
  cri::StopContainerResponse answer;
  return call(*stub_, &Stub::StopContainer, "StopContainer", request, answer, grace);
}

Result<void> CriClient::remove_container(const std::string& id) {
  cri::RemoveContainerRequest request;
  request.set_container_id(id);
  cri::RemoveContainerResponse answer;
  return call(*stub_, &Stub::RemoveContainer, "RemoveContainer", request, answer);
}

Result<ContainerState> CriClient::container(const std::string& id) {
  cri::ContainerStatusRequest request;
  request.set_container_id(id);
  request.set_verbose(true);
  cri::ContainerStatusResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::ContainerStatus, "ContainerStatus", request, answer));
  static constexpr const char* kStates[] = {"created", "running", "exited", "unknown"};
  const int state = answer.status().state();
  ContainerState out{.state = state >= 0 && state < 4 ? kStates[state] : "unknown",
                     .exit_code = answer.status().exit_code(),
                     .reason = answer.status().reason()};
  const json::Value info = verbose(answer.info());
  if (info.is_object()) out.pid = info.value("pid", 0);
  return out;
}

Result<ExecResult> CriClient::exec(const std::string& id, const std::vector<std::string>& command,
                                   std::chrono::seconds limit) {
  cri::ExecSyncRequest request;
  request.set_container_id(id);
  for (const std::string& word : command) request.add_cmd(word);
  request.set_timeout(limit.count());
  cri::ExecSyncResponse answer;
  PODLANE_TRY(call(*stub_, &Stub::ExecSync, "ExecSync", request, answer, limit));
  return ExecResult{.out = answer.stdout(), .err = answer.stderr(), .exit_code = answer.exit_code()};
}

}  // namespace podlane::testkubelet
