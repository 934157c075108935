// Relay: takes all lanes of the options, moves their packets until it is told to end or a device goes, and gives them back.
// The calling thread becomes the control thread (lib/podlane/control.hpp); it alone logs.
#pragma once

#include "lib/base/log.hpp"
#include "relay/options.hpp"

namespace podlane::relay {

// Exit codes of podlane-relay (docs/relay.md).
enum ExitCode {
  kExitEnded = 0,       // SIGTERM or SIGINT; drained.
  kExitOptions = 2,     // Bad options, or no lane where they point.
  kExitDeviceGone = 3,  // The lane's device or TUN went away. A restart gets what is there then.
  kExitRefused = 4,     // The device plugin refused, or spoke another protocol.
  kExitNoAnswer = 5,    // No lane before --wait was over.
  kExitCannotRun = 6,   // A system call failed.
};

// signal_fd: a signalfd of the signals that end the relay; they are blocked in this process.
int run_relay(const Options& options, int signal_fd, Log& log);

// --check: says on stdout what a run would find, takes nothing.
int check_relay(const Options& options);

}  // namespace podlane::relay
