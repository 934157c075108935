#include "cni/plugin/undo.hpp"

#include "cni/plugin/lane_tun.hpp"
#include "cni/plugin/netns_visit.hpp"
#include "lib/lane/control_client.hpp"

namespace podlane::cni {

namespace {

// At least this long even when the leases took all the time: mostly the device plugin answers within milliseconds.
constexpr std::chrono::milliseconds kDetachLeast{500}, kDetachMost{5000};
// host-local works off a burst of pods one by one under its lock: the last of a hundred waits some seconds for it.
constexpr std::chrono::milliseconds kReleaseMost{8000};

// A lease that was not released stays written down: its plugin may only be missing for now.
Result<void> release(const Call& call, const Remains& remains, const Deadline& deadline, int lock_fd) {
  if (!remains.addresses) return {};
  PODLANE_TRY(journal::release_addresses(
      *remains.addresses, {.timeout = deadline.left(kReleaseMost), .inherit_fd = lock_fd}));
  return call.journal.remove_addresses(remains.key);
}

Result<void> detach(const Call& call, const Remains& remains, const Deadline& deadline) {
  const lane::Attachment attachment{remains.key.network, remains.key.container_id, remains.key.ifname};
  const auto answer = lane::control_call(call.conf.socket, lane::DetachRequest{attachment}, -1,
                                         std::max(deadline.left(kDetachMost), kDetachLeast));
  if (answer && !answer->refusal) return call.journal.remove_pending_delete(remains.key);
  // Refused or not answered in time: the device plugin works it off from here, whether it got to know of it or not.
  PODLANE_TRY(call.journal.write_pending_delete(remains.key));
  if (!answer) return std::unexpected(answer.error());
  return podlane::fail(Errc::kDenied, "device plugin: " + answer->refusal->message);
}

// The interfaces that other attachments of the same pod own.
std::vector<int> other_ifindexes(const Call& call, const journal::AttachmentKey& key) {
  std::vector<int> ifindexes;
  const auto listing = call.journal.list();
  if (!listing) return ifindexes;
  for (const journal::AttachmentRecord& record : listing->records) {
    if (record.key.container_id != key.container_id || record.key == key) continue;
    for (const journal::LaneRecord& lane : record.lanes) ifindexes.push_back(lane.ifindex);
  }
  return ifindexes;
}

Result<void> remove_from_pod(const Call& call, const Remains& remains) {
  const bool recorded = remains.attachment && !remains.attachment->lanes.empty();
  if (!recorded && !remains.search_unrecorded) return {};
  if (remains.netns_path.empty()) return {};
  const auto netns = net::open_netns(remains.netns_path);
  // The namespace took its interfaces with it.
  if (!netns && (netns.error().code() == Errc::kNotFound || netns.error().code() == Errc::kGone)) return {};
  if (!netns) return std::unexpected(netns.error());
  const auto keep = recorded ? std::vector<int>() : other_ifindexes(call, remains.key);
  PODLANE_TRY_ASSIGN(const NetnsVisit visit, NetnsVisit::enter(netns->get()));
  PODLANE_TRY_ASSIGN(net::RtNetlink netlink, net::RtNetlink::open());
  const std::string alias = alias_of(remains.key.container_id);
  if (!recorded) return remove_unrecorded_tuns(netlink, alias, keep);
  Result<void> outcome;
  for (const journal::LaneRecord& lane : remains.attachment->lanes) {
    auto removed = remove_tun(netlink, lane, alias);
    if (!removed && outcome) outcome = std::move(removed);
  }
  return outcome;
}

}  // namespace

Remains read_remains(const journal::Journal& journal, const journal::AttachmentKey& key, std::vector<Error>& problems) {
  Remains remains{.key = key};
  auto attachment = journal.read(key);
  if (attachment) remains.attachment = std::move(*attachment);
  else problems.push_back(std::move(attachment).error());
  auto addresses = journal.read_addresses(key);
  if (addresses) remains.addresses = std::move(*addresses);
  else problems.push_back(std::move(addresses).error());
  if (remains.attachment) {
    remains.netns_path = remains.attachment->netns_path;
    remains.ask_daemon = remains.attachment->with_daemon;
  }
  return remains;
}

std::vector<Error> undo(const Call& call, const Remains& remains, const Deadline& deadline, int lock_fd) {
  std::vector<Error> problems;
  const auto note = [&](Result<void> result) {
    if (!result) problems.push_back(std::move(result).error());
    return problems.empty();
  };
  note(release(call, remains, deadline, lock_fd));
  if (remains.ask_daemon) note(detach(call, remains, deadline));
  auto removed = remove_from_pod(call, remains);
  const bool pod_is_clean = removed.has_value();
  note(std::move(removed));
  if (pod_is_clean) note(call.journal.remove(remains.key));
  if (lock_fd >= 0) note(call.journal.sweep(remains.key));
  return problems;
}

}  // namespace podlane::cni
