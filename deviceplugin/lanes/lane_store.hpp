// LaneStore: all lanes of the node and the NICs under them, with the decisions that need no kernel: validate, reserve,
// find, who holds an address. Journals each change. Owned by the lane table's state thread; no other thread touches it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deviceplugin/inventory/inventory.hpp"
#include "deviceplugin/inventory/onload_offer.hpp"
#include "deviceplugin/lanes/lane_journal.hpp"
#include "deviceplugin/lanes/lane_state.hpp"
#include "lib/base/clock.hpp"

namespace podlane::dp {

struct Nic {
  NicFacts facts;  // As last seen.
  bool present = false;
  bool native = false;  // How lane_steer is attached.
  std::string why = "not looked at yet";  // Why its lanes cannot be used; empty: they can.
};

struct Lane {
  DeviceSpec spec;
  const PoolConfig* pool = nullptr;  // nullptr: no pool names the device any more; it lives until its pod ends.
  LaneRecord record;
  bool session = false;   // A hand-over session is open.
  bool watching = false;  // record.watched is asked of Neighbors: asked once, taken back once.
  std::vector<std::pair<std::string, std::uint64_t>> owner_counters;
  lane::PodName listed_pod;      // Onload pools have no ADD: who the kubelet last listed with the device.
  std::string listed_container;  // Of it.
  unsigned gone_rounds = 0;                     // Reconciles in a row that took the pod for gone without proof.
  std::optional<MonotonicTime> unlisted_since;  // Reserved, and no pod is listed with the device.

  bool is_bound() const { return record.state == LaneState::kAttached || record.state == LaneState::kReady; }
};

using AddressBytes = std::array<std::uint8_t, 16>;
// "10.9.0.5/24" or "10.9.0.5" as the lane map's key has it: IPv4 mapped.
Result<AddressBytes> address_bytes(const std::string& address);
std::string without_prefix(const std::string& cidr);  // "10.9.0.5"

class LaneStore {
 public:
  LaneStore(const Config& config, const std::vector<DeviceSpec>& devices, LaneJournal journal);

  const PoolConfig* pool(const std::string& name) const;
  const Config& config() const { return config_; }
  std::map<std::string, Nic>& nics() { return nics_; }
  std::map<std::string, Lane>& lanes() { return lanes_; }
  // By pool of kind onload: what it can give, as last looked at.
  std::map<std::string, OnloadOffer>& onload() { return onload_; }
  LaneJournal& journal() { return journal_; }

  Lane* find(const std::string& device);
  std::vector<Lane*> of_attachment(const lane::Attachment& attachment);
  // The lane other than `device` on the same NIC (tun lanes: of the same pool) that holds or has been promised one of
  // the addresses.
  Lane* holder_of(const std::vector<std::string>& addresses, const Lane& asking);
  std::vector<std::uint32_t> numbers_of(const std::vector<std::string>& device_ids);  // Of known onload devices.
  std::string why_unhealthy(const Lane& lane) const;  // Empty: healthy.

  // Known, of this pool, healthy, none twice, at least one. In the order of their numbers.
  Result<std::vector<std::string>> validate(const std::string& pool, std::vector<std::string> device_ids);
  // free -> reserved for all of them or for none. Takes the smallest free slots and journals.
  Result<void> reserve(const std::vector<std::string>& device_ids, const std::string& directory);
  // -> reserved: forgets the owner and what ADD built.
  Result<void> unbind(Lane& lane);
  // -> free: forgets slot and directory; a lane without pool is forgotten whole, or becomes what the configuration says.
  Result<void> release(const std::string& device);
  Result<void> save(const Lane& lane) { return journal_.save(lane.record); }
  // A record of an earlier life. kExists when its slot is taken by a record adopted before.
  Result<void> adopt(LaneRecord record);

 private:
  void add_free(const DeviceSpec& device);

  Config config_;
  std::map<std::string, DeviceSpec> configured_;
  LaneJournal journal_;
  std::map<std::string, Lane> lanes_;
  std::map<std::string, Nic> nics_;
  std::map<std::string, OnloadOffer> onload_;
  std::vector<bool> slots_;  // In use.
};

}  // namespace podlane::dp
