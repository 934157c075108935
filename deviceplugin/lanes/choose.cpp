#include "deviceplugin/lanes/choose.hpp"

#include <algorithm>

#include "deviceplugin/lanes/naming.hpp"
#include "lib/net/addr.hpp"

namespace podlane::dp {

namespace {

struct Held {
  std::vector<std::string> devices;
  std::vector<std::string> containers;  // Each once.
};

Held held_of(const std::vector<PodDevices>& listing, const lane::PodName& pod, const std::string& pool) {
  Held held;
  for (const PodDevices& entry : listing) {
    if (entry.name_space != pod.name_space || entry.pod != pod.name || entry.pool != pool) continue;
    if (std::find(held.containers.begin(), held.containers.end(), entry.container) == held.containers.end()) {
      held.containers.push_back(entry.container);
    }
    for (const std::string& id : entry.device_ids) {
      if (std::find(held.devices.begin(), held.devices.end(), id) == held.devices.end()) held.devices.push_back(id);
    }
  }
  sort_device_ids(held.devices);
  return held;
}

Result<std::string> holder_of(const Held& held, const lane::PoolLanes& asked, const lane::PodLanes& wanted,
                              bool used_by_named_container) {
  if (held.containers.size() > 1) {
    std::string names;
    for (const std::string& container : held.containers) names += (names.empty() ? "'" : ", '") + container + "'";
    return fail(Errc::kDenied, resource_name(asked.pool) + " is held by the containers " + names +
                                   ": one container must hold all lanes of a pool");
  }
  const std::string& holder = held.containers.front();
  if (used_by_named_container && wanted.container && *wanted.container != holder) {
    return fail(Errc::kDenied, resource_name(asked.pool) + " is held by container '" + holder +
                                   "', but podlane.io/container names '" + *wanted.container +
                                   "': the container that uses the lane must hold it");
  }
  return holder;
}

// podlane.io/container must name one of the pod's.
Result<void> check_named_container(const lane::PodLanes& wanted, const std::vector<PodDevices>& listing,
                                   const lane::PodName& pod) {
  if (!wanted.container) return {};
  std::string names;
  for (const PodDevices& entry : listing) {
    if (entry.name_space != pod.name_space || entry.pod != pod.name) continue;
    if (entry.container == *wanted.container) return {};
    if (names.find("'" + entry.container + "'") == std::string::npos) {
      names += (names.empty() ? "'" : ", '") + entry.container + "'";
    }
  }
  return fail(Errc::kDenied,
              "podlane.io/container '" + *wanted.container + "' must be one of the pod's containers: " + names);
}

std::vector<std::string> addresses_of(const lane::PoolLanes& asked, std::size_t lane) {
  std::vector<std::string> addresses;
  if (lane >= asked.addresses.size()) return addresses;
  for (const net::IpPrefix& prefix : asked.addresses[lane]) addresses.push_back(prefix.to_string());
  return addresses;
}

}  // namespace

Result<std::vector<ChosenLane>> choose_lanes(const lane::PodLanes& wanted, const Config& config,
                                             const std::vector<PodDevices>& listing, const lane::PodName& pod) {
  std::vector<ChosenLane> chosen;
  for (const lane::PoolLanes& asked : wanted.pools) {
    const auto pool = std::find_if(config.pools.begin(), config.pools.end(),
                                   [&](const PoolConfig& candidate) { return candidate.name == asked.pool; });
    if (pool == config.pools.end()) {
      return fail(Errc::kDenied, "podlane.io/lanes asks for pool '" + asked.pool + "', which this node does not have");
    }
    if (pool->kind == lane::Kind::kOnload) {
      return fail(Errc::kDenied, "podlane.io/lanes asks for pool '" + asked.pool +
                                     "', which is of kind onload and has no lanes: leave it out there, and put " +
                                     resource_name(asked.pool) + " into the container's resources");
    }
    const Held held = held_of(listing, pod, asked.pool);
    if (held.devices.size() != asked.count) {
      return fail(Errc::kNotFound, "pod " + pod.name_space + "/" + pod.name + " asks for " +
                                       std::to_string(asked.count) + " of " + resource_name(asked.pool) + " and got " +
                                       std::to_string(held.devices.size()) +
                                       ": its containers' resources must ask for as many as podlane.io/lanes");
    }
    const bool is_tun = pool->kind == lane::Kind::kTun;
    const lane::Path path = asked.path.value_or(lane::Path::kRelay);
    // The relay is another container than the one that podlane.io/container names.
    PODLANE_TRY_ASSIGN(const std::string holder, holder_of(held, asked, wanted, is_tun || path == lane::Path::kDirect));
    for (std::size_t at = 0; at < held.devices.size(); ++at) {
      chosen.push_back({.device = held.devices[at],
                        .container = holder,
                        .pool = asked.pool,
                        .kind = pool->kind,
                        .path = is_tun ? std::nullopt : std::optional(path),
                        .mode = asked.mode.value_or(pool->default_mode),
                        .fixed_addresses = addresses_of(asked, at)});
    }
  }
  PODLANE_TRY(check_named_container(wanted, listing, pod));
  return chosen;
}

Result<void> check_in_subnets(const PoolConfig& pool, const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    PODLANE_TRY_ASSIGN(const net::IpPrefix wanted, net::parse_ip_prefix(address));
    const bool inside = std::any_of(pool.subnets.begin(), pool.subnets.end(), [&](const std::string& subnet) {
      const auto network = net::parse_ip_prefix(subnet);
      return network && wanted.length >= network->length && network->contains(wanted.address);
    });
    if (inside) continue;
    std::string subnets;
    for (const std::string& subnet : pool.subnets) subnets += (subnets.empty() ? "" : ", ") + subnet;
    return fail(Errc::kDenied, "podlane.io/addresses." + pool.name + ": " + address +
                                   " must lie in the pool's subnets: " + (subnets.empty() ? "none" : subnets));
  }
  return {};
}

}  // namespace podlane::dp
