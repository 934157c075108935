#include "deviceplugin/inventory/inventory.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace podlane::dp {

namespace {

Result<void> check_queue_pool(const PoolConfig& pool, const std::string& key, std::map<std::string, std::string>& takers) {
  if (!pool.trusted) {
    return fail(Errc::kInvalid, key + ".trusted must be true for pool '" + pool.name +
                                    "': the kernel filters nothing that a queue lane sends; a veth lane is checked");
  }
  if (pool.handover == HandoverChoice::kUnbound) {
    return fail(Errc::kInvalid, key + ".handover 'unbound' cannot serve the queue lanes of pool '" + pool.name +
                                    "': an unbound socket lets the pod choose its queue; use 'auto'");
  }
  for (const std::string& netdev : pool.netdevs) {
    const auto [taker, fresh] = takers.emplace(netdev, pool.name);
    if (!fresh) {
      return fail(Errc::kInvalid, key + ".devices.names '" + netdev + "': its queue 0 is taken by pool '" +
                                      taker->second + "'; a queue belongs to one pool");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<DeviceSpec>> list_devices(const Config& config) {
  std::vector<DeviceSpec> devices;
  std::map<std::string, std::string> takers;  // NIC -> the queue pool that has its queue.
  for (std::size_t at = 0; at < config.pools.size(); ++at) {
    const PoolConfig& pool = config.pools[at];
    const bool is_queue = pool.kind == lane::Kind::kQueue;
    if (is_queue) PODLANE_TRY(check_queue_pool(pool, "pools[" + std::to_string(at) + "]", takers));
    const std::size_t count = is_queue ? pool.netdevs.size() : pool.lanes;
    for (std::size_t n = 0; n < count; ++n) {
      DeviceSpec device{.id = pool.name + "-" + std::to_string(n), .pool = pool.name, .kind = pool.kind};
      if (is_queue) device.netdev = pool.netdevs[n];
      if (pool.kind == lane::Kind::kVeth) device.netdev = pool.netdevs.front();
      if (pool.kind == lane::Kind::kOnload) device.queue = QueueId(static_cast<std::uint32_t>(n));
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

std::vector<std::string> list_nics(const Config& config) {
  std::vector<std::string> nics;
  for (const PoolConfig& pool : config.pools) {
    for (const std::string& netdev : pool.netdevs) {
      if (std::find(nics.begin(), nics.end(), netdev) == nics.end()) nics.push_back(netdev);
    }
  }
  return nics;
}

std::string why_unfit(const PoolConfig& pool, const std::string& netdev, std::uint32_t rx_queues) {
  if (pool.kind != lane::Kind::kQueue || rx_queues <= 1) return {};
  return netdev + " has " + std::to_string(rx_queues) + " receive queues in use and pool '" + pool.name +
         "' can steer to one only: run 'ethtool -L " + netdev + " combined 1', or use a pool of veth lanes";
}

bool kernel_hands_over_finished(const std::string& release) {
  unsigned major = 0;
  unsigned minor = 0;
  const char* const end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return false;
  return major > 6 || (major == 6 && minor >= 4);
}

Result<void> check_kernel(const Config& config, const std::string& release) {
  if (kernel_hands_over_finished(release)) return {};
  for (const PoolConfig& pool : config.pools) {
    if (pool.kind != lane::Kind::kQueue) continue;
    return fail(Errc::kUnsupported, "pool '" + pool.name + "': queue lanes need Linux 6.4 (mapping rings after bind), " +
                                        "this is " + release + "; use a pool of veth lanes");
  }
  return {};
}

}  // namespace podlane::dp
