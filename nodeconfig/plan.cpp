#include "nodeconfig/plan.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "nodeconfig/ethtool_files.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr mode_t kWriteBits = 0222;
constexpr std::array<std::string_view, 15> kNames = {
    "wanted", "impossible", "in-force",   "pending",  "partial",      "refused-managed",       "unsupported",
    "absent", "denied",     "overridden", "deferred", "needs-reboot", "needs-kubelet-restart", "contested",
    "failed"};
static_assert(kNames.size() == static_cast<std::size_t>(Outcome::kFailed) + 1);

bool is_irq(const Setting& setting) {
  return setting.knob->scope == Scope::kIrq;
}

constexpr std::string_view kManaged =
    "the kernel places this interrupt itself (a managed interrupt); only fewer queues or the boot argument "
    "isolcpus=managed_irq change that";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// In force; or taken, and in effect later.
void settle(Change& change, const Reading& reading) {
  change.outcome = Outcome::kInForce;
  if (!is_irq(change.setting) || reading.effective.empty()) return;
  if (!satisfies(change.setting, reading.effective)) {
    change.outcome = Outcome::kPending;
    change.words = "still fires on CPU " + reading.effective + " until its next interrupt";
  }
}

void plan_one(const Facts& facts, const Reading& reading, const ChangeRecord* record, bool forgive, Change& change) {
  const Setting& setting = change.setting;
  change.now = reading.now.value_or("");
  change.undo = record != nullptr ? record->original : change.now;
  if (!reading.now) {
    change.outcome = outcome_of_errno(setting, reading.error, 0, change.words);
    return;
  }
  if (reading.meaningless) {
    change.outcome = Outcome::kUnsupported;
    change.words = setting.knob->needs_words;
    return;
  }
  if (satisfies(setting, change.now)) {
    settle(change, reading);
    const bool counted_before = facts.kubelet.running && facts.kubelet.started_ms > 0 && record != nullptr &&
                                record->original != record->written && record->at_ms > facts.kubelet.started_ms;
    if (setting.knob->scope == Scope::kNumaNode && counted_before) {
      change.outcome = Outcome::kNeedsKubeletRestart;
      change.words = "in force; the kubelet counted huge pages when it started, before this change";
    }
    return;
  }
  if (!setting.cannot.empty()) {
    change.outcome = Outcome::kImpossible;
    change.words = setting.cannot;
    return;
  }
  if (!reading.offered.empty() &&
      std::find(reading.offered.begin(), reading.offered.end(), setting.wanted) == reading.offered.end()) {
    change.outcome = Outcome::kImpossible;
    change.words =
        setting.place + " \"" + setting.wanted + "\" is not offered here; it must be one of " + joined(reading.offered);
    return;
  }
  if (reading.limit && std::strtoll(setting.wanted.c_str(), nullptr, 10) > *reading.limit) {
    change.outcome = Outcome::kImpossible;
    change.words = setting.place + " " + setting.wanted + ": the driver has at most " + std::to_string(*reading.limit);
    return;
  }
  if (is_irq(setting) && (reading.mode & kWriteBits) == 0) {
    change.outcome = Outcome::kRefusedManaged;
    change.words = kManaged;
    return;
  }
  const Owner* owner = nullptr;
  if (const Claim* claim = claim_on(facts.owners, setting.path, &owner)) {
    change.outcome = Outcome::kOverridden;
    change.words = owner->name + " keeps this" + (claim->value.empty() ? "" : " at \"" + claim->value + "\"") + " (" +
                   claim->place + ")";
    return;
  }
  const bool same_wish = record != nullptr && record->written == setting.wanted;
  if (same_wish && change.now == record->left()) {
    change.outcome = Outcome::kPartial;
    change.words = "the kernel made " + change.now + " of " + setting.wanted;
    return;
  }
  // An interrupt that got another number was set up anew by its driver: nobody wrote to it.
  change.drifted = same_wish && !forgive && record->path == setting.path;
  if (same_wish && !forgive && record->mends >= kMaxMends) {
    change.outcome = Outcome::kContested;
    change.words = "somebody else wrote " + change.now + "; " + record->written + " was put back " +
                   std::to_string(record->mends) + " times, and is not any more";
    return;
  }
  if (!setting.not_now.empty()) {
    change.outcome = Outcome::kDeferred;
    change.words = setting.not_now;
    return;
  }
  change.outcome = Outcome::kWanted;
  if (same_wish) change.words = "it had this value, and has it no more";
}

void note_owners(const Facts& facts, Plan& plan) {
  for (const Owner& owner : facts.owners) {
    plan.notes.push_back(owner.name + ": " + owner.evidence + "; " + owner.advice + ".");
  }
  for (const std::string& problem : facts.kubelet.problems) plan.notes.push_back("kubelet: " + problem + ".");
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  return kNames[static_cast<std::size_t>(outcome)];
}

bool Plan::has(Outcome outcome) const {
  return std::any_of(changes.begin(), changes.end(), [&](const Change& change) { return change.outcome == outcome; });
}

bool Plan::unsatisfied() const {
  return has(Outcome::kImpossible) || has(Outcome::kUnsupported) || has(Outcome::kAbsent) || has(Outcome::kDenied) ||
         has(Outcome::kOverridden) || has(Outcome::kContested) || has(Outcome::kPartial) || has(Outcome::kFailed);
}

Outcome outcome_of_errno(const Setting& setting, int error, mode_t mode, std::string& words) {
  const std::string name = ::strerrorname_np(error) == nullptr ? std::to_string(error) : ::strerrorname_np(error);
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO: words = setting.path + " does not exist on this node"; return Outcome::kAbsent;
    case EIO:
      if (!is_irq(setting)) break;
      words = kManaged;  // Up to Linux 6.11; the file looks writable there.
      return Outcome::kRefusedManaged;
    case EPERM:
    case EACCES:
      if (is_irq(setting) && error == EPERM && (mode & kWriteBits) == 0) {
        words = kManaged;
        return Outcome::kRefusedManaged;
      }
      words = "no right to write " + setting.path + " (" + name + ")";
      return Outcome::kDenied;
    case EROFS: words = setting.path + " is mounted read-only"; return Outcome::kDenied;
    case EOPNOTSUPP: words = "the driver does not do this"; return Outcome::kUnsupported;
    case EINVAL:
      if (!setting.path.starts_with(kEthtoolRoot)) break;
      words = "the driver does not take " + setting.wanted + " (EINVAL)";
      return Outcome::kUnsupported;
    case EBUSY:
    case EAGAIN: words = "busy, tried again at the next pass (" + name + ")"; return Outcome::kDeferred;
    case ENOSPC:
      if (!is_irq(setting)) break;
      words = "no free interrupt vector on CPUs " + setting.wanted + ": allow more CPUs, or let NICs have fewer queues";
      return Outcome::kFailed;
    default: break;
  }
  words = std::string(::strerror(error)) + " (" + name + ")";
  return Outcome::kFailed;
}

void classify_write(Change& change, int write_error, const Reading& before, const Reading& after) {
  Setting& setting = change.setting;
  change.words.clear();
  change.now = after.now.value_or("");
  if (write_error != 0) {
    change.outcome = outcome_of_errno(setting, write_error, before.mode, change.words);
    return;
  }
  if (!after.now) {
    change.outcome = outcome_of_errno(setting, after.error, after.mode, change.words);
    return;
  }
  if (satisfies(setting, *after.now)) {
    settle(change, after);
    return;
  }
  if (setting.knob->format == Format::kNumber && after.now != before.now) {
    change.outcome = Outcome::kPartial;
    change.words = "the kernel made " + *after.now + " of " + setting.wanted;
    return;
  }
  if (setting.knob->scope == Scope::kNumaNode) {
    change.outcome = Outcome::kPartial;
    change.words = "no memory could be had: still " + *after.now + " of " + setting.wanted;
    return;
  }
  change.outcome = Outcome::kOverridden;
  change.words = "the write was taken, and the file reads " + *after.now + ": the driver or another program keeps it";
}

Plan make_plan(const Facts& facts, Expansion expansion, const std::vector<Reading>& readings,
               const ChangeJournal& journal, const PlanOptions& options) {
  Plan plan{.lanes = std::move(expansion.lanes),
            .housekeeping = std::move(expansion.housekeeping),
            .notes = std::move(expansion.notes)};
  std::unordered_map<std::string_view, const ChangeRecord*> records;
  for (const ChangeRecord& record : journal.records()) records.emplace(record.key, &record);
  plan.changes.reserve(expansion.settings.size());
  for (std::size_t i = 0; i < expansion.settings.size(); ++i) {
    Change change{.setting = std::move(expansion.settings[i])};
    const auto record = records.find(change.setting.key);
    plan_one(facts, readings[i], record == records.end() ? nullptr : record->second, options.forgive_drift, change);
    if (record != records.end()) records.erase(record);
    plan.changes.push_back(std::move(change));
  }
  for (auto record = journal.records().rbegin(); options.restore_leftovers && record != journal.records().rend();
       ++record) {
    if (!records.contains(record->key)) continue;
    // What is gone may come back, as interrupts do when a link goes up: its first value is kept until undo.
    const Knob* const knob = find_knob(record->knob);
    if (knob == nullptr || path_now(facts, *knob, record->key, record->path).empty()) continue;
    plan.leftovers.push_back({*record});
  }
  if (journal.unreadable() > 0) {
    plan.problems.push_back(std::to_string(journal.unreadable()) +
                            " lines of the journal cannot be read; what they undid is lost");
  }
  note_owners(facts, plan);
  const bool somebody_elses =
      std::any_of(facts.owners.begin(), facts.owners.end(), [](const Owner& o) { return o.owns_all; });
  for (Change& change : plan.changes) {
    if (!somebody_elses || change.outcome != Outcome::kWanted) continue;
    change.outcome = Outcome::kOverridden;
    change.words = "this node belongs to another tuner; podlane only observes";
  }
  return plan;
}

}  // namespace podlane::nodeconfig
