// DEL: succeeds whatever is missing, since a runtime repeats it for ever otherwise (CNI 1.1, DEL).
#include <sys/stat.h>

#include "cni/plugin/lane_work.hpp"
#include "cni/plugin/undo.hpp"
#include "cni/plugin/verbs.hpp"

namespace podlane::cni {

CniResult<std::string> cmd_del(const Call& call) {
  const NetConf& conf = call.conf;
  std::vector<Error> problems;
  Remains remains = read_remains(call.journal, call.key(), problems);
  const bool recorded = remains.attachment || remains.addresses;
  // Own `ipam` marks a standalone network, as ADD refuses it when chained: prevResult may be missing here.
  const bool may_be_ours = conf.annotated() || conf.ipam_type || conf.select == Select::kAll || !conf.prev_result;
  if (!recorded && problems.empty() && !may_be_ours) return std::string();

  // An ADD that is still at work, or an IPAM plugin that outlived it, holds the lock. When it does so to the end, DEL
  // goes on: what the other one still makes is in its record.
  auto lock = call.journal.lock(call.key(), call.deadline.left(std::chrono::milliseconds(2500)));
  if (lock) {
    remains = read_remains(call.journal, call.key(), problems);
  } else {
    problems.push_back(lock.error());
  }
  const int lock_fd = lock ? lock->fd() : -1;
  if (remains.netns_path.empty()) remains.netns_path = call.args.netns;
  if (!remains.attachment) {
    // The record may be lost or never written: ask everywhere.
    remains.search_unrecorded = may_be_ours;
    remains.ask_daemon = conf.annotated();
  }
  if (!remains.addresses && conf.ipam_type && !conf.prev_result) {
    remains.addresses = journal::AddressRecord{
        .key = call.key(), .boot_id = "", .netns_path = call.args.netns, .calls = {own_ipam_call(call)}};
  }
  for (Error& problem : undo(call, remains, call.deadline, lock_fd)) problems.push_back(std::move(problem));
  if (lock) (void)call.journal.retire_lock(call.key(), *lock);
  for (const Error& problem : problems) {
    call.log.warn("DEL left to the device plugin",
                  {{"container_id", call.args.container_id}, {"err", problem.message()}});
  }
  return std::string();
}

}  // namespace podlane::cni
