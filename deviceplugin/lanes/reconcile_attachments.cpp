// The CNI plugin's records of attachments whose DEL never came: their IPAM leases would be held for ever. The plugin's
// lock on each attachment keeps the two of us apart.
#include <algorithm>
#include <set>

#include "deviceplugin/lanes/table.hpp"
#include "lib/journal/ipam.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

constexpr auto kLockWait = std::chrono::milliseconds(100);  // Held: its own verb is at work; the next round looks again.

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

void Table::reconcile_attachments(const std::vector<PodDevices>& listing) {
  const auto pending = attachments_.list_pending_deletes();
  for (const auto& key : pending ? pending->records : std::vector<journal::AttachmentKey>()) {
    // DEL did everything but reach us.
    auto detached = detach(attachment_of(key));
    if (detached) detached = attachments_.remove_pending_delete(key);
    if (!detached) log_.warn("a DEL that waits is not carried out", {{"container_id", key.container_id},
                                                                    {"why", detached.error().message()}});
  }

  std::map<journal::AttachmentKey, std::string> gone;  // Why.
  // What reconcile_bound() left bound has a living pod, however its namespace looks from here.
  const auto is_bound = [&](const journal::AttachmentKey& key) {
    return in_state([&](LaneStore& store) { return !store.of_attachment(attachment_of(key)).empty(); });
  };
  const auto records = attachments_.list();
  for (const auto& record : records ? records->records : std::vector<journal::AttachmentRecord>()) {
    if (is_bound(record.key)) continue;
    const net::NetNsState state = net::netns_state(record.netns_path);
    if (state == net::NetNsState::kGone) gone.emplace(record.key, "its network namespace is gone");
    if (state != net::NetNsState::kUnknown || !record.with_daemon) continue;
    const bool is_listed = std::any_of(listing.begin(), listing.end(), [&](const PodDevices& entry) {
      return entry.name_space == record.pod_namespace && entry.pod == record.pod_name;
    });
    if (!is_listed && record.state == journal::RecordState::kMade) {
      gone.emplace(record.key, "its pod is no longer listed");
    }
  }
  const auto addresses = attachments_.list_addresses();
  for (const auto& record : addresses ? addresses->records : std::vector<journal::AddressRecord>()) {
    if (!is_bound(record.key) && net::netns_state(record.netns_path) == net::NetNsState::kGone) {
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
