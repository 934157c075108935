#include "ctl/doctor/check.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

std::string_view to_string(Severity severity) {
  constexpr std::array<std::string_view, 5> kNames = {"crit", "high", "med", "low", "info"};
  return kNames[static_cast<std::size_t>(severity)];
}

std::string_view to_string(Outcome outcome) {
  constexpr std::array<std::string_view, 5> kNames = {"fail", "warn", "unknown", "pass", "not-applicable"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Verdict pass(std::string is) {
  return {.outcome = Outcome::kPass, .is = std::move(is)};
}
Verdict warn(std::string is, std::string fix) {
  return {.outcome = Outcome::kWarn, .is = std::move(is), .fix = std::move(fix)};
}
Verdict bad(std::string is, std::string fix) {
  return {.outcome = Outcome::kFail, .is = std::move(is), .fix = std::move(fix)};
}
Verdict unknown(std::string why) {
  return {.outcome = Outcome::kUnknown, .is = std::move(why)};
}
Verdict not_applicable(std::string why) {
  return {.outcome = Outcome::kNotApplicable, .is = std::move(why)};
}

std::vector<const Check*> all_checks() {
  std::vector<const Check*> all;
  for (const auto& family : {placement_checks(), power_checks(), interrupt_checks(), nic_checks(), lane_checks(),
                             memory_checks(), kernel_checks(), pod_checks(), platform_checks()}) {
    for (const Check& check : family) all.push_back(&check);
  }
  return all;
}

std::vector<Finding> examine(const Sight& sight) {
  std::vector<Finding> findings;
  for (const Check* check : all_checks()) findings.push_back({check, check->look(sight)});
  const auto rank = [](const Finding& finding) {
    const int group = finding.is_problem() ? 0 : finding.verdict.outcome == Outcome::kUnknown ? 1 : 2;
    return std::tuple(group, group == 0 ? -finding.effect_us() : 0.0, finding.severity(), finding.check->id);
  };
  std::sort(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
  return findings;
}

int exit_status(const std::vector<Finding>& findings) {
  int status = kExitClean;
  for (const Finding& finding : findings) {
    if (!finding.is_problem() || finding.severity() == Severity::kInfo) continue;
    status = std::max(status, finding.severity() <= Severity::kHigh ? kExitSevere : kExitSome);
  }
  return status;
}

}  // namespace podlane::doctor
