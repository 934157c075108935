// The device plugin's configuration comes from an operator's ConfigMap: any bytes may stand in it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "deviceplugin/inventory/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = podlane::dp::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) return config.error().message().empty() ? (std::abort(), 0) : 0;
  for (const podlane::dp::PoolConfig& pool : config->pools) {
    // What the rest of the daemon counts on without looking again.
    const bool sound = !pool.name.empty() && pool.name.size() <= 48 && pool.lanes <= 1024 &&
                       pool.frames >= 2 * pool.ring_size && (pool.frames & (pool.frames - 1)) == 0 &&
                       (pool.kind == podlane::lane::Kind::kTun || pool.kind == podlane::lane::Kind::kOnload ||
                        !pool.netdevs.empty());
    if (!sound) std::abort();
  }
  return 0;
}
