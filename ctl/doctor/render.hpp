// Findings as text and as JSON. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "ctl/doctor/check.hpp"

namespace podlane::doctor {

struct Look {
  bool all = false;     // Passes too.
  bool colour = false;  // For a terminal.
};

// `head`: lines about what was looked at.
std::string render_text(const std::vector<Finding>& findings, const std::string& head, const Look& look);
// An array of every check.
std::string render_json(const std::vector<Finding>& findings);

// The table of docs/doctor.md.
std::string render_table();

}  // namespace podlane::doctor
