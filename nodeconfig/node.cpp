#include "nodeconfig/node.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include "lib/base/file.hpp"
#include "lib/json/json.hpp"
#include "nodeconfig/report.hpp"

namespace podlane::nodeconfig {

namespace {

Result<Pass> plan_with(const Tree& tree, const Profile& profile, Facts facts, const ChangeJournal& journal,
                       PlanOptions options) {
  options.restore_leftovers = profile.restore_on_remove;
  Pass pass{.facts = std::move(facts)};
  PODLANE_TRY_ASSIGN(Expansion expansion, expand(pass.facts, profile));
  std::vector<Reading> readings;
  readings.reserve(expansion.settings.size());
  for (const Setting& setting : expansion.settings) readings.push_back(read_setting(tree, setting));
  pass.advice = advise(pass.facts, profile, expansion.housekeeping);
  pass.plan = make_plan(pass.facts, std::move(expansion), readings, journal, options);
  return pass;
}

// lanes.json as the device plugin writes it. A file that cannot be read counts as lanes on every NIC: nothing is
// disturbed.
void read_lanes(const std::string& run_dir, Facts& facts) {
  const auto text = read_file(run_dir + "/lanes.json", 16 << 20);
  if (!text && text.error().code() == Errc::kNotFound) return;
  const auto lanes = text ? parse_lanes(*text) : std::unexpected(text.error());
  if (lanes) {
    facts.lanes_on = *lanes;
    return;
  }
  for (const Nic& nic : facts.nics)
    facts.lanes_on[nic.name] = "not known, for lanes.json cannot be read: " + lanes.error().message();
}

// Interrupts get other numbers, and queues their defaults, when a NIC's channels change.
bool made_queues_anew(const Plan& before, const Plan& after) {
  for (std::size_t i = 0; i < before.changes.size() && i < after.changes.size(); ++i) {
    if (before.changes[i].setting.knob->path.find("/channels/") != std::string_view::npos &&
        before.changes[i].outcome == Outcome::kWanted && after.changes[i].outcome == Outcome::kInForce) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_lanes(std::string_view text) {
  std::map<std::string, std::string> lanes_on;
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(text, {.max_bytes = 16 << 20}));
  PODLANE_TRY_ASSIGN(const json::Reader in, json::Reader::open(document, ""));
  PODLANE_TRY_ASSIGN(const auto lanes, in.optional_objects("lanes"));
  for (const json::Reader& lane : lanes) {
    PODLANE_TRY_ASSIGN(const std::string device, lane.string("device"));
    PODLANE_TRY_ASSIGN(const auto netdev, lane.optional_string("netdev"));
    if (!netdev || netdev->empty()) continue;
    std::string& names = lanes_on[*netdev];
    names += (names.empty() ? "" : ", ") + device;
  }
  return lanes_on;
}

Result<Profile> load_profile(const std::string& path) {
  PODLANE_TRY_ASSIGN(const std::string text, read_file(path));
  auto profile = parse_profile(text);
  if (!profile) return std::unexpected(std::move(profile).error().with("profile", path));
  return profile;
}

Result<Pass> look(const Tree& tree, const Profile& profile, const std::string& run_dir, const PlanOptions& options) {
  PODLANE_TRY_ASSIGN(Facts facts, read_facts(tree));
  read_lanes(run_dir, facts);
  PODLANE_TRY_ASSIGN(const ChangeJournal journal, ChangeJournal::read_only(run_dir, facts.boot_id));
  return plan_with(tree, profile, std::move(facts), journal, options);
}

Result<UniqueFd> lock_node(const std::string& run_dir) {
  const std::string path = run_dir + "/nodeconfig.lock";
  PODLANE_TRY(make_directories(run_dir));
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno("flock", path);
    return fail(Errc::kBusy, "another podlane-nodeconfig works on this node: it holds " + path);
  }
  return fd;
}

Result<Pass> change(const Tree& tree, const Profile& profile, const std::string& run_dir, const PlanOptions& options) {
  if (profile.mode == ProfileMode::kObserve) return look(tree, profile, run_dir, options);
  PODLANE_TRY_ASSIGN(Facts facts, read_facts(tree));
  read_lanes(run_dir, facts);
  PODLANE_TRY_ASSIGN(ChangeJournal journal, ChangeJournal::open(run_dir, facts.boot_id));
  PODLANE_TRY_ASSIGN(Pass pass, plan_with(tree, profile, std::move(facts), journal, options));
  const Plan planned = pass.plan;
  PODLANE_TRY(apply(pass.plan, pass.facts, tree, journal));
  if (!made_queues_anew(planned, pass.plan)) return pass;
  PODLANE_TRY_ASSIGN(Facts again, read_facts(tree));
  read_lanes(run_dir, again);
  PODLANE_TRY_ASSIGN(Pass second, plan_with(tree, profile, std::move(again), journal, options));
  PODLANE_TRY(apply(second.plan, second.facts, tree, journal));
  return second;
}

Result<std::vector<Undone>> take_back(const Tree& tree, const std::string& run_dir) {
  PODLANE_TRY_ASSIGN(Facts facts, read_facts(tree));
  read_lanes(run_dir, facts);
  PODLANE_TRY_ASSIGN(ChangeJournal journal, ChangeJournal::open(run_dir, facts.boot_id));
  return undo(facts, tree, journal);
}

Result<void> publish_status(const Profile& profile, const Pass& pass, const std::string& run_dir) {
  PODLANE_TRY(make_directories(run_dir));
  return write_file_atomic(run_dir + "/nodeconfig.json", render_json({profile, pass.plan, pass.advice}),
                           Durability::kMemory, 0644);
}

}  // namespace podlane::nodeconfig
