// A check: one row of the doctor's tables. Its function is pure - it judges what was read (sight.hpp) and looks at
// nothing else - so that each check runs on a built tree, on a snapshot, and on a live node alike. Any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace podlane::doctor {

struct Sight;

enum class Severity { kCrit, kHigh, kMed, kLow, kInfo };
enum class Outcome { kFail, kWarn, kUnknown, kPass, kNotApplicable };

std::string_view to_string(Severity severity);
std::string_view to_string(Outcome outcome);

struct Verdict {
  Outcome outcome = Outcome::kPass;
  std::string is;                    // What is, with path and value; of kUnknown and kNotApplicable: why.
  std::string fix;                   // The command for this node; empty: the row's cure.
  std::optional<double> effect_us;   // Empty: the row's estimate.
  bool measured = false;             // effect_us was measured here, or is what the hardware itself states.
  std::optional<Severity> severity;  // Empty: the row's.

  Verdict with_effect(double us, bool was_measured = false) && {
    effect_us = us;
    measured = was_measured;
    return std::move(*this);
  }
  Verdict as(Severity other) && {
    severity = other;
    return std::move(*this);
  }
};

Verdict pass(std::string is);
Verdict warn(std::string is, std::string fix = {});
Verdict bad(std::string is, std::string fix = {});
Verdict unknown(std::string why);
Verdict not_applicable(std::string why);

struct Check {
  std::string_view id, title;
  Severity severity;
  double typical_us;  // What it typically costs when it fails, an estimate for the order alone; 0: none can be given.
  std::string_view reads, should_be, why, cure;
  Verdict (*look)(const Sight& sight);
};

struct Finding {
  const Check* check = nullptr;
  Verdict verdict;

  Severity severity() const { return verdict.severity.value_or(check->severity); }
  bool is_problem() const { return verdict.outcome == Outcome::kFail || verdict.outcome == Outcome::kWarn; }
  double effect_us() const { return verdict.effect_us.value_or(check->typical_us); }
  std::string_view fix() const { return verdict.fix.empty() ? check->cure : std::string_view(verdict.fix); }
};

// The tables, by family: one file each.
std::span<const Check> placement_checks();
std::span<const Check> power_checks();
std::span<const Check> interrupt_checks();
std::span<const Check> nic_checks();
std::span<const Check> lane_checks();
std::span<const Check> memory_checks();
std::span<const Check> kernel_checks();
std::span<const Check> pod_checks();
std::span<const Check> platform_checks();

std::vector<const Check*> all_checks();

// Every check, problems first: by microseconds lost, then by severity, then by id.
std::vector<Finding> examine(const Sight& sight);

inline constexpr int kExitClean = 0;       // Nothing, or only what is of interest.
inline constexpr int kExitSome = 1;        // The worst is low or med.
inline constexpr int kExitSevere = 2;      // The worst is high or crit.
inline constexpr int kExitCannotLook = 3;  // No /proc, no /sys, no such pod, no such snapshot.
int exit_status(const std::vector<Finding>& findings);

}  // namespace podlane::doctor
