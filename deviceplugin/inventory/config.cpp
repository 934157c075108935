#include "deviceplugin/inventory/config.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>

#include "bpf/abi/lane_abi.h"
#include "deviceplugin/inventory/config_keys.hpp"
#include "lib/lane/address_rules.hpp"
#include "lib/lane/annotations.hpp"
#include "lib/net/addr.hpp"
#include "lib/onload/validate.hpp"

namespace podlane::dp {

namespace {

constexpr std::int64_t kMaxLanes = 1024;
// A ring full of frames on its way in and one full on its way out, so neither direction can starve the other.
constexpr std::int64_t kFramesPerRingEntry = 2;
constexpr std::int64_t kMinRing = 64, kMaxRing = 65536;
constexpr std::int64_t kMinFrames = kMinRing * kFramesPerRingEntry, kMaxFrames = 262144;
static_assert(kMaxRing * kFramesPerRingEntry <= kMaxFrames, "the largest ring has frames enough");
static_assert(kMaxFrames * 4096 <= std::numeric_limits<std::uint32_t>::max(), "a UMEM's size fits 32 bits");

std::unexpected<Error> wrong(const json::Reader& reader, std::string_view key, std::string_view words) {
  const json::Value* value = reader.find(key);
  std::string shown = value == nullptr ? "" : " " + json::dump(*value).substr(0, 100);
  return fail(Errc::kInvalid, reader.path_of(key) + shown + " " + std::string(words));
}

Result<lane::Kind> read_kind(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const std::string text, reader.string("lane"));
  if (text == "device") return wrong(reader, "lane", "is not built yet; it must be one of queue, veth, tun, onload");
  const auto kind = lane::parse_kind(text);
  if (!kind) return wrong(reader, "lane", "must be one of queue, veth, tun, onload");
  return *kind;
}

bool takes(lane::Kind kind, const PoolKey& key) {
  switch (kind) {
    case lane::Kind::kQueue: return key.queue;
    case lane::Kind::kVeth: return key.veth;
    case lane::Kind::kTun: return key.tun;
    case lane::Kind::kOnload: return key.onload;
  }
  return false;
}

// Unknown keys, and keys of other lane kinds: both would be silently without effect.
Result<void> check_keys(const json::Reader& reader, lane::Kind kind) {
  std::vector<std::string_view> names;
  for (const PoolKey& key : kPoolKeys) names.push_back(key.name);
  for (const auto& [key, value] : reader.value().items()) {
    const auto known = std::find_if(kPoolKeys.begin(), kPoolKeys.end(),
                                    [&](const PoolKey& candidate) { return candidate.name == key; });
    if (known == kPoolKeys.end()) {
      const std::string_view near = json::nearest(key, names);
      std::string hint = near.empty() ? "docs/config.md lists the keys" : "did you mean '" + std::string(near) + "'?";
      return fail(Errc::kInvalid, "unknown key '" + reader.path_of(key) + "'; " + hint);
    }
    if (!takes(kind, *known)) {
      const bool one_per_device = key == "lanes";
      return wrong(reader, key,
                   "is not for pools of lane kind " + std::string(lane::to_string(kind)) +
                       (one_per_device ? "; such a pool has one lane per device" : "; leave it out"));
    }
  }
  return {};
}

// dev_valid_name() of the kernel, net/core/dev.c.
bool is_ifname(std::string_view name) {
  return !name.empty() && name.size() <= 15 && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c == '/' || c == ':' || c == 0 || std::isspace(c) != 0; });
}

Result<void> read_devices(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto devices, reader.optional_object("devices"));
  if (!devices) return wrong(reader, "devices", "is missing; write {\"names\": [\"<network interface>\"]}");
  for (const auto& [key, value] : devices->value().items()) {
    if (key == "names") continue;
    return wrong(*devices, key, "is not built yet: devices are chosen by devices.names alone");
  }
  PODLANE_TRY_ASSIGN(pool.netdevs, devices->optional_strings("names"));
  if (pool.netdevs.empty()) return wrong(*devices, "names", "must list at least one network interface");
  if (pool.kind == lane::Kind::kVeth && pool.netdevs.size() != 1) {
    return wrong(*devices, "names", "must be one network interface: the NIC that a veth pool's lanes share");
  }
  for (auto name = pool.netdevs.begin(); name != pool.netdevs.end(); ++name) {
    if (!is_ifname(*name)) {
      return wrong(
          *devices, "names",
          "has " + json::dump(json::Value(*name)) + "; an interface name has 1 to 15 characters, no blank, '/' or ':'");
    }
    if (std::find(pool.netdevs.begin(), name, *name) != name) {
      return wrong(*devices, "names", "has '" + *name + "' twice");
    }
  }
  return {};
}

Result<void> read_counts(const json::Reader& reader, PoolConfig& pool) {
  if (pool.kind == lane::Kind::kQueue) {
    PODLANE_TRY_ASSIGN(const auto queues, reader.optional_string("queues"));
    if (queues.value_or("0") != "0") {
      return wrong(reader, "queues",
                   "is not built yet: only devices with a single queue can be used, so it must be \"0\"");
    }
    return {};
  }
  PODLANE_TRY_ASSIGN(const std::int64_t lanes, reader.integer("lanes", 1, kMaxLanes));
  pool.lanes = static_cast<std::uint32_t>(lanes);
  return {};
}

Result<void> read_trusted(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto trusted, reader.optional_boolean("trusted"));
  pool.trusted = trusted.value_or(false);
  if (pool.kind == lane::Kind::kQueue && !pool.trusted) {
    return wrong(reader, "trusted",
                 "must be true for a queue pool: its lanes can send any frame, so say that their pods are trusted");
  }
  return {};
}

Result<void> read_subnets(const json::Reader& reader, PoolConfig& pool, std::vector<net::IpPrefix>& subnets) {
  PODLANE_TRY_ASSIGN(pool.subnets, reader.optional_strings("subnets"));
  if (pool.subnets.empty() && pool.kind != lane::Kind::kTun) {
    return wrong(reader, "subnets",
                 "must list at least one network, such as \"10.9.0.0/24\": lanes get addresses of it");
  }
  for (std::size_t i = 0; i < pool.subnets.size(); ++i) {
    const std::string at = reader.path_of("subnets") + "[" + std::to_string(i) + "]";
    auto subnet = net::parse_ip_prefix(pool.subnets[i]);
    if (!subnet) return std::unexpected(std::move(subnet).error().with(at));
    if (subnet->length == 0) {
      return fail(Errc::kInvalid, at + " '" + pool.subnets[i] + "' must be a network with a prefix length from 1");
    }
    if (lane::has_host_bits(*subnet)) {
      return fail(Errc::kInvalid,
                  at + " '" + pool.subnets[i] + "' has host bits; the network is " + subnet->network().to_string());
    }
    subnets.push_back(*subnet);
  }
  return {};
}

Result<void> read_gateways(const json::Reader& reader, PoolConfig& pool, const std::vector<net::IpPrefix>& subnets) {
  PODLANE_TRY_ASSIGN(const auto gateway, reader.optional_string("gateway"));
  PODLANE_TRY_ASSIGN(pool.gateways, reader.optional_strings("gateways"));
  if (gateway && !pool.gateways.empty()) return wrong(reader, "gateway", "and gateways exclude each other; keep one");
  const std::string_view key = gateway ? "gateway" : "gateways";
  if (gateway) pool.gateways.push_back(*gateway);
  std::vector<net::Family> families;
  for (const std::string& text : pool.gateways) {
    const auto address = net::parse_ip(text);
    if (!address) return wrong(reader, key, "must be an IP address without a prefix, such as 10.9.0.1");
    const auto subnet = std::find_if(subnets.begin(), subnets.end(),
                                     [&](const net::IpPrefix& candidate) { return candidate.contains(*address); });
    if (subnet == subnets.end()) return wrong(reader, key, "must lie in one of the pool's subnets");
    if (const std::string_view why = lane::why_not_a_host({.address = *address, .length = subnet->length});
        !why.empty()) {
      return wrong(reader, key, "must be a host's address; it is " + std::string(why));
    }
    if (std::find(families.begin(), families.end(), address->family) != families.end()) {
      return wrong(reader, key, "must be at most one address of each family");
    }
    families.push_back(address->family);
  }
  return {};
}

Result<void> read_ipam(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto ipam, reader.optional_object("ipam"));
  if (!ipam) return {};
  PODLANE_TRY_ASSIGN(const std::string type, ipam->string("type"));
  // The name is looked up along CNI_PATH (CNI 1.1, section 4), so it must be no path.
  if (type.empty() || type.find('/') != type.npos || type.starts_with('.')) {
    return wrong(*ipam, "type", "must be the file name of an IPAM plugin, such as \"host-local\"");
  }
  pool.ipam = ipam->value();
  return {};
}

Result<std::uint32_t> read_power_of_two(const json::Reader& reader, std::string_view key, std::uint32_t otherwise,
                                        std::int64_t low, std::int64_t high) {
  PODLANE_TRY_ASSIGN(const auto number, reader.optional_integer(key, low, high));
  if (number && !std::has_single_bit(static_cast<std::uint64_t>(*number))) {
    return wrong(reader, key, "must be a power of two from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return number ? static_cast<std::uint32_t>(*number) : otherwise;
}

Result<void> read_memory(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(pool.frames, read_power_of_two(reader, "frames", pool.frames, kMinFrames, kMaxFrames));
  PODLANE_TRY_ASSIGN(pool.ring_size, read_power_of_two(reader, "ringSize", pool.ring_size, kMinRing, kMaxRing));
  // Aligned chunks: a power of two from 2048 to a page (net/xdp/xdp_umem.c).
  PODLANE_TRY_ASSIGN(pool.frame_size_bytes, read_power_of_two(reader, "frameSize", pool.frame_size_bytes, 2048, 4096));
  if (pool.frames < pool.ring_size * kFramesPerRingEntry) {
    const std::string_view key = reader.has("ringSize") ? "ringSize" : "frames";
    return wrong(reader, key,
                 "does not fit: frames (" + std::to_string(pool.frames) + ") must be at least twice ringSize (" +
                     std::to_string(pool.ring_size) + "), one ring full for each direction");
  }
  PODLANE_TRY_ASSIGN(const auto huge_pages, reader.optional_choice("hugePages", {"none", "2Mi", "1Gi"}));
  if (huge_pages) {
    PODLANE_TRY_ASSIGN(pool.huge_pages, lane::parse_huge_pages(*huge_pages));
  }
  return {};
}

Result<void> read_mode(const json::Reader& reader, PoolConfig& pool) {
  // Adaptive is Onload's own to do, not ours.
  const bool is_onload = pool.kind == lane::Kind::kOnload;
  const std::string_view known = is_onload ? "spinning, interrupt, adaptive" : "spinning, interrupt";
  pool.default_mode = is_onload ? lane::Mode::kAdaptive : lane::Mode::kInterrupt;
  PODLANE_TRY_ASSIGN(const auto mode, reader.optional_string("mode"));
  if (!mode) return {};
  const auto parsed = lane::parse_mode(*mode);
  if (!parsed) return wrong(reader, "mode", "must be one of " + std::string(known));
  if (*parsed == lane::Mode::kAdaptive && !is_onload) {
    return wrong(reader, "mode", "is not built yet; use spinning or interrupt");
  }
  pool.default_mode = *parsed;
  return {};
}

Result<void> read_interface(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto interface, reader.optional_string("interface"));
  if (!interface) return {};
  if (!is_ifname(*interface)) {
    return wrong(reader, "interface", "must be an interface name: 1 to 15 characters, no blank, '/' or ':'");
  }
  pool.interface = *interface;
  return {};
}

// Rules about the way to the NIC wait until the node is seen; a warning refuses nothing.
Result<void> check_environment(const json::Reader& reader, const PoolConfig& pool) {
  const auto built = onload::environment(pool.default_mode, onload::Transport::kNative, pool.environment);
  for (const onload::Finding& finding : onload::validate(built, {.mode = pool.default_mode})) {
    if (finding.severity != onload::Severity::kError) continue;
    return fail(Errc::kInvalid, reader.path_of("env") + ": " + finding.message + " (" + finding.rule + ")");
  }
  return {};
}

Result<void> read_environment(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto env, reader.optional_object("env"));
  if (!env) return {};
  for (const auto& [name, value] : env->value().items()) {
    if (!name.starts_with("EF_")) {
      return wrong(*env, name, "is no option of Onload: its names begin with EF_; put others into the pod");
    }
    if (!value.is_string() && !value.is_number_integer())
      return wrong(*env, name, "must be a string or a whole number");
    std::string text = value.is_string() ? value.get<std::string>() : json::dump(value);
    const auto finding = onload::check_variable(name, text);
    if (finding && finding->severity == onload::Severity::kError) {
      return fail(Errc::kInvalid, reader.path_of("env") + ": " + finding->message);
    }
    pool.environment.emplace_back(name, std::move(text));
  }
  return check_environment(reader, pool);
}

Result<void> read_ways(const json::Reader& reader, PoolConfig& pool) {
  PODLANE_TRY_ASSIGN(const auto zero_copy, reader.optional_choice("zeroCopy", {"require", "prefer", "off"}));
  if (zero_copy) {
    pool.zero_copy = *zero_copy == "require" ? ZeroCopy::kRequire
                     : *zero_copy == "off"   ? ZeroCopy::kOff
                                             : ZeroCopy::kPrefer;
  }
  if (pool.kind == lane::Kind::kVeth && pool.zero_copy == ZeroCopy::kRequire) {
    return wrong(reader, "zeroCopy", "cannot be had on a veth pool; it must be prefer or off");
  }
  PODLANE_TRY_ASSIGN(const auto handover, reader.optional_choice("handover", {"auto", "unbound"}));
  if (handover) pool.handover = *handover == "unbound" ? HandoverChoice::kUnbound : HandoverChoice::kAuto;
  if (pool.kind == lane::Kind::kQueue && pool.handover == HandoverChoice::kUnbound) {
    return wrong(reader, "handover",
                 "is not for queue pools: who binds the socket chooses the queue, so the daemon must; write auto");
  }
  return {};
}

// CPUs as Kubernetes writes them: 1, "1", "0.5" or "250m".
bool is_cpu_quantity(const json::Value& value) {
  if (value.is_number_integer()) return value.is_number_unsigned() ? value > 0 && value <= 1024 : false;
  if (!value.is_string()) return false;
  std::string_view text = value.get_ref<const std::string&>();
  const bool milli = text.ends_with('m');
  if (milli) text.remove_suffix(1);
  if (text.empty() || text.size() > 7 || text.front() == '.' || text.back() == '.') return false;
  if (std::count(text.begin(), text.end(), '.') > (milli ? 0 : 1)) return false;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return digits && text.find_first_not_of("0.") != text.npos;
}

// For the admission policy, which sizes the relay it injects; the device plugin only checks it.
Result<void> check_relay_cpus(const json::Reader& reader) {
  PODLANE_TRY_ASSIGN(const auto cpus, reader.optional_object("relayCpus"));
  if (!cpus) return {};
  PODLANE_TRY(cpus->refuse_unknown({"spinning", "interrupt", "adaptive"}));
  for (const auto& [key, value] : cpus->value().items()) {
    if (!is_cpu_quantity(value)) return wrong(*cpus, key, "must be CPUs as Kubernetes writes them: 1 or \"250m\"");
    if (key == "spinning" && !value.is_number_integer()) {
      return wrong(*cpus, key, "must be a whole number: a spinning relay needs cores of its own");
    }
  }
  return {};
}

Result<PoolConfig> read_pool(const json::Reader& reader) {
  PoolConfig pool;
  PODLANE_TRY_ASSIGN(pool.name, reader.string("name"));
  if (auto named = lane::check_pool_name(pool.name); !named) {
    return std::unexpected(std::move(named).error().with(reader.path_of("name")));
  }
  PODLANE_TRY_ASSIGN(pool.kind, read_kind(reader));
  PODLANE_TRY(check_keys(reader, pool.kind));
  PODLANE_TRY(read_counts(reader, pool));
  PODLANE_TRY(read_mode(reader, pool));
  if (pool.kind == lane::Kind::kOnload) {
    PODLANE_TRY(read_interface(reader, pool));
    PODLANE_TRY(read_environment(reader, pool));
    return pool;
  }
  if (pool.kind != lane::Kind::kTun) PODLANE_TRY(read_devices(reader, pool));
  PODLANE_TRY(read_trusted(reader, pool));
  std::vector<net::IpPrefix> subnets;
  PODLANE_TRY(read_subnets(reader, pool, subnets));
  PODLANE_TRY(read_gateways(reader, pool, subnets));
  PODLANE_TRY(read_ipam(reader, pool));
  PODLANE_TRY(read_memory(reader, pool));
  PODLANE_TRY(read_ways(reader, pool));
  PODLANE_TRY(check_relay_cpus(reader));
  return pool;
}

// Over AF_XDP Onload attaches a program of its own to the NIC, and a NIC has one.
Result<void> check_interface(const std::string& path, const PoolConfig& onload, const PoolConfig& other) {
  if (std::find(other.netdevs.begin(), other.netdevs.end(), onload.interface) == other.netdevs.end()) return {};
  return fail(Errc::kInvalid, path + ".interface '" + onload.interface + "' belongs to pool '" + other.name +
                                  "' already; podlane and Onload cannot share a NIC");
}

Result<void> check_together(const Config& config) {
  std::size_t lanes = 0;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const std::string path = "pools[" + std::to_string(i) + "]";
    lanes += pool.kind == lane::Kind::kQueue ? pool.netdevs.size() : pool.lanes;
    for (std::size_t j = 0; j < i; ++j) {
      const PoolConfig& other = config.pools[j];
      if (other.name == pool.name) {
        return fail(Errc::kInvalid, path + ".name '" + pool.name + "' is the name of pools[" + std::to_string(j) +
                                        "] already; each pool needs its own");
      }
      PODLANE_TRY(check_interface(path, pool, other));
      PODLANE_TRY(check_interface("pools[" + std::to_string(j) + "]", other, pool));
      if (pool.kind != lane::Kind::kQueue || other.kind != lane::Kind::kQueue) continue;
      for (const std::string& name : pool.netdevs) {
        if (std::find(other.netdevs.begin(), other.netdevs.end(), name) == other.netdevs.end()) continue;
        return fail(Errc::kInvalid, path + ".devices.names '" + name + "' belongs to pool '" + other.name +
                                        "' already; a queue can serve one lane only");
      }
    }
  }
  if (lanes > LANE_SLOTS) {
    return fail(Errc::kInvalid, "pools have " + std::to_string(lanes) + " lanes together; a node takes at most " +
                                    std::to_string(LANE_SLOTS));
  }
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader reader, json::Reader::open(value, ""));
  PODLANE_TRY(reader.refuse_unknown({"pools"}));
  PODLANE_TRY_ASSIGN(const auto pools, reader.optional_objects("pools"));
  Config config;
  for (const json::Reader& pool_reader : pools) {
    PODLANE_TRY_ASSIGN(PoolConfig pool, read_pool(pool_reader));
    config.pools.push_back(std::move(pool));
  }
  PODLANE_TRY(check_together(config));
  return config;
}

}  // namespace podlane::dp
