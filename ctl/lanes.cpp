#include "ctl/lanes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "ctl/commands.hpp"
#include "lib/base/file.hpp"
#include "lib/json/json.hpp"

namespace podlane::ctl {

namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxBytes = 16 << 20;  // 4096 lanes of some hundred bytes, with room.
constexpr std::size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

Result<std::string> in_force_of(const json::Reader& lane) {
  PODLANE_TRY_ASSIGN(const auto in_force, lane.optional_object("inForce"));
  if (!in_force) return std::string("-");
  PODLANE_TRY_ASSIGN(const auto zero_copy, in_force->optional_boolean("zeroCopy"));
  PODLANE_TRY_ASSIGN(const std::string xdp, in_force->string("xdp"));
  PODLANE_TRY_ASSIGN(const auto busy_poll, in_force->optional_boolean("busyPoll"));
  return std::string(zero_copy.value_or(false) ? "zero-copy" : "copy") + "," + xdp +
         (busy_poll.value_or(false) ? ",busy-poll" : "");
}

Result<Row> row_of(const json::Reader& lane) {
  Row row;
  PODLANE_TRY_ASSIGN(row[0], lane.string("device"));
  PODLANE_TRY_ASSIGN(row[1], lane.string("kind"));
  PODLANE_TRY_ASSIGN(row[2], lane.string("state"));
  PODLANE_TRY_ASSIGN(const auto netdev, lane.optional_string("netdev"));
  PODLANE_TRY_ASSIGN(const auto queue, lane.optional_integer("queue", 0, 65535));
  row[3] = netdev.value_or("-");
  if (queue && row[1] == "queue") row[3] += ":" + std::to_string(*queue);
  PODLANE_TRY_ASSIGN(const auto name_space, lane.optional_string("namespace"));
  PODLANE_TRY_ASSIGN(const auto pod, lane.optional_string("pod"));
  PODLANE_TRY_ASSIGN(const auto container, lane.optional_string("container"));
  row[4] = pod ? name_space.value_or("") + "/" + *pod + "/" + container.value_or("") : "-";
  PODLANE_TRY_ASSIGN(const auto path, lane.optional_string("path"));
  PODLANE_TRY_ASSIGN(const auto mode, lane.optional_string("mode"));
  row[5] = path.value_or("-");
  row[6] = mode.value_or("-");
  PODLANE_TRY_ASSIGN(const auto ifname, lane.optional_string("ifname"));
  PODLANE_TRY_ASSIGN(const auto addresses, lane.optional_strings("addresses"));
  row[7] = ifname && !ifname->empty() ? *ifname + (addresses.empty() ? "" : " " + joined(addresses)) : "-";
  PODLANE_TRY_ASSIGN(row[8], in_force_of(lane));
  return row;
}

std::string table_of(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t at = 0; at < kColumns; ++at) widths[at] = std::max(widths[at], row[at].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t at = 0; at < kColumns; ++at) {
      line += row[at];
      if (at + 1 < kColumns) line.append(widths[at] - row[at].size() + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

int run_lanes(const std::string& run_dir, bool as_json) {
  const std::string path = run_dir + "/lanes.json";
  const auto content = read_file(path, kMaxBytes);
  if (!content) {
    std::fprintf(stderr, "podlanectl: %s\n", content.error().message().c_str());
    if (content.error().code() == Errc::kNotFound) {
      std::fprintf(stderr, "podlanectl: does podlane-deviceplugin run on this node, with --run-dir %s?\n", run_dir.c_str());
    }
    return kExitFailed;
  }
  const auto table = render_lanes(*content);
  if (!table) {
    std::fprintf(stderr, "podlanectl: %s: %s\n", path.c_str(), table.error().message().c_str());
    return kExitFailed;
  }
  std::fputs((as_json ? *content : *table).c_str(), stdout);
  return 0;
}

}  // namespace

Result<std::string> render_lanes(std::string_view lanes_json) {
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(lanes_json, {.max_bytes = kMaxBytes}));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(document, ""));
  PODLANE_TRY_ASSIGN(const auto version, in.integer("version", 1, 1 << 20));
  if (version != kVersion) {
    return fail(Errc::kUnsupported, "version " + std::to_string(version) + " is newer than this podlanectl, which knows " +
                                        std::to_string(kVersion));
  }
  PODLANE_TRY_ASSIGN(const auto lanes, in.optional_objects("lanes"));
  if (lanes.empty()) return std::string("No lane is in use on this node.\n");
  std::vector<Row> rows = {{"LANE", "KIND", "STATE", "DEVICE", "POD", "PATH", "MODE", "INTERFACE", "IN FORCE"}};
  for (const json::Reader& lane : lanes) {
    PODLANE_TRY_ASSIGN(Row row, row_of(lane));
    rows.push_back(std::move(row));
  }
  return table_of(rows);
}

void register_lanes(CLI::App& app, int& status) {
  struct Options {
    std::string run_dir = "/run/podlane";
    bool as_json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("lanes", "Who has which lane, and what is in force");
  command->add_option("--run-dir", options->run_dir, "The device plugin's run directory")->capture_default_str();
  command->add_flag("--json", options->as_json, "As JSON, for programs");
  command->callback([options, &status] { status = run_lanes(options->run_dir, options->as_json); });
}

}  // namespace podlane::ctl
