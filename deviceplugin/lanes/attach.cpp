// CNI ADD, first half: which devices the pod has, who the owner is, the lane's host side. Runs on a worker and may
// block; the owner is journaled before the first kernel object is made, so that a crash at any step leaves nothing
// unknown.
#include <algorithm>
#include <thread>

#include "deviceplugin/lanes/naming.hpp"
#include "deviceplugin/lanes/table.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/lane/annotations.hpp"
#include "lib/net/netns.hpp"

namespace podlane::dp {

namespace {

constexpr auto kListingWait = std::chrono::seconds(3);  // The kubelet lists a pod's devices some time after Allocate.
constexpr auto kListingPause = std::chrono::milliseconds(100);
constexpr auto kProbeWait = std::chrono::milliseconds(500);
constexpr std::uint32_t kTunLaneMtu = 1500;  // No NIC sets a limit.

std::vector<std::string> devices_of(const std::vector<ChosenLane>& chosen) {
  std::vector<std::string> devices;
  for (const ChosenLane& lane : chosen) devices.push_back(lane.device);
  return devices;
}

// The pod is not listed yet, or a busy kubelet was too slow with its answer.
bool may_still_come(const Error& error) {
  return error.code() == Errc::kNotFound || error.code() == Errc::kUnavailable;
}

std::unexpected<Error> abandoned() {
  return fail(Errc::kUnavailable, "the CNI plugin that asked does not wait any more");
}

// The path under which this process sees the namespace, or nothing. Without mount propagation into our container a live
// namespace looks like the plain file that an unmounted one leaves behind, and its lane would be taken for an orphan's.
std::string visible_netns_path(const std::string& path, std::uint64_t cookie) {
  const auto netns = net::open_netns(path);
  const auto seen = netns ? net::netns_cookie(netns->get()) : Result<std::uint64_t>(0);
  return seen && *seen == cookie ? path : std::string();
}

}  // namespace

// An ADD that gave up closes its connection and then sends detach. Both orders must end with nothing bound: either
// detach waits here until attach is through, or attach comes second and finds its client gone.
Result<std::vector<lane::LanePlan>> Table::attach(const lane::AttachRequest& request, int netns_fd,
                                                  const ControlServer::IsAbandoned& is_abandoned) {
  PODLANE_TRY_ASSIGN(const Claim turn, attachment_claims_.claim({name_of(request.attachment)}, kClaimWait));
  if (is_abandoned()) return abandoned();
  PODLANE_TRY_ASSIGN(const std::uint64_t cookie,
                     kernel(net::netns_cookie(netns_fd), "read the cookie of", "the netns"));
  // The same attachment again: the same answer.
  std::vector<lane::LanePlan> known = in_state([&](LaneStore& store) {
    const std::vector<Lane*> lanes = store.of_attachment(request.attachment);
    const bool is_same = std::all_of(lanes.begin(), lanes.end(), [&](const Lane* lane) {
      const bool built = lane->spec.kind != lane::Kind::kVeth || lane->record.host.veth_host.value != 0;
      return built && lane->record.owner.netns_cookie == cookie;
    });
    return is_same ? plans_of(lanes) : std::vector<lane::LanePlan>();
  });
  if (!known.empty()) return known;

  PODLANE_TRY_ASSIGN(const std::vector<ChosenLane> chosen, choose(request, is_abandoned));
  const std::vector<std::string> devices = devices_of(chosen);
  PODLANE_TRY_ASSIGN(const Claim claim, claims_.claim(devices, kClaimWait));
  PODLANE_TRY(attach_take_over(chosen, cookie));
  PODLANE_TRY(attach_check_addresses(chosen));
  PODLANE_TRY(attach_bind(request, chosen, cookie));
  ScopeGuard undo([&] {
    for (const std::string& device : devices) {
      if (auto undone = unbind(device, nullptr); !undone) {
        log_.warn("an ADD that failed is not undone yet", {{"lane", device}, {"why", undone.error().message()}});
      }
    }
  });
  for (const std::string& device : devices) PODLANE_TRY(attach_build(device, netns_fd));
  if (is_abandoned()) return abandoned();
  undo.release();
  log_.info("lanes attached", {{"namespace", request.pod.name_space},
                               {"pod", request.pod.name},
                               {"container_id", request.attachment.container_id},
                               {"lanes", std::to_string(devices.size())}});
  return in_state([&](LaneStore& store) {
    ++counters_.attaches_total;
    lanes_changed();
    return plans_of(store.of_attachment(request.attachment));
  });
}

Result<std::vector<ChosenLane>> Table::choose(const lane::AttachRequest& request,
                                              const ControlServer::IsAbandoned& is_abandoned) {
  lane::AnnotationContext context;
  const Config& config = store_.config();  // Never changes: any thread may read it.
  for (const PoolConfig& pool : config.pools) context.kinds.emplace(pool.name, pool.kind);
  PODLANE_TRY_ASSIGN(const lane::PodLanes wanted, lane::parse_annotations(request.annotations, context));
  PODLANE_TRY(lane::check_built(request.annotations));
  if (wanted.pools.empty())
    return fail(Errc::kInvalid, "the pod has no annotation podlane.io/lanes: it asks for no lane");

  const auto deadline = std::chrono::steady_clock::now() + kListingWait;
  for (;;) {
    const auto listing = pod_resources_.fresh();
    auto chosen = listing ? choose_lanes(wanted, config, **listing, request.pod)
                          : Result<std::vector<ChosenLane>>(std::unexpected(listing.error()));
    if (chosen || !may_still_come(chosen.error()) || std::chrono::steady_clock::now() >= deadline) return chosen;
    if (is_abandoned()) return abandoned();
    std::this_thread::sleep_for(kListingPause);
  }
}

std::vector<lane::LanePlan> Table::plans_of(const std::vector<Lane*>& lanes) {
  std::vector<lane::LanePlan> plans;
  for (const Lane* const lane : lanes) {
    const LaneRecord& record = lane->record;
    lane::LanePlan plan{.pool = record.pool,
                        .index = record.index,
                        .device = record.device,
                        .kind = record.kind,
                        .path = record.owner.path,
                        .mode = record.owner.mode,
                        .mtu = record.tun.mtu,
                        .fixed_addresses = record.owner.fixed_addresses,
                        .socket_path = record.lane_directory() + "/handover.sock",
                        .probed = !record.owner.fixed_addresses.empty() && record.kind != lane::Kind::kTun};
    if (lane->pool != nullptr) {
      plan.subnets = lane->pool->subnets;
      plan.gateways = lane->pool->gateways;
      plan.ipam = lane->pool->ipam;
    }
    if (record.kind == lane::Kind::kVeth) plan.veth = {.host = record.host.veth_host, .pod = record.host.veth_pod};
    const auto nic = store_.nics().find(record.host.nic_name);
    if (nic != store_.nics().end() && !nic->second.facts.pci_id.empty()) plan.pci_id = nic->second.facts.pci_id;
    plans.push_back(std::move(plan));
  }
  std::sort(plans.begin(), plans.end(), [](const lane::LanePlan& a, const lane::LanePlan& b) {
    return std::tie(a.pool, a.index) < std::tie(b.pool, b.index);
  });
  return plans;
}

// The kubelet counts the device to this pod, so an attachment that still has it belongs to a sandbox that was replaced,
// or to a pod that is gone and whose DEL has not come (yet).
Result<void> Table::attach_take_over(const std::vector<ChosenLane>& chosen, std::uint64_t netns_cookie) {
  std::vector<std::string> bound;
  const auto find_bound = [&](LaneStore& store) -> Result<void> {
    for (const ChosenLane& wanted : chosen) {
      const Lane* const lane = store.find(wanted.device);
      if (lane == nullptr) return fail(Errc::kNotFound, "device '" + wanted.device + "' is not one of this node");
      const std::string why = store.why_unhealthy(*lane);
      if (!why.empty()) return fail(Errc::kGone, "device '" + wanted.device + "' is unhealthy: " + why);
      if (lane->record.state == LaneState::kFree) {
        return fail(Errc::kNotFound,
                    "device '" + wanted.device + "' of " + resource_name(wanted.pool) +
                        " was allocated before this node's podlane state was lost: the pod's hand-over " +
                        "directory is gone, so the pod must be made anew");
      }
      if (!lane->is_bound()) continue;
      const lane::Attachment& other = lane->record.owner.attachment;
      if (lane->record.owner.netns_cookie == netns_cookie && lane->record.state == LaneState::kReady) {
        return fail(Errc::kBusy, "device '" + wanted.device + "' is already in this pod as network '" + other.network +
                                     "', interface '" + other.ifname +
                                     "'; one network only may give the pod its lanes");
      }
      bound.push_back(wanted.device);
    }
    return {};
  };
  PODLANE_TRY(in_state(find_bound));
  for (const std::string& device : bound) PODLANE_TRY(unbind(device, nullptr));
  return {};
}

Result<void> Table::attach_check_addresses(const std::vector<ChosenLane>& chosen) {
  struct Probe {
    IfIndex nic;
    MacAddress mac{};
    std::string address;
  };
  std::vector<Probe> probes;
  const auto list_probes = [&](LaneStore& store) -> Result<void> {
    for (const ChosenLane& wanted : chosen) {
      if (wanted.fixed_addresses.empty()) continue;
      const Lane& lane = *store.find(wanted.device);
      PODLANE_TRY(check_in_subnets(*lane.pool, wanted.fixed_addresses));
      if (const Lane* const holder = store.holder_of(wanted.fixed_addresses, lane)) {
        return fail(Errc::kDenied, "podlane.io/addresses." + wanted.pool + ": " + wanted.fixed_addresses.front() +
                                       " is taken by lane " + holder->spec.id + " of pod " +
                                       holder->record.owner.pod.name_space + "/" + holder->record.owner.pod.name);
      }
      if (wanted.kind == lane::Kind::kTun) continue;
      const NicFacts& nic = store.nics().at(lane.spec.netdev).facts;
      for (const std::string& address : wanted.fixed_addresses) {
        probes.push_back({nic.index, nic.mac, without_prefix(address)});
      }
    }
    return {};
  };
  PODLANE_TRY(in_state(list_probes));
  for (const Probe& probe : probes) {
    PODLANE_TRY_ASSIGN(const bool is_taken, kernel(probe_taken(probe.nic, probe.mac, probe.address, kProbeWait),
                                                   "probe for the address", probe.address));
    if (is_taken) {
      return fail(Errc::kDenied,
                  "podlane.io/addresses: " + probe.address + " is taken: a host on the wire answers for it");
    }
  }
  return {};
}

Result<void> Table::attach_bind(const lane::AttachRequest& request, const std::vector<ChosenLane>& chosen,
                                std::uint64_t netns_cookie) {
  const std::string netns_path = visible_netns_path(request.netns_path, netns_cookie);
  if (netns_path.empty()) {
    log_.warn("the pod's network namespace is not seen here: mount its directory with HostToContainer propagation",
              {{"netns", request.netns_path}});
  }
  return in_state([&](LaneStore& store) -> Result<void> {
    for (const ChosenLane& wanted : chosen) {
      Lane& lane = *store.find(wanted.device);
      LaneRecord record = lane.record;
      record.state = LaneState::kAttached;
      record.owner = {.attachment = request.attachment,
                      .pod = request.pod,
                      .container = wanted.container,
                      .netns_path = netns_path,
                      .netns_cookie = netns_cookie,
                      .path = wanted.path,
                      .mode = wanted.mode,
                      .fixed_addresses = wanted.fixed_addresses};
      record.tun.mtu = kTunLaneMtu;
      if (wanted.kind != lane::Kind::kTun) {
        const NicFacts& nic = store.nics().at(lane.spec.netdev).facts;
        record.host = {.nic_name = nic.name, .nic = nic.index, .nic_mac = nic.mac};
        record.tun.mtu = lane_mtu(nic.mtu, lane.pool->frame_size_bytes);
      }
      if (wanted.kind == lane::Kind::kVeth) {
        PODLANE_TRY_ASSIGN(record.host.veth_host_name, veth_host_name(record.slot));
        record.host.veth_pod_name = veth_pod_name(record.slot);
      }
      auto saved = store.journal().save(record);
      if (!saved) {
        for (const ChosenLane& undo : chosen) {
          if (store.find(undo.device)->is_bound()) (void)store.unbind(*store.find(undo.device));
        }
        return saved;
      }
      lane.record = std::move(record);
    }
    return {};
  });
}

Result<void> Table::attach_build(const std::string& device, int netns_fd) {
  const LaneRecord record = in_state([&](LaneStore& store) { return store.find(device)->record; });
  // The slot's counters are of its last owner.
  PODLANE_TRY(kernel(steer([&](bpf::Steering& steering) { return steering.clear_counters(record.slot); }),
                     "clear the counters of", device));
  if (record.kind != lane::Kind::kVeth) return {};
  PODLANE_TRY_ASSIGN(const VethLane veth, kernel(make_veth_lane(netns_fd, record.host.veth_host_name,
                                                                record.host.veth_pod_name, device, record.slot),
                                                 "make the veth of", device));
  PODLANE_TRY(in_state([&](LaneStore& store) {
    Lane& lane = *store.find(device);
    lane.record.host.veth_host = veth.host_end;
    lane.record.host.veth_pod = veth.pod_end;
    return store.save(lane);
  }));
  veth_entry entry{.slot = record.slot.value, .nic_ifindex = static_cast<std::uint32_t>(record.host.nic.value)};
  std::copy(record.host.nic_mac.begin(), record.host.nic_mac.end(), entry.nic_mac);
  return kernel(steer([&](bpf::Steering& steering) -> Result<void> {
                  PODLANE_TRY(steering.attach_veth_pod_end(netns_fd, veth.pod_end, record.slot));
                  return steering.attach_veth_host_end(veth.host_end, entry);
                }),
                "attach the programs of", device);
}

}  // namespace podlane::dp
