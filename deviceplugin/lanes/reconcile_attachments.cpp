// The CNI plugin's records of attachments whose DEL never came: their IPAM leases would be held for ever. The plugin's
// lock on each attachment keeps the two of us apart.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "deviceplugin/lanes/table.hpp"
#include "lib/journal/ipam.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

constexpr auto kLockWait = std::chrono::milliseconds(100);  // Held: its own verb is at work; the next round looks again.

// Without mount propagation into our container a living namespace looks like the plain file that an unmounted one leaves
// behind. An address given to two pods is worse than one that waits for GC or the next boot: only a path that is not there
// any more, in a directory that is, counts.
bool is_surely_gone(const std::string& netns_path) {
  return net::netns_state(netns_path) == net::NetNsState::kGone && ::access(netns_path.c_str(), F_OK) != 0 &&
         errno == ENOENT;
}

lane::Attachment attachment_of(const journal::AttachmentKey& key) { return {key.network, key.container_id, key.ifname}; }

}  // namespace

void Table::reconcile_old_boots() {
  const auto records = attachments_.list();
  const auto addresses = attachments_.list_addresses();
  std::set<journal::AttachmentKey> old;
  if (records) {
    for (const auto& record : records->records) {
      if (record.boot_id != boot_id_) old.insert(record.key);
    }
  }
  if (addresses) {
    for (const auto& record : addresses->records) {
      if (record.boot_id != boot_id_) old.insert(record.key);
    }
  }
  for (const journal::AttachmentKey& key : old) end_attachment(key, "the node was rebooted");
}

// DEL did everything but reach us, or reached us and could not wait.
void Table::reconcile_pending_deletes() {
  const auto pending = attachments_.list_pending_deletes();
  for (const auto& key : pending ? pending->records : std::vector<journal::AttachmentKey>()) {
    const auto lock = attachments_.lock(key, kLockWait);
    if (!lock) continue;
    const auto done = [&]() -> Result<void> {
      // An ADD under the same key may have settled it since we looked: its lanes are not to be taken.
      PODLANE_TRY_ASSIGN(const bool still_waits, attachments_.has_pending_delete(key));
      if (still_waits) PODLANE_TRY(detach(attachment_of(key)));
      PODLANE_TRY(attachments_.remove_pending_delete(key));
      PODLANE_TRY_ASSIGN(const auto attachment, attachments_.read(key));
      if (attachment) return {};
      return attachments_.retire_lock(key, *lock);
    }();
    if (!done) log_.warn("a DEL that waits is not carried out", {{"container_id", key.container_id},
                                                                {"why", done.error().message()}});
  }
}

void Table::reconcile_attachments(const std::vector<PodDevices>& listing) {
  std::map<journal::AttachmentKey, std::string> gone;  // Why.
  // What reconcile_bound() left bound has a living pod, however its namespace looks from here.
  const auto is_bound = [&](const journal::AttachmentKey& key) {
    return in_state([&](LaneStore& store) { return !store.of_attachment(attachment_of(key)).empty(); });
  };
  const auto records = attachments_.list();
  for (const auto& record : records ? records->records : std::vector<journal::AttachmentRecord>()) {
    if (is_bound(record.key)) continue;
    if (is_surely_gone(record.netns_path)) gone.emplace(record.key, "its network namespace is gone");
    const bool is_seen = net::netns_state(record.netns_path) == net::NetNsState::kAlive;
    if (is_seen || !record.with_daemon) continue;
    const bool is_listed = std::any_of(listing.begin(), listing.end(), [&](const PodDevices& entry) {
      return entry.name_space == record.pod_namespace && entry.pod == record.pod_name;
    });
    if (!is_listed && record.state == journal::RecordState::kMade) {
      gone.emplace(record.key, "its pod is no longer listed");
    }
  }
  const auto addresses = attachments_.list_addresses();
  for (const auto& record : addresses ? addresses->records : std::vector<journal::AddressRecord>()) {
    if (!is_bound(record.key) && is_surely_gone(record.netns_path)) {
      gone.emplace(record.key, "its network namespace is gone");
    }
  }
  for (const auto& [key, why] : gone) end_attachment(key, why);
}

// What DEL does, in its order: leases first, then our side, then the records.
void Table::end_attachment(const journal::AttachmentKey& key, std::string_view why) {
  const auto lock = attachments_.lock(key, kLockWait);
  if (!lock) return;
  const auto ended = [&]() -> Result<void> {
    PODLANE_TRY_ASSIGN(const auto addresses, attachments_.read_addresses(key));
    if (addresses) {
      PODLANE_TRY(journal::release_addresses(*addresses, {.inherit_fd = lock->fd()}));
      PODLANE_TRY(attachments_.remove_addresses(key));
    }
    PODLANE_TRY(detach(attachment_of(key)));
    PODLANE_TRY(attachments_.remove(key));
    PODLANE_TRY(attachments_.remove_pending_delete(key));
    return attachments_.retire_lock(key, *lock);
  }();
  if (ended) {
    log_.info("an attachment without DEL was ended", {{"network", key.network}, {"container_id", key.container_id}, {"why", why}});
  } else {
    log_.error("an attachment without DEL is not ended", {{"network", key.network},
                                                          {"container_id", key.container_id},
                                                          {"why", ended.error().message()}});
  }
}

}  // namespace podlane::dp
