#include "cni/plugin/control.hpp"

namespace podlane::cni {

namespace {

CniCode code_of(lane::ControlCode code) {
  switch (code) {
    case lane::ControlCode::kNoLane: return CniCode::kNoLane;
    case lane::ControlCode::kGone: return CniCode::kGone;
    case lane::ControlCode::kRefused: return CniCode::kRefused;
    case lane::ControlCode::kNotReady: return CniCode::kTryAgainLater;
    case lane::ControlCode::kProtocol: return CniCode::kProtocol;
    case lane::ControlCode::kInternal: return CniCode::kInternal;
  }
  return CniCode::kInternal;
}

}  // namespace

CniResult<lane::ControlAnswer> granted(Result<lane::ControlAnswer> answer) {
  if (!answer && answer.error().code() == Errc::kUnavailable) {
    return fail(CniCode::kTryAgainLater,
                "the device plugin is not reachable, and this pod asks for lanes: " + answer.error().message());
  }
  if (!answer && answer.error().code() == Errc::kIo) return fail(CniCode::kTryAgainLater, answer.error());
  if (!answer) return fail(CniCode::kProtocol, answer.error());
  if (answer->refusal) return std::unexpected(CniError(code_of(answer->refusal->code), answer->refusal->message));
  return std::move(*answer);
}

CniResult<lane::ControlAnswer> ask_device_plugin(const Call& call, const lane::ControlRequest& request, int netns_fd,
                                                 std::chrono::milliseconds timeout) {
  return granted(lane::control_call(call.conf.socket, request, netns_fd, timeout));
}

}  // namespace podlane::cni
