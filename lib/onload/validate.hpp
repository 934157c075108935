// What is wrong with an Onload environment, before a pod runs with it. Pure; any thread. Rules V01 to V09 have the
// numbers of docs/onload.md; P01 and on are podlane's own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/onload/environment.hpp"

namespace podlane::onload {

enum class Severity { kError, kWarning };
std::string_view to_string(Severity severity);  // "error", "warning"

struct Finding {
  std::string rule;  // "V03"
  Severity severity = Severity::kError;
  std::string name;     // The variable to change.
  std::string message;  // Begins with name and value, says what would be right.
};

struct Circumstances {
  std::optional<lane::Mode> mode;      // What the environment is meant to be; empty: not known.
  std::optional<Transport> transport;  // Empty: not known, rules about one of them are left out.
};

// Of the variables that begin with EF_; others are none of Onload's. Only what is set counts: for what is not, Onload's
// own defaults, which depend on the others.
std::vector<Finding> validate(const Environment& environment, const Circumstances& circumstances);

// One variable by itself, V01 and V02; empty: nothing is wrong with it.
std::optional<Finding> check_variable(std::string_view name, std::string_view value);

}  // namespace podlane::onload
