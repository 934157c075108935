// The device plugin's refusals as CNI errors (docs/control-protocol.md, table of codes).
#pragma once

#include "cni/plugin/call.hpp"
#include "lib/lane/control_client.hpp"

namespace podlane::cni {

// The answer, or the CNI error for what came instead: a refusal, or none. kTryAgainLater when the device plugin is not
// there or does not answer.
CniResult<lane::ControlAnswer> granted(Result<lane::ControlAnswer> answer);

// control_call() and granted() in one.
CniResult<lane::ControlAnswer> ask_device_plugin(const Call& call, const lane::ControlRequest& request, int netns_fd,
                                                 std::chrono::milliseconds timeout);

}  // namespace podlane::cni
