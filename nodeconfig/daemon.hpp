// The daemon: one pass after another, for as long as the process lives. Its end changes nothing on the node.
//
// How it works: a pass is change() of node.hpp. It comes when the resync time is over, some time after an event, and at
// SIGHUP. What somebody else changed is put back at most three times (plan.hpp: kMaxMends); the count begins again
// after an hour in which it held. A profile that is missing or wrong changes nothing: what is in force stays. Events
// can come as fast as pods do: passes keep such a distance that they take at most 1 % of a CPU.
#pragma once

#include <string>

#include "lib/base/log.hpp"
#include "nodeconfig/node.hpp"

namespace podlane::nodeconfig {

struct DaemonOptions {
  std::string root, run_dir, profile;
  int settle_ms = 5000;  // From an event to the pass: drivers and other programs finish first.
};

// Until SIGTERM or SIGINT. The caller has blocked these two and SIGHUP.
Result<void> run_daemon(const DaemonOptions& options, Log& log);

// How long to wait after a pass: until the resync, or shorter when something was busy.
int wait_after(const Pass* pass, unsigned resync_seconds);

}  // namespace podlane::nodeconfig
