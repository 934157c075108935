// podlanectl onload: the environment of a mode for use by hand, and what is wrong with one. Pure; the commands are in
// onload.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/onload/validate.hpp"

namespace podlane::ctl {

enum class OnloadFormat { kShell, kYaml };

// "EF_POLL_USEC=50" of the command line. kInvalid for what is not of this form, or given twice.
Result<onload::Environment> parse_assignments(const std::vector<std::string>& words);
// /proc/<pid>/environ: NUL after each. What is no assignment is left out, as the C library does. The EF_* alone.
onload::Environment parse_environ(std::string_view bytes);

// One variable a line: NAME=value, or an entry of a container's env.
std::string render_environment(const onload::Environment& environment, OnloadFormat format);
// One finding a line, errors first.
std::string render_findings(const std::vector<onload::Finding>& findings);

}  // namespace podlane::ctl
