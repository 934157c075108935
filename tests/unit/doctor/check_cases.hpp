// For each check a tree on which it passes, and one on which it does not: what differs from a plain node.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ctl/doctor/check.hpp"
#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::doctor::test {

using nodeconfig::test::Node;

struct Case {
  std::string name, id;
  Outcome expected;
  std::function<void(Node&)> change;  // Empty: `text` in `file` is all that differs; both empty: a healthy node.
  std::string file = {}, text = {};
  std::string cpus = "2-3";  // --cpus
};

std::vector<Case> cases();
// Check, and a file that decides it.
std::vector<std::pair<std::string, std::string>> judged_files();

inline nodeconfig::test::NodeShape shape() {
  return {.sockets = 2, .cores = 4};
}

// Puts into a node of shape() what a kernel of today has, so that every check passes that has a Pair.
void furnish(Node& node);

// lanes.json with one served queue lane; `more` goes into its row.
std::string lanes_json(const std::string& more);

}  // namespace podlane::doctor::test
