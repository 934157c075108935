// Apply and undo: the only functions that change the node. Each change is journaled, written, read back and classified;
// one that fails does not undo the others.
#pragma once

#include <string>
#include <vector>

#include "nodeconfig/plan.hpp"

namespace podlane::nodeconfig {

// Carries out what the plan wants and puts the outcomes into it. An error: the journal cannot be written; then the
// change that it was for was not made. Nothing is written when anything of the plan is impossible.
//
// A setting that was mended and then held for an hour counts from none again.
Result<void> apply(Plan& plan, const Facts& facts, const Tree& tree, ChangeJournal& journal);

enum class UndoOutcome { kRestored, kWasOriginal, kLeft, kGone, kDeferred, kFailed };
std::string_view to_string(UndoOutcome outcome);

struct Undone {
  std::string key;
  UndoOutcome outcome;
  std::string words;
};

// Compare and restore: only a value that still is ours goes back to what it was, the latest first. Records of what
// could not be written stay in the journal.
Result<std::vector<Undone>> undo(const Facts& facts, const Tree& tree, ChangeJournal& journal);
Result<Undone> undo_one(const Facts& facts, const ChangeRecord& record, const Tree& tree, ChangeJournal& journal);

}  // namespace podlane::nodeconfig
