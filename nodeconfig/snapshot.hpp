// Snapshot: the files that facts and settings were read from, scrubbed, as a tar archive that can be unpacked and used
// as
// --root. A user attaches it to an issue; the issue becomes a test.
#pragma once

#include <string>
#include <string_view>

#include "nodeconfig/facts.hpp"
#include "nodeconfig/profile.hpp"

namespace podlane::nodeconfig {

// Reads facts, readings and every knob of this node.
Result<Recording> record_node(Tree& tree);

// Takes out what says whose node this is: pod ids, process arguments, boot arguments and configuration that no decision
// here depends on, addresses of routes.
void scrub(Recording& recording);

// GNU tar, entries sorted, no times and owners: the same recording gives the same bytes.
std::string tar_of(const Recording& recording);
// The other way round, for Tree::replay. Any bytes may stand in it; kInvalid when it is no tar, or leads out of itself.
Result<Recording> recording_of(std::string_view tar);

}  // namespace podlane::nodeconfig
