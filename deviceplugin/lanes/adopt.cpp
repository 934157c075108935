// Restart: an earlier life's records, sockets and kernel objects. The XSKMAP is left as it is: a slot keeps its socket, so
// no frame is lost. What no record explains (state was lost) is removed.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "deviceplugin/lanes/table.hpp"
#include "lib/base/file.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()), &::closedir);
  while (const dirent* const entry = handle == nullptr ? nullptr : ::readdir(handle.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.insert(name);
  }
  return names;
}

}  // namespace

Result<void> Table::adopt() {
  PODLANE_TRY_ASSIGN(const LaneJournal::Loaded loaded, store_.journal().load());
  for (const auto& [path, why] : loaded.unreadable) log_.error("a lane's record is unreadable", {{"file", path}, {"why", why}});
  for (const LaneRecord& record : loaded.of_older_boots) drop_older_boot(record);
  for (const LaneRecord& record : loaded.of_this_boot) {
    if (auto adopted = store_.adopt(record); !adopted) {
      log_.error("a lane's record is dropped", {{"lane", record.device}, {"why", adopted.error().message()}});
      (void)store_.journal().remove(record.device);
    }
  }
  return {};
}

// The kernel forgot everything at the reboot; the kubelet allocates anew. Directory and record are all there is.
void Table::drop_older_boot(const LaneRecord& record) {
  (void)::unlink((record.lane_directory() + "/handover.sock").c_str());
  (void)::rmdir(record.lane_directory().c_str());
  (void)::rmdir(record.directory.c_str());
  if (auto removed = store_.journal().remove(record.device); !removed) {
    log_.warn("a record of an older boot is left", {{"lane", record.device}, {"why", removed.error().message()}});
  }
}

void Table::adopt_lane(const LaneRecord& record) {
  if (record.kind == lane::Kind::kOnload) return;  // Nothing of ours stands.
  auto served = make_directories(record.directory);
  if (served) served = handover_->serve(record.device, record.lane_directory());
  if (!served) log_.error("a lane is not served", {{"lane", record.device}, {"why", served.error().message()}});
  if (record.state != LaneState::kReady) return;
  // Programs are replaced by this build's, map entries are written again: where the maps are the old ones, that changes
  // nothing; where a side map was re-made, it fills it.
  Result<void> steered = {};
  if (record.kind == lane::Kind::kVeth) {
    veth_entry entry{.slot = record.slot.value, .nic_ifindex = static_cast<std::uint32_t>(record.host.nic.value)};
    std::copy(record.host.nic_mac.begin(), record.host.nic_mac.end(), entry.nic_mac);
    const auto netns = net::open_netns(record.owner.netns_path);
    steered = steer([&](bpf::Steering& steering) -> Result<void> {
      if (netns) PODLANE_TRY(steering.attach_veth_pod_end(netns->get(), record.host.veth_pod, record.slot));
      return steering.attach_veth_host_end(record.host.veth_host, entry);
    });
  }
  if (steered) steered = steer_lane(record);
  // Its pod may have gone while nobody looked: the reconcile that follows decides.
  if (!steered) log_.warn("a lane is not adopted whole", {{"lane", record.device}, {"why", steered.error().message()}});
}

void Table::sweep() {
  sweep_steering();
  sweep_directories();
  const auto veths = our_veths();
  if (!veths) return log_.warn("veths of lost lanes are not looked for", {{"why", veths.error().message()}});
  for (const auto& [host_end, device] : *veths) {
    const bool is_known = in_state([&](LaneStore& store) {
      const Lane* const lane = store.find(device);
      return lane != nullptr && lane->is_bound() && lane->record.host.veth_host == host_end;
    });
    if (is_known) continue;
    auto deleted = delete_link(host_end);
    if (deleted) log_.info("removed the veth of a lost lane", {{"lane", device}});
    else log_.warn("the veth of a lost lane is left", {{"lane", device}, {"why", deleted.error().message()}});
  }
}

void Table::sweep_steering() {
  struct Known {
    std::set<std::pair<std::uint32_t, AddressBytes>> addresses;
    std::set<int> veths;
    std::set<int> nics;
  };
  const Known known = in_state([](LaneStore& store) {
    Known in_use;
    for (const auto& [name, nic] : store.nics()) {
      if (nic.present) in_use.nics.insert(nic.facts.index.value);
    }
    for (const auto& [device, lane] : store.lanes()) {
      if (!lane.is_bound()) continue;
      const LaneHostSide& host = lane.record.host;
      in_use.nics.insert(host.nic.value);
      in_use.veths.insert(host.veth_host.value);
      for (const std::string& address : lane.record.tun.addresses) {
        if (const auto bytes = address_bytes(address)) {
          in_use.addresses.emplace(static_cast<std::uint32_t>(host.nic.value), *bytes);
        }
      }
    }
    return in_use;
  });
  auto swept = steer([&](bpf::Steering& steering) -> Result<void> {
    PODLANE_TRY_ASSIGN(const auto lanes, steering.lanes());
    for (const auto& [key, entry] : lanes) {
      AddressBytes bytes{};
      std::copy(std::begin(key.addr), std::end(key.addr), bytes.begin());
      if (known.addresses.contains({key.ifindex, bytes})) continue;
      PODLANE_TRY(steering.clear_lane(IfIndex(static_cast<int>(key.ifindex)), bytes));
    }
    PODLANE_TRY_ASSIGN(const auto ends, steering.veth_host_ends());
    for (const auto& [host_end, entry] : ends) {
      if (!known.veths.contains(host_end.value)) PODLANE_TRY(steering.forget_veth_host_end(host_end));
    }
    for (const IfIndex nic : steering.attached_nics()) {
      if (!known.nics.contains(nic.value)) PODLANE_TRY(steering.detach_nic(nic));
    }
    return {};
  });
  if (!swept) log_.warn("steering of lost lanes is left", {{"why", swept.error().message()}});
}

void Table::sweep_directories() {
  const std::string parent = options_.run_dir + "/lanes";
  std::set<std::string> known;
  in_state([&](LaneStore& store) {
    for (const auto& [device, lane] : store.lanes()) known.insert(lane.record.directory);
  });
  for (const std::string& name : names_in(parent)) {
    const std::string directory = parent + "/" + name;
    if (known.contains(directory)) continue;
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    if (error) log_.warn("the directory of a lost lane is left", {{"directory", directory}, {"why", error.message()}});
  }
}

}  // namespace podlane::dp
