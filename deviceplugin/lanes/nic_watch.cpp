// The NICs under the pools: attached when they are there, looked at from time to time. A link that is down is healthy; a
// NIC that is gone, re-made under its name, has a new MAC or more queues is not the same NIC. Housekeeping thread.
#include <algorithm>

#include "deviceplugin/lanes/table.hpp"

namespace podlane::dp {

Result<void> Table::look_at_nics(bool at_start) {
  std::vector<std::pair<std::string, Nic>> nics;
  in_state([&](LaneStore& store) { nics.assign(store.nics().begin(), store.nics().end()); });
  for (const auto& [name, before] : nics) {
    const auto facts = nic_facts(name, options_.sysfs_root);
    if (!facts) {
      const std::string why = facts.error().code() == Errc::kNotFound ? "there is no interface '" + name + "'"
                                                                       : facts.error().message();
      if (before.present || before.why != why) lose_nic(name, why);
      continue;
    }
    const bool is_same = before.present && before.why.empty() && before.facts.index == facts->index &&
                         before.facts.mac == facts->mac;
    if (is_same) {
      in_state([&](LaneStore& store) {
        store.nics().at(name).facts = *facts;
        if (facts->rx_queues != before.facts.rx_queues) health_changed(name);
      });
      continue;
    }
    if (before.present && before.facts.index != facts->index) {
      (void)steer([&](bpf::Steering& steering) { return steering.detach_nic(before.facts.index); });
    }
    if (auto taken = take_nic(name, *facts); !taken) {
      if (at_start) return std::unexpected(std::move(taken).error().with("use NIC", name));
      if (before.why != taken.error().message()) lose_nic(name, taken.error().message());
    }
  }
  return at_start ? refuse_unfit_nics() : Result<void>();
}

Result<void> Table::take_nic(const std::string& name, const NicFacts& facts) {
  PODLANE_TRY_ASSIGN(const bpf::NicAttachment attachment,
                     steer([&](bpf::Steering& steering) { return steering.attach_nic(facts.index); }));
  const bool is_native = attachment.mode == bpf::AttachMode::kNative;
  log_.info("NIC attached", {{"nic", name},
                             {"xdp", is_native ? "native" : "generic"},
                             {"how", attachment.adopted ? "adopted" : "new"}});
  in_state([&](LaneStore& store) {
    store.nics().at(name) = {.facts = facts, .present = true, .native = is_native, .why = {}};
    health_changed(name);
  });
  rebase_lanes(name);
  return {};
}

void Table::lose_nic(const std::string& name, const std::string& why) {
  log_.error("the lanes of a NIC are unhealthy", {{"nic", name}, {"why", why}});
  const Nic before = in_state([&](LaneStore& store) {
    Nic& nic = store.nics().at(name);
    Nic was = nic;
    nic.present = false;
    nic.why = why;
    health_changed(name);
    return was;
  });
  // The kernel took program and link with the NIC; the pin is still a file.
  if (before.present) (void)steer([&](bpf::Steering& steering) { return steering.detach_nic(before.facts.index); });
}

// At start an operator is at hand to be told; later, and when pods already have lanes there, the devices are unhealthy
// instead, which takes no other pool down.
Result<void> Table::refuse_unfit_nics() {
  return in_state([&](LaneStore& store) -> Result<void> {
    for (const PoolConfig& pool : store.config().pools) {
      for (const std::string& netdev : pool.netdevs) {
        const Nic& nic = store.nics().at(netdev);
        const std::string why = nic.present ? why_unfit(pool, netdev, nic.facts.rx_queues) : std::string();
        if (why.empty()) continue;
        const bool is_in_use = std::any_of(store.lanes().begin(), store.lanes().end(), [&](const auto& row) {
          return row.second.is_bound() && row.second.spec.pool == pool.name;
        });
        if (!is_in_use) return fail(Errc::kInvalid, why);
        log_.error("the lanes of a NIC are unhealthy", {{"nic", netdev}, {"why", why}});
      }
    }
    return {};
  });
}

// The NIC has another index or MAC than a lane's record says: it was re-made. Steering follows; sockets of queue lanes
// died with the old NIC, and their owners come back for new ones.
void Table::rebase_lanes(const std::string& nic_name) {
  std::vector<std::string> devices;
  NicFacts facts;
  in_state([&](LaneStore& store) {
    facts = store.nics().at(nic_name).facts;
    for (const auto& [device, lane] : store.lanes()) {
      const LaneHostSide& host = lane.record.host;
      const bool differs = host.nic != facts.index || host.nic_mac != facts.mac;
      if (lane.is_bound() && host.nic_name == nic_name && differs) devices.push_back(device);
    }
  });
  for (const std::string& device : devices) {
    const auto claim = claims_.claim({device}, kClaimWait);
    if (!claim) continue;
    LaneRecord before;
    LaneRecord after;
    in_state([&](LaneStore& store) {
      Lane* const lane = store.find(device);
      if (lane == nullptr || !lane->is_bound()) return;
      before = lane->record;
      lane->record.host.nic = facts.index;
      lane->record.host.nic_mac = facts.mac;
      after = lane->record;
      if (auto saved = store.save(*lane); !saved) {
        log_.warn("a lane's new NIC is not journaled", {{"lane", device}, {"why", saved.error().message()}});
      }
    });
    if (after.state != LaneState::kReady) continue;
    auto steered = steer([&](bpf::Steering& steering) -> Result<void> {
      for (const std::string& address : before.tun.addresses) {
        PODLANE_TRY_ASSIGN(const AddressBytes bytes, address_bytes(address));
        if (before.host.nic != after.host.nic) PODLANE_TRY(steering.clear_lane(before.host.nic, bytes));
      }
      if (after.kind != lane::Kind::kVeth) return {};
      veth_entry entry{.slot = after.slot.value, .nic_ifindex = static_cast<std::uint32_t>(facts.index.value)};
      std::copy(facts.mac.begin(), facts.mac.end(), entry.nic_mac);
      return steering.attach_veth_host_end(after.host.veth_host, entry);
    });
    unwatch_lane(before);
    if (steered) steered = steer_lane(after);
    if (steered) announce_lane(after);
    if (!steered) log_.warn("a lane does not follow its NIC", {{"lane", device}, {"why", steered.error().message()}});
  }
}

void Table::health_changed(const std::string& nic_name) {
  if (!health_callback_) return;
  for (const PoolConfig& pool : store_.config().pools) {
    const bool uses = std::find(pool.netdevs.begin(), pool.netdevs.end(), nic_name) != pool.netdevs.end();
    if (uses) health_callback_(pool.name);
  }
}

}  // namespace podlane::dp
