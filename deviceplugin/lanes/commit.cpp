// CNI ADD, second half, once the TUN stands and has its addresses: steering, groups, next hops, announcement. And
// CHECK.
#include <algorithm>

#include "deviceplugin/lanes/table.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/net/addr.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

lane_entry entry_of(const LaneRecord& record) {
  return {.slot = record.slot.value,
          .kind = record.kind == lane::Kind::kQueue ? LANE_KIND_QUEUE : LANE_KIND_VETH,
          .rx_queue = 0,
          .veth_ifindex = static_cast<std::uint32_t>(record.host.veth_host.value)};
}

// One hand-over message carries all descriptors of a lane.
Result<void> check_tun(const lane::LaneMade& made, const LaneRecord& record) {
  const std::size_t queues_max = lane::kHandoverMaxFds - (record.kind == lane::Kind::kTun ? 0 : 1);
  if (made.queues > queues_max) {
    return fail(Errc::kInvalid, "tun.queues " + std::to_string(made.queues) + " of lane " + made.device +
                                    " must be at most " + std::to_string(queues_max));
  }
  if (made.mtu > record.tun.mtu) {
    return fail(Errc::kInvalid, "tun.mtu " + std::to_string(made.mtu) + " of lane " + made.device +
                                    " must be at most " + std::to_string(record.tun.mtu));
  }
  return {};
}

std::string family_match(const std::vector<std::string>& addresses, const std::string& ip) {
  const bool is_v6 = ip.find(':') != std::string::npos;
  for (const std::string& address : addresses) {
    if ((address.find(':') != std::string::npos) == is_v6) return without_prefix(address);
  }
  return {};
}

}  // namespace

Result<void> Table::commit(const lane::CommitRequest& request) {
  std::vector<std::string> devices;
  in_state([&](LaneStore& store) {
    for (const Lane* const lane : store.of_attachment(request.attachment)) devices.push_back(lane->spec.id);
  });
  if (devices.empty()) {
    return fail(Errc::kGone, "nothing is attached for container '" + request.attachment.container_id +
                                 "', interface '" + request.attachment.ifname +
                                 "': it was detached, or its devices went to another pod");
  }
  PODLANE_TRY_ASSIGN(const Claim claim, claims_.claim(devices, kClaimWait));
  if (request.lanes.size() != devices.size()) {
    return fail(Errc::kInvalid, "commit names " + std::to_string(request.lanes.size()) + " lanes, attach gave " +
                                    std::to_string(devices.size()));
  }
  for (const lane::LaneMade& made : request.lanes) {
    const bool is_ours = in_state([&](LaneStore& store) {
      const Lane* const lane = store.find(made.device);
      return lane != nullptr && lane->is_bound() && lane->record.owner.attachment == request.attachment;
    });
    if (!is_ours) return fail(Errc::kGone, "device '" + made.device + "' is no longer this attachment's");
    const LaneRecord record = in_state([&](LaneStore& store) { return store.find(made.device)->record; });
    PODLANE_TRY(check_tun(made, record));
    if (record.kind == lane::Kind::kVeth) {
      PODLANE_TRY(
          kernel(check_veth_lane_is_open(record.host.veth_host, record.tun.mtu), "check the veth of", made.device));
    }
    PODLANE_TRY(commit_take_addresses(made));
  }
  for (const std::string& device : devices) {
    const LaneRecord record = in_state([&](LaneStore& store) { return store.find(device)->record; });
    PODLANE_TRY(steer_lane(record));
    const auto make_ready = [&](LaneStore& store) -> Result<void> {
      Lane& lane = *store.find(device);
      lane.record.state = LaneState::kReady;
      PODLANE_TRY(store.save(lane));
      lanes_changed();
      return {};
    };
    PODLANE_TRY(in_state(make_ready));
    announce_lane(record);
  }
  return {};
}

// Journals the addresses before they are steered. An address that a dying lane still holds is taken from it; a live
// holder keeps it and the commit is refused.
Result<void> Table::commit_take_addresses(const lane::LaneMade& made) {
  for (const std::string& address : made.addresses) PODLANE_TRY(net::parse_ip_prefix(address));
  const auto holder = [&] {
    return in_state([&](LaneStore& store) -> std::optional<LaneRecord> {
      const Lane* const other = store.holder_of(made.addresses, *store.find(made.device));
      return other == nullptr ? std::nullopt : std::optional(other->record);
    });
  };
  // Each round takes the addresses from one lane; a lane of two addresses can meet two holders.
  for (std::size_t round = 0; round <= made.addresses.size(); ++round) {
    const std::optional<LaneRecord> other = holder();
    if (!other) break;
    const std::string& path = other->owner.netns_path;
    const bool is_dead = !path.empty() && net::netns_state(path) == net::NetNsState::kGone;
    if (round == made.addresses.size() || !is_dead) {
      return fail(Errc::kDenied, "an address of lane " + made.device + " is taken by lane " + other->device +
                                     " of pod " + other->owner.pod.name_space + "/" + other->owner.pod.name);
    }
    PODLANE_TRY_ASSIGN(const Claim claim, claims_.claim({other->device}, kClaimWait));
    PODLANE_TRY(unbind(other->device, &other->owner.attachment));
  }
  return in_state([&](LaneStore& store) {
    Lane& lane = *store.find(made.device);
    lane.record.tun.name = made.tun_name;
    lane.record.tun.ifindex = made.tun_ifindex;
    if (made.mtu != 0) lane.record.tun.mtu = made.mtu;
    lane.record.tun.queues = made.queues;
    lane.record.tun.addresses = made.addresses;
    if (lane.pool != nullptr && lane.spec.kind != lane::Kind::kTun) lane.record.watched = lane.pool->gateways;
    return store.save(lane);
  });
}

Result<void> Table::steer_lane(const LaneRecord& record) {
  if (record.kind == lane::Kind::kTun) return {};
  for (const std::string& address : record.tun.addresses) {
    PODLANE_TRY_ASSIGN(const AddressBytes bytes, address_bytes(address));
    PODLANE_TRY(kernel(
        steer([&](bpf::Steering& steering) { return steering.set_lane(record.host.nic, bytes, entry_of(record)); }),
        "steer", address));
    if (address.find(':') == std::string::npos) continue;
    PODLANE_TRY(kernel(join_solicited_node(record.host.nic, without_prefix(address)), "join the group of", address));
  }
  const bool was_watching = in_state([&](LaneStore& store) {
    Lane* const lane = store.find(record.device);
    return lane == nullptr || std::exchange(lane->watching, true);
  });
  if (was_watching) return {};
  for (const std::string& ip : record.watched) {
    neighbors_->watch(record.host.nic, ip, family_match(record.tun.addresses, ip));
  }
  return {};
}

void Table::unwatch_lane(const LaneRecord& record) {
  const bool was_watching = in_state([&](LaneStore& store) {
    Lane* const lane = store.find(record.device);
    return lane != nullptr && std::exchange(lane->watching, false);
  });
  if (!was_watching) return;
  for (const std::string& ip : record.watched) neighbors_->unwatch(record.host.nic, ip);
}

void Table::announce_lane(const LaneRecord& record) {
  if (record.kind == lane::Kind::kTun) return;
  // Others learn the address sooner by it, nothing depends on it: a NIC that is down now announces nothing.
  if (auto sent = announce(record.host.nic, record.host.nic_mac, record.tun.addresses); !sent) {
    log_.warn("the lane's addresses are not announced", {{"lane", record.device}, {"why", sent.error().message()}});
  }
  in_state([&](LaneStore& store) {
    for (auto& [device, lane] : store.lanes()) {
      for (const std::string& address : record.tun.addresses) {
        const std::string ip = without_prefix(address);
        const auto& watched = lane.record.watched;
        if (lane.record.host.nic != record.host.nic || std::find(watched.begin(), watched.end(), ip) == watched.end()) {
          continue;
        }
        handover_->send_neighbor(device, neighbor_for(store, lane, ip));
      }
    }
  });
}

Result<void> Table::check(const lane::CheckRequest& request) {
  std::vector<LaneRecord> records;
  const auto compare = [&](LaneStore& store) -> Result<void> {
    for (const lane::LaneMade& made : request.lanes) {
      const Lane* const lane = store.find(made.device);
      if (lane == nullptr || !lane->is_bound() || lane->record.owner.attachment != request.attachment) {
        return fail(Errc::kGone, "device '" + made.device + "' is not attached for this container");
      }
      const LaneRecord& record = lane->record;
      if (record.state != LaneState::kReady) return fail(Errc::kGone, "lane " + made.device + " was never committed");
      const std::string why = store.why_unhealthy(*lane);
      if (!why.empty()) return fail(Errc::kGone, "lane " + made.device + " is unhealthy: " + why);
      if (record.tun.name != made.tun_name || record.tun.ifindex != made.tun_ifindex) {
        return fail(Errc::kGone, "lane " + made.device + " has TUN " + record.tun.name + " (index " +
                                     std::to_string(record.tun.ifindex) + "), not " + made.tun_name + " (" +
                                     std::to_string(made.tun_ifindex) + ")");
      }
      if ((made.mtu != 0 && record.tun.mtu != made.mtu) || record.tun.queues != made.queues) {
        return fail(Errc::kGone, "lane " + made.device + " has a TUN of MTU " + std::to_string(record.tun.mtu) +
                                     " with " + std::to_string(record.tun.queues) + " queues, not " +
                                     std::to_string(made.mtu) + " with " + std::to_string(made.queues));
      }
      if (record.tun.addresses != made.addresses) {
        return fail(Errc::kGone, "the addresses of lane " + made.device + " differ from those committed");
      }
      records.push_back(record);
    }
    return {};
  };
  PODLANE_TRY(in_state(compare));
  PODLANE_TRY_ASSIGN(const auto steered,
                     kernel(steer([](bpf::Steering& steering) { return steering.lanes(); }), "read", "the lane map"));
  for (const LaneRecord& record : records) {
    if (record.kind == lane::Kind::kTun) continue;
    if (record.kind == lane::Kind::kVeth) {
      const auto open = check_veth_lane_is_open(record.host.veth_host, record.tun.mtu);
      if (!open) {
        return fail(Errc::kGone, "the host end " + record.host.veth_host_name + " of lane " + record.device +
                                     " is gone or not as it was: " + open.error().message());
      }
    }
    for (const std::string& address : record.tun.addresses) {
      PODLANE_TRY_ASSIGN(const AddressBytes bytes, address_bytes(address));
      const bool found = std::any_of(steered.begin(), steered.end(), [&](const auto& row) {
        return row.first.ifindex == static_cast<std::uint32_t>(record.host.nic.value) &&
               std::equal(bytes.begin(), bytes.end(), row.first.addr) && row.second.slot == record.slot.value;
      });
      if (!found) return fail(Errc::kGone, "address " + address + " of lane " + record.device + " is not steered");
    }
  }
  return {};
}

}  // namespace podlane::dp
