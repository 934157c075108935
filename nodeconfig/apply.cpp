#include "nodeconfig/apply.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "nodeconfig/ethtool_files.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr std::array kBusyWaitsMs = {5, 20, 80};
constexpr std::int64_t kForgottenAfterMs = 3600 * 1000;  // Mends of a setting that held since.
constexpr int kMoreTries = 3;  // For huge pages: each try may find more, once the kernel has compacted memory.

// 0, or the errno.
int write_value(const Tree& tree, const std::string& path, const std::string& value) {
  for (std::size_t attempt = 0;; ++attempt) {
    const auto written = tree.write(path, value);
    if (written) return 0;
    const int error = written.error().errno_value() != 0 ? written.error().errno_value() : EIO;
    if ((error != EBUSY && error != EAGAIN) || attempt == kBusyWaitsMs.size()) return error;
    ::poll(nullptr, 0, kBusyWaitsMs[attempt]);
  }
}

Reading write_and_read(const Change& change, const Reading& before, const Tree& tree, int& error) {
  error = write_value(tree, change.setting.path, change.setting.wanted);
  Reading after = read_setting(tree, change.setting);
  const bool grows = change.setting.knob->scope == Scope::kNumaNode;
  std::optional<std::string> last = before.now;
  for (int attempt = 0; grows && error == 0 && attempt < kMoreTries; ++attempt) {
    if (after.now == change.setting.wanted || after.now == last) break;
    last = after.now;
    error = write_value(tree, change.setting.path, change.setting.wanted);
    after = read_setting(tree, change.setting);
  }
  return after;
}

Result<void> apply_one(Change& change, const Facts& facts, const Tree& tree, ChangeJournal& journal) {
  // Read again: the plan may be old, and what is saved here is what undo restores.
  const Reading before = read_setting(tree, change.setting);
  if (!before.now) {
    classify_write(change, before.error, before, before);
    return {};
  }
  const ChangeRecord* const found = journal.find(change.setting.key);
  ChangeRecord record;
  if (found != nullptr) record = *found;
  else record = {.key = change.setting.key, .knob = std::string(change.setting.knob->name), .original = *before.now};
  const ChangeRecord old = record;
  if (change.drifted) {
    ++record.mends;
    record.mended_ms = facts.uptime_ms;
  } else {
    record.mends = 0;
  }
  record.path = change.setting.path;
  record.written = change.setting.wanted;
  record.read_back.clear();
  record.at_ms = facts.uptime_ms;
  PODLANE_TRY(journal.put(record));
  int error = 0;
  const Reading after = write_and_read(change, before, tree, error);
  classify_write(change, error, before, after);
  if (after.now && *after.now == record.original && found == nullptr) return journal.remove(record.key);
  if (error != 0 && after.now == before.now && found != nullptr) return journal.put(old);
  if (after.now && *after.now != record.written) {
    record.read_back = *after.now;
    return journal.put(record);
  }
  return {};
}

Result<void> forget_mends(const Change& change, const Facts& facts, ChangeJournal& journal) {
  const ChangeRecord* const found = journal.find(change.setting.key);
  if (found == nullptr || found->mends == 0 || facts.uptime_ms - found->mended_ms < kForgottenAfterMs) return {};
  ChangeRecord record = *found;
  record.mends = 0;
  return journal.put(record);
}

}  // namespace

Result<void> apply(Plan& plan, const Facts& facts, const Tree& tree, ChangeJournal& journal) {
  if (plan.has(Outcome::kImpossible)) return {};
  for (const Leftover& leftover : plan.leftovers) {
    PODLANE_TRY_ASSIGN(const Undone undone, undo_one(facts, leftover.record, tree, journal));
    if (undone.outcome != UndoOutcome::kRestored && undone.outcome != UndoOutcome::kWasOriginal) {
      plan.notes.push_back(undone.key + ": no longer in the profile; " + undone.words + ".");
    }
  }
  std::erase_if(plan.leftovers, [&](const Leftover& leftover) { return journal.find(leftover.record.key) == nullptr; });
  for (Change& change : plan.changes) {
    if (change.outcome == Outcome::kWanted) PODLANE_TRY(apply_one(change, facts, tree, journal));
    else if (change.outcome == Outcome::kInForce) PODLANE_TRY(forget_mends(change, facts, journal));
  }
  return {};
}

std::string_view to_string(UndoOutcome outcome) {
  switch (outcome) {
    case UndoOutcome::kRestored: return "restored";
    case UndoOutcome::kWasOriginal: return "was-original";
    case UndoOutcome::kLeft: return "left";
    case UndoOutcome::kGone: return "gone";
    case UndoOutcome::kDeferred: return "deferred";
    case UndoOutcome::kFailed: return "failed";
  }
  return "failed";
}

Result<Undone> undo_one(const Facts& facts, const ChangeRecord& record, const Tree& tree, ChangeJournal& journal) {
  Undone undone{record.key, UndoOutcome::kGone, "it no longer exists"};
  const Knob* const knob = find_knob(record.knob);
  const std::string path = knob == nullptr ? "" : path_now(facts, *knob, record.key, record.path);
  if (knob != nullptr && knob->disruptive) {
    for (const auto& [ifname, lanes] : facts.lanes_on) {
      if (!path.starts_with(std::string(kEthtoolRoot) + ifname + "/")) continue;
      return Undone{record.key, UndoOutcome::kDeferred, ifname + " has lanes in use: " + lanes};
    }
  }
  const Setting setting{.knob = knob, .key = record.key, .path = path, .wanted = record.original};
  Reading now;
  if (knob != nullptr && !path.empty()) now = read_setting(tree, setting);
  if (now.now == record.original) {
    undone = {record.key, UndoOutcome::kWasOriginal, "it has its first value, " + record.original};
  } else if (now.now && *now.now != record.left() && *now.now != record.written) {
    undone = {record.key, UndoOutcome::kLeft,
              "somebody else wrote " + *now.now + " since; the first value was " + record.original};
  } else if (now.now) {
    const int error = write_value(tree, path, record.original);
    const Reading after = read_setting(tree, setting);
    if (error != 0 || after.now != record.original) {
      Change change{.setting = setting};
      classify_write(change, error, now, after);
      undone = {record.key, UndoOutcome::kFailed,
                "it still reads " + after.now.value_or("nothing") + ": " + change.words};
      return undone;  // The record stays: there is something to undo yet.
    }
    undone = {record.key, UndoOutcome::kRestored, "back to " + record.original};
  } else if (knob != nullptr && !path.empty() && now.error != ENOENT && now.error != ENODEV && now.error != ENXIO) {
    std::string words;
    outcome_of_errno(setting, now.error, 0, words);
    return Undone{record.key, UndoOutcome::kFailed, words};
  }
  PODLANE_TRY(journal.remove(record.key));
  return undone;
}

Result<std::vector<Undone>> undo(const Facts& facts, const Tree& tree, ChangeJournal& journal) {
  std::vector<Undone> all;
  const std::vector<ChangeRecord> records(journal.records().rbegin(), journal.records().rend());
  for (const ChangeRecord& record : records) {
    PODLANE_TRY_ASSIGN(Undone undone, undo_one(facts, record, tree, journal));
    all.push_back(std::move(undone));
  }
  return all;
}

}  // namespace podlane::nodeconfig
