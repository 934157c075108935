// Installer: keeps binary and entry on the node.
//
// How it works. step() looks at the node as it is and does at most one thing about it; whoever calls it does so when a
// directory changes and now and then. What it leaves:
//   binary first, always → our entry, once the device plugin answers (a list that names us before would hold up pods
//   with lanes) → read back as the runtime reads it → kInstalled.
// An entry that was in force and is gone was taken out by the list's owner. It is put back 1 s, 2 s, 4 s … later; after
// kConflictLosses in kConflictWindow that is a conflict: it is said aloud, and tried again once a kConflictWindow only,
// until the entry has stayed that long. In uninstall the entry goes first and the binary last. What is left out:
// telling the API server.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"

namespace podlane::cni {

enum class Method {
  kEdit,    // Our entry into the first list: every runtime.
  kDropIn,  // A file of our own in the directory of the network's name: containerd 2.1, libcni 1.3.
  kNone,    // The binary alone: podlane is a network of its own (Multus), or the operator edits.
};

enum class InstallState {
  kStarting,
  kWaiting,      // For the primary's list or for the device plugin.
  kInstalled,    // In force, as far as files tell.
  kLost,         // Taken out by the owner of the list; will be put back.
  kConflict,     // Taken out again and again.
  kRefused,      // The list cannot be edited; the message says why.
  kUninstalled,  // Nothing of ours is in a list.
};
std::string_view to_string(InstallState state);

struct InstallOptions {
  std::string source = "/usr/libexec/podlane/podlane";
  std::string bin_dir = "/opt/cni/bin";
  std::string conf_dir = "/etc/cni/net.d";
  std::string cache_dir = "/var/lib/cni";
  std::string run_dir = "/run/podlane";  // Of the device plugin: control.sock, lanes.json.
  std::string entry;                     // From make_entry.
  Method method = Method::kEdit;
};

struct InstallReport {
  InstallState state = InstallState::kStarting;
  std::string message;  // A sentence; for states that need an operator it says what to do.
  std::string file;     // The list, or our drop-in.
};

class Installer {
 public:
  Installer(InstallOptions options, Clock clock) : options_(std::move(options)), clock_(std::move(clock)) {}

  // One look at the node. Errors of the file system are kRefused reports: the next step may do better.
  InstallReport step();

  // Takes our entry out of all lists, then the binary, unless pods that were made with it may still need it.
  InstallReport uninstall();

  // When step() wants to be called again at the latest.
  std::chrono::milliseconds next_step_in() const;

  static constexpr int kConflictLosses = 5;
  static constexpr std::chrono::minutes kConflictWindow{5};

 private:
  Result<InstallReport> look();
  Result<InstallReport> put_in(const std::string& list_path, const std::string& network, const std::string& text,
                               bool only_inlined);
  bool back_off(const std::string& path, InstallReport& report);
  void count_loss(MonotonicTime now);

  InstallOptions options_;
  Clock clock_;
  bool was_in_force_ = false;
  bool lost_ = false;
  bool conflict_ = false;             // Until our entry has stayed for kConflictWindow.
  std::deque<MonotonicTime> losses_;  // Within kConflictWindow.
  std::optional<MonotonicTime> not_before_;
};

}  // namespace podlane::cni
