// What nobody told us: pods that are gone without DEL, reservations that no pod ever used. At start and on a timer. The
// kernel (is the namespace there?) comes before the kubelet; while the kubelet does not answer, nothing is taken away.
#include <algorithm>

#include "deviceplugin/lanes/table.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

constexpr unsigned kGraceRounds = 2;  // For a pod that is only not listed: the kubelet lists a pod after its Allocate.

bool is_listed(const std::vector<PodDevices>& listing, const LaneRecord& record, bool any_pod) {
  return std::any_of(listing.begin(), listing.end(), [&](const PodDevices& entry) {
    const bool is_pod = entry.name_space == record.owner.pod.name_space && entry.pod == record.owner.pod.name;
    return (any_pod || is_pod) &&
           std::find(entry.device_ids.begin(), entry.device_ids.end(), record.device) != entry.device_ids.end();
  });
}

}  // namespace

void Table::housekeeping() {
  auto next_reconcile = std::chrono::steady_clock::now();
  for (;;) {
    if (std::chrono::steady_clock::now() >= next_reconcile) {
      reconcile();
      next_reconcile = std::chrono::steady_clock::now() + options_.reconcile_every;
    }
    look_at_onload();
    (void)look_at_nics(false);  // Reports by the devices' health and the log.
    std::unique_lock lock(housekeeping_mutex_);
    const auto wait = std::min<std::chrono::milliseconds>(options_.nic_look_every, options_.reconcile_every);
    housekeeping_wake_.wait_for(lock, wait, [&] { return stopping_; });
    if (stopping_) return;
  }
}

void Table::reconcile() {
  // The runtime has asked for these: they need no word of the kubelet.
  reconcile_pending_deletes();
  reconcile_old_boots();
  const auto listing = pod_resources_.fresh();
  if (!listing) return log_.warn("nothing is reconciled", {{"why", listing.error().message()}});
  std::vector<LaneRecord> records;
  in_state([&](LaneStore& store) {
    for (const auto& [device, lane] : store.lanes()) {
      if (lane.record.state != LaneState::kFree) records.push_back(lane.record);
    }
  });
  for (const LaneRecord& record : records) {
    if (record.kind == lane::Kind::kOnload) note_listed(record, **listing);
    if (record.state == LaneState::kReserved) {
      reconcile_reserved(record, is_listed(**listing, record, true));
    } else {
      reconcile_bound(record, is_listed(**listing, record, false));
    }
  }
  reconcile_attachments(**listing);
}

bool Table::is_pod_gone(const LaneRecord& record, bool listed) {
  const std::string& path = record.owner.netns_path;
  switch (path.empty() ? net::NetNsState::kUnknown : net::netns_state(path)) {
    case net::NetNsState::kGone: return true;
    case net::NetNsState::kAlive: {
      // Another namespace at the same path is another sandbox.
      const auto netns = net::open_netns(path);
      const auto cookie = netns ? net::netns_cookie(netns->get()) : Result<std::uint64_t>(record.owner.netns_cookie);
      return cookie && *cookie != record.owner.netns_cookie;
    }
    case net::NetNsState::kUnknown: break;
  }
  return in_state([&](LaneStore& store) {
    Lane* const lane = store.find(record.device);
    if (lane == nullptr || lane->record.owner.attachment != record.owner.attachment) return false;
    lane->gone_rounds = listed ? 0 : lane->gone_rounds + 1;
    return lane->gone_rounds >= kGraceRounds;
  });
}

void Table::reconcile_bound(const LaneRecord& record, bool listed) {
  if (!is_pod_gone(record, listed)) return;
  const auto claim = claims_.claim({record.device}, kClaimWait);
  if (!claim) return;  // Somebody works on it: the next round looks again.
  if (auto undone = unbind(record.device, &record.owner.attachment); !undone) {
    return log_.error("a lane whose pod is gone is not undone", {{"lane", record.device}, {"why", undone.error().message()}});
  }
  // Still counted to the pod: its sandbox is being re-made.
  release_gone(record, listed, "its pod is gone");
}

void Table::reconcile_reserved(const LaneRecord& record, bool listed) {
  const bool is_due = in_state([&](LaneStore& store) {
    Lane* const lane = store.find(record.device);
    if (lane == nullptr || lane->record.directory != record.directory) return false;
    const MonotonicTime now = std::chrono::steady_clock::now();
    if (listed) lane->unlisted_since.reset();
    else if (!lane->unlisted_since) lane->unlisted_since = now;
    return !listed && now - *lane->unlisted_since >= options_.reserved_timeout;
  });
  if (!is_due) return;
  const auto claim = claims_.claim({record.device}, kClaimWait);
  if (!claim) return;
  release_gone(record, false, "no pod came for it");
}

// The caller holds the claim; the device may have got a new owner since `record` was read.
void Table::release_gone(const LaneRecord& record, bool keep_reserved, std::string_view why) {
  const bool is_ours = in_state([&](LaneStore& store) {
    ++counters_.reconciled_total;
    const Lane* const lane = store.find(record.device);
    return lane != nullptr && lane->record.state == LaneState::kReserved && lane->record.directory == record.directory;
  });
  log_.info("a lane was taken back", {{"lane", record.device},
                                      {"why", why},
                                      {"namespace", record.owner.pod.name_space},
                                      {"pod", record.owner.pod.name}});
  if (keep_reserved || !is_ours) return;
  if (auto released = release(record.device); !released) {
    log_.error("a lane is not released", {{"lane", record.device}, {"why", released.error().message()}});
  }
}

}  // namespace podlane::dp
