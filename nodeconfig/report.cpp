#include "nodeconfig/report.hpp"

#include <algorithm>
#include <array>

#include "lib/json/json.hpp"

namespace podlane::nodeconfig {

namespace {

using Row = std::array<std::string, 5>;

std::string table_of(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], row[at].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at) {
      text += row[at];
      if (at + 1 < row.size()) text.append(widths[at] - row[at].size() + 2, ' ');
    }
    text += "\n";
  }
  return text;
}

std::string shown_value(const std::string& value) {
  return value.empty() ? "-" : value;
}

// Each reason once, however many interrupts there are.
void append_reasons(const std::vector<const Change*>& changes, std::string& text) {
  const Knob* last = nullptr;
  for (const Change* change : changes) {
    const Knob& knob = *change->setting.knob;
    if (&knob == last) continue;
    last = &knob;
    text.append("\n")
        .append(change->setting.place)
        .append(": ")
        .append(knob.why)
        .append(". In effect: ")
        .append(knob.effect)
        .append(".\n");
  }
}

void append_advice(const Advice& advice, std::string& text) {
  text += "\nAdvice, " + advice.about + (advice.label.empty() ? "" : " (" + advice.label + ")") + ": " + advice.words +
          "\n";
  for (const std::string& missing : advice.missing) text += "  missing: " + missing + "\n";
  if (!advice.file.empty()) text += "  file " + advice.file_path + ":\n" + advice.file;
  for (std::size_t i = 0; i < advice.steps.size(); ++i)
    text += "  " + std::to_string(i + 1) + ". " + advice.steps[i] + "\n";
}

json::Value json_of(const Change& change) {
  return {{"key", change.setting.key},
          {"outcome", to_string(change.outcome)},
          {"now", change.now},
          {"wanted", change.setting.wanted},
          {"undo", change.undo},
          {"words", change.words},
          {"place", change.setting.place},
          {"path", change.setting.path},
          {"why", change.setting.knob->why},
          {"effect", change.setting.knob->effect}};
}

}  // namespace

std::string render_text(const Report& report, Shown shown) {
  const Plan& plan = report.plan;
  std::vector<const Change*> changes;
  for (const Change& change : plan.changes) {
    if (shown == Shown::kAll || change.outcome != Outcome::kInForce) changes.push_back(&change);
  }
  std::string text = "Profile " + report.profile.name + ", mode " +
                     (report.profile.mode == ProfileMode::kEnforce ? "enforce" : "observe (nothing is written)") +
                     "; lanes' CPUs " + shown_value(plan.lanes.list()) + ", housekeeping " +
                     shown_value(plan.housekeeping.list()) + "\n";
  if (!changes.empty()) {
    std::vector<Row> rows = {{"WHAT", "NOW", "WANTED", "UNDO", "STATE"}};
    for (const Change* change : changes) {
      rows.push_back({change->setting.key, shown_value(change->now), shown_value(change->setting.wanted),
                      shown_value(change->undo),
                      std::string(to_string(change->outcome)) + (change->words.empty() ? "" : ": " + change->words)});
    }
    text += table_of(rows);
    append_reasons(changes, text);
  }
  for (const Leftover& leftover : plan.leftovers) {
    text += leftover.record.key + ": no longer in the profile, goes back to " + leftover.record.original + "\n";
  }
  const auto in_force = std::count_if(plan.changes.begin(), plan.changes.end(),
                                      [](const Change& change) { return change.outcome == Outcome::kInForce; });
  text += "\n" + std::to_string(in_force) + " of " + std::to_string(plan.changes.size()) + " settings are in force.\n";
  for (const std::string& note : plan.notes) text += "Note: " + note + "\n";
  for (const std::string& problem : plan.problems) text += "Problem: " + problem + "\n";
  for (const Advice& advice : report.advice) append_advice(advice, text);
  return text;
}

std::string render_json(const Report& report) {
  json::Value out{{"version", 1},
                  {"profile", report.profile.name},
                  {"mode", report.profile.mode == ProfileMode::kEnforce ? "enforce" : "observe"},
                  {"lanes", report.plan.lanes.list()},
                  {"housekeeping", report.plan.housekeeping.list()}};
  json::Value& changes = out["changes"] = json::Value::array();
  for (const Change& change : report.plan.changes) changes.push_back(json_of(change));
  json::Value& leftovers = out["leftovers"] = json::Value::array();
  for (const Leftover& leftover : report.plan.leftovers) {
    leftovers.push_back({{"key", leftover.record.key}, {"undo", leftover.record.original}});
  }
  out["notes"] = report.plan.notes;
  out["problems"] = report.plan.problems;
  json::Value& advice = out["advice"] = json::Value::array();
  for (const Advice& one : report.advice) {
    advice.push_back({{"about", one.about},
                      {"label", one.label},
                      {"words", one.words},
                      {"missing", one.missing},
                      {"path", one.file_path},
                      {"file", one.file},
                      {"steps", one.steps}});
  }
  return json::dump(out) + "\n";
}

std::string render_text(const std::vector<Undone>& undone) {
  std::string text;
  for (const Undone& one : undone)
    text += one.key + ": " + std::string(to_string(one.outcome)) + ": " + one.words + "\n";
  return text.empty() ? "Nothing to undo: podlane-nodeconfig changed nothing since this node booted.\n" : text;
}

std::string render_json(const std::vector<Undone>& undone) {
  json::Value out{{"version", 1}};
  json::Value& list = out["undone"] = json::Value::array();
  for (const Undone& one : undone) {
    list.push_back({{"key", one.key}, {"outcome", to_string(one.outcome)}, {"words", one.words}});
  }
  return json::dump(out) + "\n";
}

}  // namespace podlane::nodeconfig
