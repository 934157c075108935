// Plan: for each setting what is, what is wanted, and what becomes of it. Pure: facts, settings, readings and the
// journal in, changes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nodeconfig/change_journal.hpp"
#include "nodeconfig/settings.hpp"

namespace podlane::nodeconfig {

enum class Outcome {
  kWanted,      // To be written. Of a plan only.
  kImpossible,  // This node cannot have this value: nothing of the profile is applied.
  kInForce,
  kPending,         // Taken, and in effect later: an interrupt moves when it fires next.
  kPartial,         // Taken in part, or rounded.
  kRefusedManaged,  // The kernel places this interrupt itself.
  kUnsupported,
  kAbsent,
  kDenied,
  kOverridden,  // Somebody else keeps another value.
  kDeferred,    // Busy now.
  kNeedsReboot,
  kNeedsKubeletRestart,
  kContested,  // Mended three times, and changed again each time.
  kFailed,
};

std::string_view to_string(Outcome outcome);

struct Change {
  Setting setting;
  std::string now;   // Empty: not readable.
  std::string undo;  // What undo would write.
  Outcome outcome = Outcome::kInForce;
  std::string words;     // Why this outcome, in a sentence; empty where there is nothing to say.
  bool drifted = false;  // It had our value, and has it no more.
};

// A setting that the profile no longer has.
struct Leftover {
  ChangeRecord record;
};

struct Plan {
  std::vector<Change> changes;
  std::vector<Leftover> leftovers;
  CpuSet lanes, housekeeping;
  std::vector<std::string> notes;
  std::vector<std::string> problems;  // Of this program's own files.

  bool has(Outcome outcome) const;
  bool changes_something() const { return has(Outcome::kWanted) || !leftovers.empty(); }
  // Something that the profile asks for cannot be had here.
  bool unsatisfied() const;
};

inline constexpr unsigned kMaxMends = 3;

struct PlanOptions {
  bool forgive_drift = false;  // Asked for by a person: mends are counted from 0 again.
  bool restore_leftovers = true;
};

Plan make_plan(const Facts& facts, Expansion expansion, const std::vector<Reading>& readings,
               const ChangeJournal& journal, const PlanOptions& options);

// What a finished write means: from its errno (0: taken) and what the file reads afterwards.
void classify_write(Change& change, int write_error, const Reading& before, const Reading& after);

// Words for an errno that a file gave when it was read or written.
Outcome outcome_of_errno(const Setting& setting, int error, mode_t mode, std::string& words);

}  // namespace podlane::nodeconfig
