#include "tests/bench/page.hpp"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "lib/json/json.hpp"

namespace podlane::bench {
namespace {

// A flood has no round trips; its own CPU time and system calls say nothing of who carries the packets.
bool is_flood(const json::Value& side) {
  return side.value("p50_ns", 0.0) == 0;
}
std::string figure(const json::Value& side, const char* key, double unit, int digits) {
  return is_flood(side) ? "-" : fmt::format("{:.{}f}", side.value(key, 0.0) / unit, digits);
}

std::string goal(const json::Value& row, const char* kind) {
  if (!row.contains(kind)) return "-";
  const char* sign = row.value("direction", "") == "at least" ? "≥" : "≤";
  return fmt::format("{} {:g}: {}", sign, row.at(kind).get<double>(),
                     row.value(std::string(kind) + "_met", false) ? "met" : "**missed**");
}

bool missed(const json::Value& row) {
  return (row.contains("must") && !row.value("must_met", false)) ||
         (row.contains("report") && !row.value("report_met", false));
}

std::string reason(const json::Value& row) {
  return missed(row) ? row.value("reason", "") : "";
}

void write_ratios(const std::vector<json::Value>& rows, std::ostream& page) {
  page << "| what | against | ratio (median of rounds) | 95 % bound | must | report | reason when missed |\n"
          "|---|---|---|---|---|---|---|\n";
  for (const json::Value& row : rows) {
    if (!row.contains("ratio")) continue;
    page << fmt::format("| {} | {} | {:.3f} | {:.3f} | {} | {} | {} |\n", row.value("row", ""),
                        row.value("against", ""), row.value("ratio", 0.0), row.value("bound", 0.0), goal(row, "must"),
                        goal(row, "report"), reason(row));
  }
}

void write_sides(const std::vector<json::Value>& rows, std::ostream& page) {
  page << "| what | p50 µs | p99 µs | p99.9 µs | a second | CPU % | system calls a packet | steal ms a round | lost |\n"
          "|---|---|---|---|---|---|---|---|---|\n";
  for (const json::Value& row : rows) {
    if (!row.contains("ratio")) continue;
    for (const char* key : {"a", "b"}) {
      const json::Value& side = row.at(key);
      page << fmt::format(
          "| {}{} | {} | {} | {} | {:.0f} | {} | {} | {:.0f} | {} |\n", key == std::string("a") ? "" : "against: ",
          key == std::string("a") ? row.value("row", "") : row.value("against", ""), figure(side, "p50_ns", 1000, 1),
          figure(side, "p99_ns", 1000, 1), figure(side, "p999_ns", 1000, 1), side.value("per_second", 0.0),
          figure(side, "cpu_percent", 1, 0), figure(side, "system_calls_per_packet", 1, 2), side.value("steal_ms", 0.0),
          figure(side, "lost", 1, 0));
    }
  }
}

void write_values(const std::vector<json::Value>& rows, std::ostream& page) {
  page << "| what | value | must | report | reason when missed |\n|---|---|---|---|---|\n";
  for (const json::Value& row : rows) {
    if (row.contains("ratio")) continue;
    page << fmt::format("| {} | {:g} {} | {} | {} | {} |\n", row.value("row", ""), row.value("value", 0.0),
                        row.value("unit", ""), goal(row, "must"), goal(row, "report"), reason(row));
  }
}

}  // namespace

bool write_page(const std::string& rows_path, const std::string& environment_path, std::ostream& page) {
  std::ifstream file(rows_path), environment(environment_path);
  if (!file || !environment) throw std::runtime_error("cannot read " + rows_path + " or " + environment_path);
  std::vector<json::Value> rows;
  bool all_met = true;
  for (std::string line; std::getline(file, line);) {
    auto row = json::parse(line);
    if (!row) throw std::runtime_error(rows_path + ": " + row.error().message());
    if (row->contains("must") && !row->value("must_met", false)) all_met = false;
    rows.push_back(std::move(*row));
  }
  page
      << "# Benchmarks\n\nWritten by `scripts/bench.sh`; do not edit. Round trips are UDP, one in flight, timed at the "
         "client from before\nthe send to after the receive. Two commands run in turn (A B A B …); the ratio is the "
         "median of "
         "the rounds' ratios, and the\nbound is the one-sided 95 % bound of that median by order statistics, to the "
         "side that "
         "would miss the goal. Goals are\njudged by the bound. p99 and p99.9 are medians of the rounds.\n\n## "
         "Environment\n\n```\n";
  page << std::string(std::istreambuf_iterator<char>(environment), {});
  page << "```\n\n## Ratios\n\n";
  write_ratios(rows, page);
  page << "\n## Both sides of each ratio\n\n";
  write_sides(rows, page);
  page << "\n## Numbers with a limit of their own\n\n";
  write_values(rows, page);
  return all_met;
}

}  // namespace podlane::bench
