#include "ctl/doctor/render.hpp"

#include <algorithm>
#include <array>

#include "ctl/doctor/sight.hpp"
#include "lib/json/json.hpp"

namespace podlane::doctor {

namespace {

constexpr std::string_view kPlain = "\033[0m";

std::string_view colour_of(const Finding& finding) {
  if (!finding.is_problem()) return finding.verdict.outcome == Outcome::kUnknown ? "\033[36m" : "\033[32m";
  return finding.severity() <= Severity::kHigh ? "\033[31m" : "\033[33m";
}

std::string effect_in_words(const Finding& finding) {
  const double us = finding.effect_us();
  if (!finding.is_problem() || us <= 0) return {};
  const bool measured = finding.verdict.effect_us && finding.verdict.measured;
  return (measured ? ", " : ", about ") + shown(us) + " us" + (measured ? "" : " (estimate)");
}

std::string label_of(const Finding& finding) {
  std::string label(to_string(finding.is_problem() ? finding.severity() : Severity::kInfo));
  if (!finding.is_problem()) label = to_string(finding.verdict.outcome);
  std::transform(label.begin(), label.end(), label.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return label;
}

void append(const Finding& finding, const Look& look, std::string& text) {
  const Check& check = *finding.check;
  if (look.colour) text += colour_of(finding);
  std::string label = label_of(finding);
  label.resize(std::max<std::size_t>(label.size(), 5), ' ');
  text += label;
  if (look.colour) text += kPlain;
  text.append(" ").append(check.id).append(" ").append(check.title).append(effect_in_words(finding)).append("\n");
  text += "      is:     " + finding.verdict.is + "\n";
  if (!finding.is_problem()) return;
  text.append("      should: ").append(check.should_be).append("\n");
  text.append("      why:    ").append(check.why).append("\n");
  text.append("      fix:    ").append(finding.fix()).append("\n");
}

// '|' would end a cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c));
  return out;
}

}  // namespace

std::string render_text(const std::vector<Finding>& findings, const std::string& head, const Look& look) {
  std::string text = head;
  std::array<std::size_t, 5> counts{};
  for (const Finding& finding : findings) {
    const Outcome outcome = finding.verdict.outcome;
    ++counts[static_cast<std::size_t>(outcome)];
    if (look.all || outcome == Outcome::kFail || outcome == Outcome::kWarn || outcome == Outcome::kUnknown) {
      append(finding, look, text);
    }
  }
  const auto number = [&](Outcome outcome) { return std::to_string(counts[static_cast<std::size_t>(outcome)]); };
  text += std::to_string(findings.size()) + " checks: " + number(Outcome::kFail) + " fail, " + number(Outcome::kWarn) +
          " warn, " + number(Outcome::kUnknown) + " unknown, " + number(Outcome::kPass) + " pass, " +
          number(Outcome::kNotApplicable) + " not applicable" + (look.all ? "" : " (--all shows them)") + "\n";
  return text;
}

std::string render_json(const std::vector<Finding>& findings) {
  json::Value out = json::Value::array();
  for (const Finding& finding : findings) {
    const Check& check = *finding.check;
    json::Value row{{"id", check.id},
                    {"title", check.title},
                    {"result", to_string(finding.verdict.outcome)},
                    {"severity", to_string(finding.severity())},
                    {"is", finding.verdict.is},
                    {"shouldBe", check.should_be},
                    {"why", check.why},
                    {"fix", finding.is_problem() ? finding.fix() : ""},
                    {"reads", check.reads}};
    const bool measured = finding.verdict.effect_us && finding.verdict.measured;
    if (finding.is_problem() && finding.effect_us() > 0) {
      row["effectMicroseconds"] = finding.effect_us();
      row["effectIs"] = measured ? "measured" : "estimated";
    }
    out.push_back(std::move(row));
  }
  return json::dump(out) + "\n";
}

std::string render_table() {
  std::string text =
      "| id | what | should be | severity | about us | why | cure | reads |\n|---|---|---|---|---|---|---|---|\n";
  for (const Check* check : all_checks()) {
    text.append("| ").append(check->id).append(" | ").append(cell(check->title)).append(" | ");
    text.append(cell(check->should_be)).append(" | ").append(to_string(check->severity)).append(" | ");
    text.append(check->typical_us > 0 ? shown(check->typical_us) : "-").append(" | ").append(cell(check->why));
    text.append(" | ").append(cell(check->cure)).append(" | ").append(cell(check->reads)).append(" |\n");
  }
  return text;
}

}  // namespace podlane::doctor
