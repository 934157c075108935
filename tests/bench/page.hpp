// docs/benchmarks.md from the rows that podlane-bench wrote.
#pragma once

#include <ostream>
#include <string>

namespace podlane::bench {

// False when a must-row was missed. Throws std::runtime_error on unreadable input.
bool write_page(const std::string& rows_path, const std::string& environment_path, std::ostream& page);

}  // namespace podlane::bench
