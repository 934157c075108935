// STATUS comes every five seconds, and an error turns the node NotReady with all its pods: so it says nothing against
// the node unless the operator asked for that (statusPolicy "daemon").
#include "cni/plugin/control.hpp"
#include "cni/plugin/lane_work.hpp"
#include "cni/plugin/verbs.hpp"

namespace podlane::cni {

CniResult<std::string> cmd_status(const Call& call) {
  if (call.conf.version < Version::k1_1_0) {
    return fail(CniCode::kIncompatibleVersion, "STATUS needs cniVersion 1.1.0 or later");
  }
  if (!call.conf.status_from_daemon) return std::string();
  const auto answer =
      ask_device_plugin(call, lane::StatusRequest{}, -1, call.deadline.left(std::chrono::milliseconds(2000)));
  if (!answer) return fail(CniCode::kNotAvailable, answer.error().message);
  if (call.conf.ipam_type) {
    const auto ipam = journal::call_ipam(own_ipam_call(call), "STATUS",
                                         {.timeout = call.deadline.left(std::chrono::milliseconds(2000))});
    if (!ipam && !journal::does_not_know_verb(ipam.error())) return fail(CniCode::kNotAvailable, ipam.error().error);
  }
  return std::string();
}

CniResult<std::string> cmd_version(std::string_view stdin_text) {
  std::string version(kNewestVersion);
  if (const auto value = json::parse(stdin_text); value && value->is_object()) {
    const auto reader = json::Reader::open(*value, "");
    if (const auto asked = reader->optional_string("cniVersion"); asked && *asked) version = **asked;
  }
  json::Value supported = json::Value::array();
  for (const std::string_view name : kVersionNames) supported.push_back(name);
  return json::dump({{"cniVersion", version}, {"supportedVersions", std::move(supported)}});
}

}  // namespace podlane::cni
