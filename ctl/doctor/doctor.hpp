// The doctor: one look at a node - live, mounted, or recorded - and its findings. Reads only. One thread, and one more
// for each CPU that is measured.
#pragma once

#include <string>
#include <vector>

#include "ctl/doctor/check.hpp"
#include "lib/base/result.hpp"
#include "nodeconfig/cpu_set.hpp"
#include "nodeconfig/tree.hpp"

namespace podlane::doctor {

struct Question {
  std::string pod;          // Empty: the node.
  std::string nic;          // Empty: those with lanes, or all with a device.
  nodeconfig::CpuSet cpus;  // Empty: found out.
  bool may_measure = true;  // Never on a tree that is not this machine's.
};

struct Report {
  std::vector<Finding> findings;
  std::string head;  // What was looked at, in lines.
};

// kNotFound, kInvalid: no such pod, NIC or CPU; others: there is nothing to look at.
Result<Report> consult(const nodeconfig::Tree& tree, const Question& question);

}  // namespace podlane::doctor
