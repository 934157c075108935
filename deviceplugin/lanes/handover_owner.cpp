// What the hand-over server asks of the table. Called from the server's threads, which wait for the state thread; the
// state thread calls the server too, whose functions only post and never wait (handover_server.cpp).
#include <algorithm>

#include "deviceplugin/lanes/table.hpp"
#include "lib/net/addr.hpp"

namespace podlane::dp {

namespace {

constexpr std::size_t kMaxWatched = 256;  // Next hops of one lane: a pod must not fill the host's neighbour table.

lane::XskDescription xsk_of(const Lane& lane) {
  const PoolConfig& pool = *lane.pool;
  const bool is_queue = lane.spec.kind == lane::Kind::kQueue;
  const LaneHostSide& host = lane.record.host;
  return {.netdev = is_queue ? host.nic_name : host.veth_pod_name,
          .netdev_ifindex = is_queue ? host.nic.value : host.veth_pod.value,
          .queue = is_queue ? lane.spec.queue.value : 0,
          .rx_size = pool.ring_size,
          .tx_size = pool.ring_size,
          .fill_size = pool.ring_size,
          .completion_size = pool.ring_size,
          .umem = {pool.frames, pool.frame_size_bytes, pool.huge_pages}};
}

lane::LaneDescription description_of(const Lane& lane) {
  const LaneRecord& record = lane.record;
  lane::LaneDescription description{.pool = record.pool,
                                    .index = record.index,
                                    .device = record.device,
                                    .kind = record.kind,
                                    .path = record.owner.path,
                                    .mode = record.owner.mode,
                                    .ifname = record.tun.name,
                                    .ifindex = record.tun.ifindex,
                                    .mtu = record.tun.mtu,
                                    .addresses = record.tun.addresses,
                                    .gateways = lane.pool->gateways,
                                    .subnets = lane.pool->subnets};
  if (record.kind != lane::Kind::kTun) {
    description.mac = to_string(record.host.nic_mac);
    description.xsk = xsk_of(lane);
  }
  return description;
}

}  // namespace

Result<HandoverLane> Table::lane_for_handover(const std::string& device) {
  return in_state([&](LaneStore& store) -> Result<HandoverLane> {
    const Lane* const lane = store.find(device);
    if (lane == nullptr) return fail(Errc::kGone, "device " + device + " is not one of this node");
    if (lane->record.state != LaneState::kReady) {
      return fail(Errc::kUnavailable, "no pod is attached to device " + device + " (yet)");
    }
    const LaneRecord& record = lane->record;
    const std::string why = store.why_unhealthy(*lane);
    if (lane->pool == nullptr) {
      // Taken out of the configuration under its owner, who needs nothing of the pool any more.
      HandoverLane kept{.netns_cookie = record.owner.netns_cookie, .only_resumed = why};
      kept.description.in_force = record.in_force;
      kept.description.neighbors = neighbors_of(store, *lane);
      return kept;
    }
    if (!why.empty()) return fail(Errc::kGone, why);
    HandoverLane handover{.description = description_of(*lane),
                          .zero_copy = lane->pool->zero_copy,
                          .netns_cookie = record.owner.netns_cookie,
                          .socket_in_pod_netns = record.kind == lane::Kind::kVeth,
                          .tun_queues = record.tun.queues,
                          .tun_multi_queue = record.tun.queues > 1};
    const bool is_unbound = lane->pool->handover == HandoverChoice::kUnbound || !kernel_is_finished_;
    if (is_unbound && record.kind == lane::Kind::kQueue) {
      return fail(Errc::kUnsupported, "queue lanes need Linux 6.4 and 'handover: auto': an unbound socket would let the " +
                                          std::string("pod choose its queue"));
    }
    handover.style = is_unbound ? lane::HandoverStyle::kUnbound : lane::HandoverStyle::kFinished;
    if (record.kind == lane::Kind::kQueue) handover.native_xdp = store.nics().at(record.host.nic_name).native;
    handover.description.neighbors = neighbors_of(store, *lane);
    return handover;
  });
}

Result<void> Table::install_socket(const std::string& device, int xsk_fd) {
  std::optional<LaneSlot> slot;
  in_state([&](LaneStore& store) {
    const Lane* const lane = store.find(device);
    if (lane != nullptr && lane->record.state == LaneState::kReady) slot = lane->record.slot;
  });
  if (!slot) return fail(Errc::kGone, "lane " + device + " was detached meanwhile");
  return steer([&](bpf::Steering& steering) { return steering.set_socket(*slot, xsk_fd); });
}

void Table::session_opened(const std::string& device, const lane::InForce& in_force, bool resumed) {
  in_state([&](LaneStore& store) {
    Lane* const lane = store.find(device);
    if (lane == nullptr || !lane->is_bound()) return;
    lane->session = true;
    if (!resumed) {
      ++counters_.handovers_total;
      lane->record.in_force = in_force;
      if (auto saved = store.save(*lane); !saved) {
        log_.warn("what is in force is not journaled", {{"lane", device}, {"why", saved.error().message()}});
      }
    }
    lanes_changed();
  });
}

void Table::session_closed(const std::string& device) {
  in_state([&](LaneStore& store) {
    Lane* const lane = store.find(device);
    if (lane == nullptr || !lane->session) return;
    lane->session = false;
    lanes_changed();
  });
}

void Table::refused(const std::string&, const std::string& code) {
  in_state([&](LaneStore&) {
    auto& refusals = counters_.handover_refusals_total;
    const auto found = std::find_if(refusals.begin(), refusals.end(), [&](const auto& row) { return row.first == code; });
    if (found == refusals.end()) refusals.emplace_back(code, 1);
    else ++found->second;
  });
}

void Table::resolve(const std::string& device, const std::string& text) {
  const auto parsed = net::parse_ip(text);
  if (!parsed) return;
  const std::string ip = parsed->to_string();
  in_state([&](LaneStore& store) {
    Lane* const lane = store.find(device);
    if (ending_ || lane == nullptr || lane->record.state != LaneState::kReady) return;
    if (lane->record.kind == lane::Kind::kTun) return;
    auto& watched = lane->record.watched;
    if (std::find(watched.begin(), watched.end(), ip) == watched.end()) {
      if (watched.size() >= kMaxWatched) return;
      watched.push_back(ip);
      if (auto saved = store.save(*lane); !saved) {
        watched.pop_back();
        return;
      }
      const bool is_v6 = ip.find(':') != std::string::npos;
      const auto& own = lane->record.tun.addresses;
      const auto asking = std::find_if(own.begin(), own.end(), [&](const std::string& address) {
        return (address.find(':') != std::string::npos) == is_v6;
      });
      neighbors_->watch(lane->record.host.nic, ip, asking == own.end() ? std::string() : without_prefix(*asking));
    }
    const lane::Neighbor neighbor = neighbor_for(store, *lane, ip);
    if (neighbor.mac) handover_->send_neighbor(device, neighbor);
  });
}

void Table::stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) {
  in_state([&](LaneStore& store) {
    if (Lane* const lane = store.find(device); lane != nullptr && lane->is_bound()) {
      lane->owner_counters = std::move(counters);
    }
  });
}

// A lane of this node on the same NIC answers with the NIC's MAC: the frame never reaches the wire, where no switch
// would send it back (veth lanes take the short cut through the lane map).
lane::Neighbor Table::neighbor_for(LaneStore& store, const Lane& lane, const std::string& ip) {
  if (const Lane* const other = store.holder_of({ip}, lane); other != nullptr && other->spec.kind != lane::Kind::kTun) {
    return {.ip = ip, .mac = to_string(lane.record.host.nic_mac)};
  }
  return neighbors_->current(lane.record.host.nic, ip);
}

std::vector<lane::Neighbor> Table::neighbors_of(LaneStore& store, const Lane& lane) {
  std::vector<lane::Neighbor> neighbors;
  for (const std::string& ip : lane.record.watched) neighbors.push_back(neighbor_for(store, lane, ip));
  return neighbors;
}

void Table::neighbor_changed(IfIndex nic, const lane::Neighbor& neighbor) {
  state_thread_.post([this, nic, neighbor] {
    if (ending_) return;
    for (auto& [device, lane] : store_.lanes()) {
      const auto& watched = lane.record.watched;
      if (lane.record.host.nic != nic || std::find(watched.begin(), watched.end(), neighbor.ip) == watched.end()) continue;
      handover_->send_neighbor(device, neighbor_for(store_, lane, neighbor.ip));
    }
  });
}

}  // namespace podlane::dp
