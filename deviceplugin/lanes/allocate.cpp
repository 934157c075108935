// The kubelet's calls. Allocate of free devices is quick: no disk, no query, no BPF call; the kubelet's admission loop
// waits for it without a limit. Taking a device from an old owner is the slow way round, on the caller's thread.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "deviceplugin/lanes/naming.hpp"
#include "deviceplugin/lanes/onload_answer.hpp"
#include "deviceplugin/lanes/table.hpp"
#include "lib/base/file.hpp"
#include "lib/base/scope_guard.hpp"

namespace podlane::dp {

namespace {

bool is_listed_with(const std::vector<PodDevices>& listing, const lane::PodName& pod, const std::string& device) {
  return std::any_of(listing.begin(), listing.end(), [&](const PodDevices& entry) {
    return entry.name_space == pod.name_space && entry.pod == pod.name &&
           std::find(entry.device_ids.begin(), entry.device_ids.end(), device) != entry.device_ids.end();
  });
}

}  // namespace

Result<AllocateAnswer> Table::allocate(const std::string& pool, const std::vector<std::string>& device_ids) {
  PODLANE_TRY_ASSIGN(const std::string name, random_directory_name());
  const std::string directory = options_.run_dir + "/lanes/" + name;
  std::vector<std::string> ids, taken;
  std::vector<LaneRecord> records;
  std::optional<AllocateAnswer> onload;
  // One visit to the state thread where every device is free, which is the rule.
  const auto reserve_free = [&](LaneStore& store) -> Result<void> {
    PODLANE_TRY_ASSIGN(ids, store.validate(pool, device_ids));
    for (const std::string& id : ids) {
      if (store.find(id)->record.state != LaneState::kFree) taken.push_back(id);
    }
    if (!taken.empty()) return {};
    PODLANE_TRY(store.reserve(ids, directory));
    for (const std::string& id : ids) records.push_back(store.find(id)->record);
    if (store.pool(pool)->kind == lane::Kind::kOnload) {
      onload = onload_answer(store.onload().at(pool), store.pool(pool)->default_mode, store.numbers_of(ids));
    }
    lanes_changed();
    return {};
  };
  PODLANE_TRY(in_state(reserve_free));
  if (!taken.empty()) {
    // The kubelet decided that these are free again: the old owner loses. There is no Deallocate call.
    for (const std::string& id : std::exchange(taken, {})) PODLANE_TRY(evict(id));
    PODLANE_TRY(in_state(reserve_free));
    if (!taken.empty()) return fail(Errc::kBusy, "device '" + taken.front() + "' was taken by another call meanwhile");
  }
  if (onload) return std::move(*onload);  // No lane of ours: the directory is its name only.
  if (auto served = serve(records); !served) {
    for (const std::string& id : ids) {
      if (auto undone = release(id); !undone) {
        log_.warn("an allocation that failed is not undone", {{"lane", id}, {"why", undone.error().message()}});
      }
    }
    return std::unexpected(std::move(served).error().with("allocate", pool));
  }
  return AllocateAnswer{.environment = {{lanes_variable(pool), std::string(kPodLanesDirectory) + pool}},
                        .host_path = directory,
                        .container_path = std::string(kPodLanesDirectory) + pool};
}

Result<void> Table::serve(const std::vector<LaneRecord>& records) {
  const std::string& directory = records.front().directory;
  // 0755: the container's user, whoever it is, must get through. The name cannot be guessed, and lanes/ is not
  // listable.
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno("mkdir", directory);
  for (const LaneRecord& record : records) PODLANE_TRY(handover_->serve(record.device, record.lane_directory()));
  return {};
}

Result<void> Table::evict(const std::string& device) {
  PODLANE_TRY_ASSIGN(const Claim claim, claims_.claim({device}, kClaimWait));
  std::optional<lane::PodName> live_owner;
  const bool is_free = in_state([&](LaneStore& store) {
    const Lane& lane = *store.find(device);
    if (lane.is_bound() && lane.session) live_owner = lane.record.owner.pod;
    return lane.record.state == LaneState::kFree;
  });
  if (is_free) return {};
  if (live_owner) {
    PODLANE_TRY_ASSIGN(const PodListing listing, pod_resources_.fresh());
    if (is_listed_with(*listing, *live_owner, device)) {
      return fail(Errc::kBusy, "device '" + device + "' is in use by pod " + live_owner->name_space + "/" +
                                   live_owner->name + ", which the kubelet still lists with it");
    }
  }
  PODLANE_TRY(unbind(device, nullptr));
  return release(device);
}

Result<std::vector<std::string>> Table::prefer(const std::string& pool, const std::vector<std::string>& available,
                                               const std::vector<std::string>& must_include, std::size_t count) {
  return in_state([&](LaneStore& store) -> Result<std::vector<std::string>> {
    if (store.pool(pool) == nullptr) return fail(Errc::kNotFound, "no pool '" + pool + "' is configured on this node");
    std::vector<std::string> chosen = must_include;
    std::vector<std::string> rest = available;
    sort_device_ids(rest);
    // Free ones first: a device that still has an old owner costs its clean-up at Allocate.
    std::stable_partition(rest.begin(), rest.end(), [&](const std::string& id) {
      const Lane* const lane = store.find(id);
      return lane != nullptr && lane->record.state == LaneState::kFree;
    });
    for (const std::string& id : rest) {
      if (chosen.size() >= count) break;
      if (std::find(chosen.begin(), chosen.end(), id) == chosen.end()) chosen.push_back(id);
    }
    return chosen;
  });
}

Result<void> Table::pre_start(const std::string& pool, const std::vector<std::string>& device_ids) {
  std::vector<LaneRecord> missing;
  const auto find_missing = [&](LaneStore& store) -> Result<void> {
    PODLANE_TRY_ASSIGN(const std::vector<std::string> ids, store.validate(pool, device_ids));
    // Nothing of ours to arm; that Onload is still there was looked at just now.
    if (store.pool(pool)->kind == lane::Kind::kOnload) return {};
    for (const std::string& id : ids) {
      const LaneRecord& record = store.find(id)->record;
      if (record.state == LaneState::kFree) {
        return fail(Errc::kNotFound, "device '" + id + "' is not allocated as far as this node knows (its state was " +
                                         "lost); the pod must be made anew");
      }
      if (record.state != LaneState::kReady) {
        return fail(Errc::kUnavailable,
                    "device '" + id + "' belongs to no attached pod: CNI ADD of podlane did not run for this pod. Is " +
                        "podlane in the node's CNI configuration, and does the pod have the annotation " +
                        "podlane.io/lanes: " + pool + "?");
      }
      struct stat info {};
      if (::stat((record.lane_directory() + "/handover.sock").c_str(), &info) != 0) missing.push_back(record);
    }
    return {};
  };
  PODLANE_TRY(in_state(find_missing));
  // The container's mount is of the directory: a new socket file in it is seen at once.
  if (!missing.empty()) PODLANE_TRY(make_directories(missing.front().directory));
  for (const LaneRecord& record : missing) PODLANE_TRY(handover_->serve(record.device, record.lane_directory()));
  return {};
}

}  // namespace podlane::dp
