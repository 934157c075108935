#include "tests/kernel/cni/cni_node.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "lib/base/seqpacket.hpp"

namespace podlane::test {

namespace fs = std::filesystem;

DevicePluginStandIn::DevicePluginStandIn(std::string socket_path) : path_(std::move(socket_path)) {
  auto listener = seqpacket_listen(path_, 0600);
  if (!listener) throw std::runtime_error(listener.error().message());
  listener_ = std::move(*listener);
  thread_ = std::thread([this] { serve(); });
}

DevicePluginStandIn::~DevicePluginStandIn() {
  stop_ = true;
  thread_.join();
  ::unlink(path_.c_str());
}

void DevicePluginStandIn::serve() {
  while (!stop_) {
    pollfd entry{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 20) <= 0) continue;
    UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid()) continue;
    auto message = seqpacket_receive(peer.get(), lane::kControlMessageMaxBytes, 1, std::chrono::seconds(2));
    if (!message || message->text.empty()) continue;
    auto request = lane::decode_control_request(message->text);
    lane::ControlAnswer reply;
    if (request) reply = answer(*request, !message->fds.empty());
    else reply.refusal = lane::ControlRefusal{lane::ControlCode::kProtocol, request.error().message()};
    const std::string op = requests().empty() ? "" : requests().back();
    if (!vanishing_op_.empty() && op == vanishing_op_) ::unlink(path_.c_str());
    if (!dropped_op_.empty() && op == dropped_op_) continue;
    if (!late_op_.empty() && op == late_op_) (void)holds_for(late_by_, [&] { return !stop_.load(); });
    (void)seqpacket_send(peer.get(), lane::encode(reply), {}, std::chrono::seconds(2));
  }
}

lane::ControlAnswer DevicePluginStandIn::answer(const lane::ControlRequest& request, bool with_netns) {
  static constexpr const char* kOps[] = {"attach", "commit", "detach", "check", "attachments", "status"};
  const std::lock_guard guard(mutex_);
  const std::string op = kOps[request.index()];
  requests_.push_back(op);
  lane::ControlAnswer reply;
  if (const auto it = refusals_.find(op); it != refusals_.end()) {
    reply.refusal = it->second;
    return reply;
  }
  if (const auto* attach = std::get_if<lane::AttachRequest>(&request)) {
    netns_came_ = with_netns;
    last_attach_ = *attach;
    if (std::ranges::find(attachments_, attach->attachment) == attachments_.end()) {
      attachments_.push_back(attach->attachment);
    }
    reply.lanes = plans_;
  } else if (const auto* commit = std::get_if<lane::CommitRequest>(&request)) {
    last_lanes_ = commit->lanes;
  } else if (const auto* check = std::get_if<lane::CheckRequest>(&request)) {
    last_lanes_ = check->lanes;
  } else if (const auto* detach = std::get_if<lane::DetachRequest>(&request)) {
    std::erase(attachments_, detach->attachment);
  } else if (std::holds_alternative<lane::AttachmentsRequest>(request)) {
    reply.attachments = attachments_;
  }
  return reply;
}

void DevicePluginStandIn::set_plans(std::vector<lane::LanePlan> plans) {
  const std::lock_guard guard(mutex_);
  plans_ = std::move(plans);
}
void DevicePluginStandIn::refuse(const std::string& op, lane::ControlCode code, const std::string& message) {
  const std::lock_guard guard(mutex_);
  refusals_[op] = {code, message};
}
void DevicePluginStandIn::drop_connections_of(const std::string& op) {
  const std::lock_guard guard(mutex_);
  dropped_op_ = op;
}
void DevicePluginStandIn::vanish_at(const std::string& op) {
  const std::lock_guard guard(mutex_);
  dropped_op_ = vanishing_op_ = op;
}
void DevicePluginStandIn::answer_late(const std::string& op, std::chrono::milliseconds after) {
  const std::lock_guard guard(mutex_);
  late_op_ = op;
  late_by_ = after;
}
std::vector<std::string> DevicePluginStandIn::requests() {
  const std::lock_guard guard(mutex_);
  return requests_;
}
std::vector<lane::Attachment> DevicePluginStandIn::attachments() {
  const std::lock_guard guard(mutex_);
  return attachments_;
}
lane::AttachRequest DevicePluginStandIn::last_attach() {
  const std::lock_guard guard(mutex_);
  return last_attach_;
}
std::vector<lane::LaneMade> DevicePluginStandIn::last_lanes() {
  const std::lock_guard guard(mutex_);
  return last_lanes_;
}

std::string program() {
  const char* folder = std::getenv("PODLANE_BIN");
  return std::string(folder != nullptr ? folder : "build/dev/bin") + "/podlane";
}

CniNode::CniNode()
    : dir(fs::temp_directory_path() / random_name("plcni-")),
      socket(dir + "/c.sock"),
      container_id(random_name("pod")),
      pod_path(pod.path()) {
  fs::create_directories(dir);
}

CniNode::~CniNode() {
  fs::remove_all(dir);
}

json::Value CniNode::conf(const std::string& version) const {
  return {{"cniVersion", version},  {"name", "base"},
          {"type", "podlane"},      {"capabilities", {{"io.kubernetes.cri.pod-annotations", true}}},
          {"runDir", dir + "/run"}, {"stateDir", dir + "/state"},
          {"socket", socket},       {"logFile", dir + "/log"}};
}

json::Value CniNode::with_prev(json::Value conf) const {
  const bool old = conf["cniVersion"].get<std::string>().starts_with("0.");
  json::Value address{{"address", "10.244.0.6/24"}, {"gateway", "10.244.0.1"}, {"interface", 1}};
  if (old) address["version"] = "4";
  conf["prevResult"] = {{"cniVersion", conf["cniVersion"]},
                        {"interfaces",
                         {{{"name", "veth1"}, {"mac", "5e:10:c0:59:65:09"}},
                          {{"name", "eth0"}, {"mac", "c6:b0:77:ca:f9:b1"}, {"sandbox", pod_path}}}},
                        {"ips", json::Value::array({address})},
                        {"routes", {{{"dst", "0.0.0.0/0"}}}},
                        {"vendor.example/key", {{"kept", true}}}};
  return conf;
}

json::Value CniNode::annotate(json::Value conf, const json::Value& annotations) const {
  conf["runtimeConfig"]["io.kubernetes.cri.pod-annotations"] = annotations;
  return conf;
}

std::vector<std::string> CniNode::environment(const std::string& command) const {
  return {"CNI_COMMAND=" + command,
          "CNI_CONTAINERID=" + container_id,
          "CNI_NETNS=" + pod_path,
          "CNI_IFNAME=eth0",
          "CNI_PATH=/usr/lib/cni",
          "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=engine-0;K8S_POD_UID=u-1"};
}

CniAnswer CniNode::call(const std::string& command, const json::Value& conf,
                        const std::vector<std::string>& more) const {
  std::vector<std::string> variables = environment(command);
  for (const std::string& extra : more) {
    std::erase_if(variables, [&](const std::string& v) { return v.starts_with(extra.substr(0, extra.find('=') + 1)); });
    variables.push_back(extra);
  }
  const CommandResult result =
      run({program()}, conf.is_string() ? conf.get<std::string>() : json::dump(conf), variables);
  CniAnswer answer{.status = result.status, .out = result.out, .json = {}};
  if (auto value = json::parse(result.out)) answer.json = std::move(*value);
  return answer;
}

bool CniNode::call_killed_at(const std::string& command, const json::Value& conf, const std::string& syscall,
                             int n) const {
  // No -f: the IPAM plugin that our process started lives on, as it would when the runtime is killed.
  const CommandResult result = run({"strace", "-qq", "-o", "/dev/null", "-e", "trace=" + syscall, "-e",
                                    "inject=" + syscall + ":signal=KILL:when=" + std::to_string(n), program()},
                                   json::dump(conf), environment(command));
  return result.status == 128 + 9;
}

lane::LanePlan CniNode::plan(int n, bool with_ipam) const {
  lane::LanePlan plan{.pool = "feed",
                      .index = static_cast<std::uint32_t>(n),
                      .device = "feed-" + std::to_string(n),
                      .kind = lane::Kind::kVeth,
                      .path = lane::Path::kRelay,
                      .mtu = 1400,
                      .subnets = {"10.9.0.0/24", "fd00:9::/64"},
                      .gateways = {"10.9.0.1", "fd00:9::1"},
                      .socket_path = dir + "/lanes/x/" + std::to_string(n) + "/handover.sock"};
  if (with_ipam) {
    plan.ipam = json::Value{{"type", "host-local"},
                            {"dataDir", host_local_dir()},
                            {"ranges", {{{{"subnet", "10.9.0.0/24"}}}, {{{"subnet", "fd00:9::/64"}}}}}};
  } else {
    plan.fixed_addresses = {"10.9.0." + std::to_string(50 + n) + "/24"};
  }
  return plan;
}

std::vector<std::string> CniNode::files(const std::string& folder) const {
  std::vector<std::string> names;
  if (!fs::exists(dir + "/" + folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(dir + "/" + folder)) {
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), dir).string());
  }
  return names;
}

std::string CniNode::leaks() const {
  std::string found;
  for (const char* folder : {"run/attachments", "run/locks", "state"}) {
    for (const std::string& name : files(folder)) found += name + " ";
  }
  for (const std::string& name : files("host-local")) {
    if (name.find("last_reserved_ip") == std::string::npos && !name.ends_with("lock")) found += name + " ";
  }
  if (pod.name().empty()) return found;
  for (const char* kind : {"tun"}) {
    const std::string links = pod.ip(std::string("-o link show type ") + kind);
    if (!links.empty()) found += links;
  }
  for (const char* family : {"-4", "-6"}) {
    const std::string rules = must_run("ip " + std::string(family) + " -n " + pod.name() + " rule");
    if (rules.find(" lookup 2") != std::string::npos) found += rules;
  }
  return found;
}

}  // namespace podlane::test
