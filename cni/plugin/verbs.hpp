// The verbs, one file each. They write nothing to standard output: the text that is returned goes there.
#pragma once

#include <string>

#include "cni/plugin/call.hpp"

namespace podlane::cni {

CniResult<std::string> cmd_add(const Call& call);
CniResult<std::string> cmd_del(const Call& call);     // Empty text, and succeeds whatever is missing.
CniResult<std::string> cmd_check(const Call& call);   // Empty text.
CniResult<std::string> cmd_gc(const Call& call);      // Empty text.
CniResult<std::string> cmd_status(const Call& call);  // Empty text.
CniResult<std::string> cmd_version(std::string_view stdin_text);

}  // namespace podlane::cni
