// The client's side of the control socket (docs/control-protocol.md): one connection, one request, one answer. Any
// thread.
#pragma once

#include <chrono>
#include <string>

#include "lib/base/result.hpp"
#include "lib/lane/control_msg.hpp"

namespace podlane::lane {

// kUnavailable: nobody listens at the path, the device plugin knows nothing of the request. Any other code: the
// connection was made and then failed, so the device plugin may have acted. A refusal is an answer, not an error.
// netns_fd goes with attach and is -1 otherwise.
Result<ControlAnswer> control_call(const std::string& socket_path, const ControlRequest& request, int netns_fd,
                                   std::chrono::milliseconds timeout);

}  // namespace podlane::lane
