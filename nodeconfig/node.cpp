#include "nodeconfig/node.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include "lib/base/file.hpp"
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

}  // namespace

Result<Profile> load_profile(const std::string& path) {
  PODLANE_TRY_ASSIGN(const std::string text, read_file(path));
  auto profile = parse_profile(text);
  if (!profile) return std::unexpected(std::move(profile).error().with("profile", path));
  return profile;
}

Result<Pass> look(const Tree& tree, const Profile& profile, const std::string& run_dir, const PlanOptions& options) {
  PODLANE_TRY_ASSIGN(Facts facts, read_facts(tree));
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
  PODLANE_TRY_ASSIGN(ChangeJournal journal, ChangeJournal::open(run_dir, facts.boot_id));
  PODLANE_TRY_ASSIGN(Pass pass, plan_with(tree, profile, std::move(facts), journal, options));
  PODLANE_TRY(apply(pass.plan, pass.facts, tree, journal));
  return pass;
}

Result<void> publish_status(const Profile& profile, const Pass& pass, const std::string& run_dir) {
  PODLANE_TRY(make_directories(run_dir));
  return write_file_atomic(run_dir + "/nodeconfig.json", render_json({profile, pass.plan, pass.advice}),
                           Durability::kMemory, 0644);
}

}  // namespace podlane::nodeconfig
