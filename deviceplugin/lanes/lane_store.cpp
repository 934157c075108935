#include "deviceplugin/lanes/lane_store.hpp"

#include <algorithm>
#include <set>

#include "bpf/abi/lane_abi.h"
#include "deviceplugin/lanes/naming.hpp"
#include "lib/net/addr.hpp"

namespace podlane::dp {

std::string without_prefix(const std::string& cidr) { return cidr.substr(0, cidr.find('/')); }

Result<AddressBytes> address_bytes(const std::string& address) {
  PODLANE_TRY_ASSIGN(const net::IpAddress ip, net::parse_ip(without_prefix(address)));
  if (ip.family == net::Family::kIpv6) return ip.bytes;
  AddressBytes mapped{};
  mapped[10] = mapped[11] = 0xff;
  std::copy_n(ip.bytes.begin(), 4, mapped.begin() + 12);
  return mapped;
}

LaneStore::LaneStore(const Config& config, const std::vector<DeviceSpec>& devices, LaneJournal journal)
    : config_(config), journal_(std::move(journal)), slots_(LANE_SLOTS, false) {
  for (const DeviceSpec& device : devices) {
    configured_.emplace(device.id, device);
    add_free(device);
  }
  for (const std::string& name : list_nics(config_)) nics_[name].facts.name = name;
  for (const PoolConfig& pool : config_.pools) {
    if (pool.kind == lane::Kind::kOnload) onload_[pool.name] = {};
  }
}

void LaneStore::add_free(const DeviceSpec& device) {
  Lane& lane = lanes_[device.id];
  lane = {.spec = device, .pool = pool(device.pool), .record = {}};
  lane.record.device = device.id;
  lane.record.pool = device.pool;
  lane.record.kind = device.kind;
}

const PoolConfig* LaneStore::pool(const std::string& name) const {
  const auto found = std::find_if(config_.pools.begin(), config_.pools.end(),
                                  [&](const PoolConfig& candidate) { return candidate.name == name; });
  return found == config_.pools.end() ? nullptr : &*found;
}

Lane* LaneStore::find(const std::string& device) {
  const auto found = lanes_.find(device);
  return found == lanes_.end() ? nullptr : &found->second;
}

std::vector<Lane*> LaneStore::of_attachment(const lane::Attachment& attachment) {
  std::vector<Lane*> found;
  for (auto& [device, lane] : lanes_) {
    if (lane.is_bound() && lane.record.owner.attachment == attachment) found.push_back(&lane);
  }
  return found;
}

Lane* LaneStore::holder_of(const std::vector<std::string>& addresses, const Lane& asking) {
  std::set<AddressBytes> wanted;
  for (const std::string& address : addresses) {
    if (const auto bytes = address_bytes(address)) wanted.insert(*bytes);
  }
  const auto holds_one = [&](const std::vector<std::string>& held) {
    return std::any_of(held.begin(), held.end(), [&](const std::string& address) {
      const auto bytes = address_bytes(address);
      return bytes && wanted.contains(*bytes);
    });
  };
  for (auto& [device, lane] : lanes_) {
    if (!lane.is_bound() || device == asking.spec.id) continue;
    const bool same_wire = asking.spec.netdev.empty() ? lane.spec.pool == asking.spec.pool
                                                      : lane.record.host.nic_name == asking.spec.netdev;
    if (same_wire && (holds_one(lane.record.tun.addresses) || holds_one(lane.record.owner.fixed_addresses))) {
      return &lane;
    }
  }
  return nullptr;
}

std::vector<std::uint32_t> LaneStore::numbers_of(const std::vector<std::string>& device_ids) {
  std::vector<std::uint32_t> numbers;
  for (const std::string& id : device_ids) numbers.push_back(lanes_.at(id).spec.queue.value);
  return numbers;
}

std::string LaneStore::why_unhealthy(const Lane& lane) const {
  if (lane.pool == nullptr) return "no pool of the configuration has device " + lane.spec.id + " any more";
  if (lane.spec.kind == lane::Kind::kOnload) return onload_.at(lane.pool->name).why_unhealthy(lane.spec.queue.value);
  if (lane.spec.netdev.empty()) return {};
  const Nic& nic = nics_.at(lane.spec.netdev);
  if (!nic.why.empty()) return nic.why;
  return why_unfit(*lane.pool, lane.spec.netdev, nic.facts.rx_queues);
}

Result<std::vector<std::string>> LaneStore::validate(const std::string& pool_name, std::vector<std::string> device_ids) {
  if (pool(pool_name) == nullptr) return fail(Errc::kNotFound, "no pool '" + pool_name + "' is configured on this node");
  if (device_ids.empty()) return fail(Errc::kInvalid, "no device id of pool '" + pool_name + "' was given");
  sort_device_ids(device_ids);
  for (std::size_t at = 0; at < device_ids.size(); ++at) {
    const std::string& id = device_ids[at];
    if (at > 0 && device_ids[at - 1] == id) return fail(Errc::kInvalid, "device '" + id + "' was given twice");
    const Lane* const lane = find(id);
    if (lane == nullptr || lane->spec.pool != pool_name) {
      return fail(Errc::kNotFound, "device '" + id + "' is not one of pool '" + pool_name + "'");
    }
    const std::string why = why_unhealthy(*lane);
    if (!why.empty()) return fail(Errc::kGone, "device '" + id + "' is unhealthy: " + why);
  }
  return device_ids;
}

Result<void> LaneStore::reserve(const std::vector<std::string>& device_ids, const std::string& directory) {
  std::vector<LaneRecord> records;
  std::size_t next_slot = 0;
  for (const std::string& id : device_ids) {
    const Lane& lane = lanes_.at(id);
    if (lane.record.state != LaneState::kFree) return fail(Errc::kBusy, "device '" + id + "' was taken meanwhile");
    while (next_slot < slots_.size() && slots_[next_slot]) ++next_slot;
    if (next_slot == slots_.size()) {
      return fail(Errc::kBusy, "all " + std::to_string(LANE_SLOTS) + " lane slots of this node are in use");
    }
    LaneRecord record = lane.record;
    record.state = LaneState::kReserved;
    record.slot = LaneSlot(static_cast<std::uint32_t>(next_slot++));
    record.index = static_cast<std::uint32_t>(records.size());
    record.directory = directory;
    records.push_back(std::move(record));
  }
  for (std::size_t at = 0; at < records.size(); ++at) {
    if (auto saved = journal_.save(records[at]); !saved) {
      for (std::size_t undo = 0; undo < at; ++undo) (void)journal_.remove(records[undo].device);
      return saved;
    }
  }
  for (LaneRecord& record : records) {
    slots_[record.slot.value] = true;
    Lane& lane = lanes_.at(record.device);
    lane.unlisted_since.reset();
    lane.listed_pod = {};
    lane.gone_rounds = 0;
    lane.record = std::move(record);
  }
  return {};
}

Result<void> LaneStore::unbind(Lane& lane) {
  LaneRecord record = lane.record;
  record.state = LaneState::kReserved;
  record.owner = {};
  record.host = {};
  record.tun = {};
  record.in_force = {};
  record.watched.clear();
  PODLANE_TRY(journal_.save(record));
  lane.record = std::move(record);
  lane.session = false;
  lane.watching = false;
  lane.gone_rounds = 0;
  lane.owner_counters.clear();
  lane.unlisted_since.reset();
  return {};
}

Result<void> LaneStore::release(const std::string& device) {
  Lane& lane = lanes_.at(device);
  PODLANE_TRY(journal_.remove(device));
  slots_[lane.record.slot.value] = false;
  const auto spec = configured_.find(device);
  if (spec == configured_.end()) lanes_.erase(device);
  else add_free(spec->second);
  return {};
}

Result<void> LaneStore::adopt(LaneRecord record) {
  if (slots_[record.slot.value]) {
    return fail(Errc::kExists, "slot " + std::to_string(record.slot.value) + " of device '" + record.device +
                                   "' is another record's too");
  }
  slots_[record.slot.value] = true;
  const auto [at, is_new] = lanes_.try_emplace(record.device);
  Lane& lane = at->second;
  // The configuration may have changed: a device of another pool or kind by the same id is not the one recorded.
  const bool same = !is_new && lane.spec.pool == record.pool && lane.spec.kind == record.kind &&
                    (record.host.nic_name.empty() || record.host.nic_name == lane.spec.netdev);
  if (!same) {
    lane.spec = {.id = record.device, .pool = record.pool, .kind = record.kind, .netdev = record.host.nic_name};
    lane.pool = nullptr;
  }
  lane.record = std::move(record);
  return {};
}

}  // namespace podlane::dp
