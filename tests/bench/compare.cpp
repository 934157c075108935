// podlane-bench: runs two commands in turn (A B A B), compares them, and writes the page.
//   podlane-bench compare --row TEXT --against TEXT --a COMMAND --b COMMAND [--rounds 11] [--metric p50_ns]
//                         [--at-most|--at-least] [--must X] [--report X] [--reason TEXT] --out rows.jsonl
//   podlane-bench value   --row TEXT --value N --unit U [--at-most|--at-least] [--must X] … --out rows.jsonl
//   podlane-bench page    --rows rows.jsonl --environment FILE > docs/benchmarks.md
// A command prints one JSON line (samples.hpp) as its last line; other numeric metrics may be named by --metric.
// A missed must-row does not stop the run: the page says so, and `page` then ends with status 1.
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/json/json.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/statistics.hpp"

namespace podlane::bench {
namespace {

struct Options {
  std::string row, against, command_a, command_b, metric = "p50_ns", reason, out, rows, environment, unit;
  int rounds = 11;
  bool at_least = false;
  double value = 0;
  std::optional<double> must, report;
};

// podlanectl bench pingpong --json has its own keys; the rest of this file knows those of samples.hpp.
json::Value normalized(json::Value round) {
  if (!round.contains("rttNs")) return round;
  const json::Value& rtt = round["rttNs"];
  json::Value out = {{"p50_ns", rtt["p50"]}, {"p99_ns", rtt["p99"]}, {"p999_ns", rtt["p99.9"]}, {"max_ns", rtt["max"]}};
  out["per_second"] = round["packetsPerSecond"];
  out["cpu_percent"] = round["cpuPercent"];
  out["system_calls_per_packet"] = round["systemCallsPerPacket"];
  out["lost"] = round["lost"];
  out["involuntary_switches"] = round["involuntarySwitches"];
  out["steal_ms"] = round["stealTicks"].get<double>() * 10;  // USER_HZ is 100 on every Linux that is left.
  return out;
}

constexpr int kStatusLost = 3;  // podlanectl: some datagrams did not come back; the round counts and shows it.

json::Value run_round(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) text += chunk.data();
  const int status = ::pclose(pipe);
  if (status != 0 && WEXITSTATUS(status) != kStatusLost) throw std::runtime_error(command + ": status " + std::to_string(WEXITSTATUS(status)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto line_start = text.rfind('\n');
  auto parsed = json::parse(line_start == std::string::npos ? text : text.substr(line_start + 1));
  if (!parsed) throw std::runtime_error(command + ": no JSON line: " + parsed.error().message());
  return normalized(std::move(*parsed));
}

double number(const json::Value& round, const std::string& key) {
  const auto found = round.find(key);
  return found != round.end() && found->is_number() ? found->get<double>() : 0.0;
}

json::Value summary(const std::vector<json::Value>& rounds) {
  json::Value result = json::Value::object();
  for (const char* key : {"p50_ns", "p99_ns", "p999_ns", "per_second", "cpu_percent", "steal_ms",
                          "involuntary_switches", "system_calls_per_packet", "lost"}) {
    std::vector<double> values;
    for (const json::Value& round : rounds) values.push_back(number(round, key));
    result[key] = median(values);
  }
  return result;
}

void judge(json::Value& row, const Options& options, double bound) {
  row["direction"] = options.at_least ? "at least" : "at most";
  const auto met = [&](double goal) { return options.at_least ? bound >= goal : bound <= goal; };
  if (options.must) row["must"] = *options.must, row["must_met"] = met(*options.must);
  if (options.report) row["report"] = *options.report, row["report_met"] = met(*options.report);
  row["reason"] = options.reason;
}

void append(const std::string& path, const json::Value& row) {
  std::ofstream file(path, std::ios::app);
  file << json::dump(row) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

int compare(const Options& options) {
  std::vector<json::Value> a, b;
  std::vector<double> ratios;
  for (int round = 0; round < options.rounds; ++round) {
    a.push_back(run_round(options.command_a));
    b.push_back(run_round(options.command_b));
    if (number(b.back(), options.metric) <= 0) throw std::runtime_error("no " + options.metric + " from: " + options.command_b);
    ratios.push_back(number(a.back(), options.metric) / number(b.back(), options.metric));
    std::fprintf(stderr, "  %s round %d: %.0f against %.0f = %.3f\n", options.row.c_str(), round + 1,
                 number(a.back(), options.metric), number(b.back(), options.metric), ratios.back());
  }
  const double bound = median_bound(ratios, options.at_least ? Side::kLower : Side::kUpper);
  json::Value row = {{"row", options.row},      {"against", options.against}, {"metric", options.metric},
                     {"rounds", options.rounds}, {"a", summary(a)},            {"b", summary(b)},
                     {"ratio", median(ratios)},  {"bound", bound}};
  judge(row, options, bound);
  append(options.out, row);
  return 0;
}

int value(const Options& options) {
  json::Value row = {{"row", options.row}, {"against", options.against}, {"value", options.value}, {"unit", options.unit}};
  judge(row, options, options.value);
  append(options.out, row);
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("podlane's benchmarks: compare, value, page");
  app.require_subcommand(1);
  const auto common = [&](CLI::App* command) {
    command->add_option("--row", options.row)->required();
    command->add_option("--against", options.against);
    command->add_flag("--at-least,!--at-most", options.at_least);
    command->add_option("--must", options.must);
    command->add_option("--report", options.report);
    command->add_option("--reason", options.reason, "why, should a goal be missed");
    command->add_option("--out", options.out)->required();
  };
  CLI::App* compare_command = app.add_subcommand("compare");
  common(compare_command);
  compare_command->add_option("--a", options.command_a)->required();
  compare_command->add_option("--b", options.command_b)->required();
  compare_command->add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  compare_command->add_option("--metric", options.metric);
  CLI::App* value_command = app.add_subcommand("value");
  common(value_command);
  value_command->add_option("--value", options.value)->required();
  value_command->add_option("--unit", options.unit);
  CLI::App* page_command = app.add_subcommand("page");
  page_command->add_option("--rows", options.rows)->required();
  page_command->add_option("--environment", options.environment)->required();
  CLI11_PARSE(app, argc, argv);
  if (compare_command->parsed()) return compare(options);
  if (value_command->parsed()) return value(options);
  return write_page(options.rows, options.environment, std::cout) ? 0 : 1;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "podlane-bench: %s\n", failure.what());
    return 2;
  }
}
