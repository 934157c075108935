#include "lib/lane/annotations.hpp"

#include <algorithm>
#include <array>

#include "lib/json/json.hpp"
#include "lib/lane/annotation_values.hpp"

namespace podlane::lane {

namespace {

// What the grammar allows and no part serves yet. A row leaves with the issue that builds it; the admission policies
// use the same list.
constexpr std::array<NotBuilt, 6> kNotBuilt{{
    {"path", "kernel", "path kernel is not built yet; use relay or direct"},
    {"mode", "adaptive", "mode adaptive is not built yet; use spinning or interrupt"},
    {"flows", "", "flows is not built yet; leave it out, a lane takes what is sent to its own addresses"},
    {"rewrite", "", "rewrite is not built yet; leave it out"},
    {"tunnel", "", "tunnel is not built yet; leave it out"},
    {"onload", "", "onload is not built yet; leave it out"},
}};

enum class Scope { kPod, kPool };  // kPool: the key may have a pool as suffix.

struct KnownKey {
  std::string_view name;
  Scope scope;
};
constexpr std::array<KnownKey, 10> kKnownKeys{{
    {"lanes", Scope::kPod},
    {"container", Scope::kPod},
    {"path", Scope::kPool},
    {"mode", Scope::kPool},
    {"flows", Scope::kPool},
    {"addresses", Scope::kPool},
    {"rewrite", Scope::kPool},
    {"onload", Scope::kPod},
    {"tunnel", Scope::kPod},
    {"status", Scope::kPod},
}};

struct Setting {
  std::string key;  // Whole, for messages.
  std::string_view name, pool, value;
};

struct SplitName {
  std::string_view name, pool;
};
SplitName split_name(std::string_view rest) {
  const std::size_t dot = rest.find('.');
  return {rest.substr(0, dot), dot == rest.npos ? std::string_view() : rest.substr(dot + 1)};
}

std::unexpected<Error> unknown_key(std::string_view key, const SplitName& split) {
  std::vector<std::string_view> names;
  for (const KnownKey& known : kKnownKeys) names.push_back(known.name);
  std::string message = "unknown annotation " + in_quotes(key);
  const std::string_view near = json::nearest(split.name, names);
  if (near.empty()) {
    message += "; known are podlane.io/ followed by ";
    for (std::size_t i = 0; i < names.size(); ++i) message.append(i == 0 ? "" : ", ").append(names[i]);
  } else {
    message.append("; did you mean '").append(kAnnotationPrefix).append(near).append("'?");
  }
  return fail(Errc::kInvalid, message);
}

Result<std::vector<Setting>> collect(const Annotations& annotations) {
  std::vector<Setting> settings;
  for (const auto& [key, value] : annotations) {
    if (!key.starts_with(kAnnotationPrefix)) continue;
    const std::string_view rest = std::string_view(key).substr(kAnnotationPrefix.size());
    const SplitName split = split_name(rest);
    const auto known = std::find_if(kKnownKeys.begin(), kKnownKeys.end(),
                                    [&](const KnownKey& candidate) { return candidate.name == split.name; });
    if (known == kKnownKeys.end()) return unknown_key(key, split);
    const bool has_suffix = rest.size() > split.name.size();
    if (has_suffix && known->scope == Scope::kPod) {
      return fail(Errc::kInvalid, "annotation " + in_quotes(key) +
                                      " applies to the whole pod and takes no pool; write '" +
                                      std::string(kAnnotationPrefix) + std::string(known->name) + "'");
    }
    if (has_suffix && split.pool.empty()) return unknown_key(key, split);
    settings.push_back({.key = key, .name = split.name, .pool = split.pool, .value = value});
  }
  return settings;
}

// Puts key and value in front of what a value's reader says.
template <typename T>
Result<T> at(const Setting& setting, Result<T> result) {
  if (result) return result;
  return std::unexpected(std::move(result).error().with(setting.key, in_quotes(setting.value)));
}
std::unexpected<Error> bad(const Setting& setting, std::string message) {
  return std::unexpected(Error(Errc::kInvalid, std::move(message)).with(setting.key, in_quotes(setting.value)));
}

const Setting* find(const std::vector<Setting>& settings, std::string_view name, std::string_view pool = {}) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&](const Setting& setting) { return setting.name == name && setting.pool == pool; });
  return it == settings.end() ? nullptr : &*it;
}

Result<void> check_lanes_are_asked_for(const std::vector<Setting>& settings) {
  if (find(settings, "lanes") != nullptr) return {};
  const bool onload = find(settings, "onload") != nullptr;
  for (const Setting& setting : settings) {
    // Onload is no lane; it needs only to know its container.
    if (setting.name == "status" || setting.name == "onload" || (onload && setting.name == "container")) continue;
    return bad(setting, "the pod has no podlane.io/lanes; name there the pools it takes lanes of");
  }
  return {};
}

Result<void> check_pools_are_asked_for(const std::vector<Setting>& settings, const PodLanes& pod) {
  for (const Setting& setting : settings) {
    if (setting.pool.empty()) continue;
    std::string list;
    bool asked_for = false;
    for (const PoolLanes& lanes : pod.pools) {
      asked_for = asked_for || lanes.pool == setting.pool;
      list.append(list.empty() ? "" : ", ").append(lanes.pool);
    }
    if (!asked_for) {
      return bad(setting, "the pod asks for no lane of pool " + in_quotes(setting.pool) + "; its pools are " + list);
    }
  }
  return {};
}

// The setting that counts for a pool: its own, else the pod's.
const Setting* setting_for(const std::vector<Setting>& settings, std::string_view name, const PoolLanes& lanes) {
  const Setting* own = find(settings, name, lanes.pool);
  return own != nullptr ? own : find(settings, name);
}

Result<void> check_path_fits_kind(const Setting& setting, const PoolLanes& lanes, const AnnotationContext& context) {
  const auto kind = context.kinds.find(lanes.pool);
  if (kind == context.kinds.end()) return {};
  if (kind->second == Kind::kTun) {
    return bad(setting, "pool " + in_quotes(lanes.pool) + " is of kind tun, whose lanes take no path (not '" +
                            std::string(to_string(*lanes.path)) + "'); write podlane.io/path.<pool> for the others");
  }
  if (kind->second == Kind::kQueue && lanes.path == Path::kKernel) {
    return bad(setting, "path kernel cannot serve pool " + in_quotes(lanes.pool) +
                            " of kind queue, whose NIC stays on the host; use relay or direct");
  }
  return {};
}

Result<void> apply_to_pool(PoolLanes& lanes, const std::vector<Setting>& settings, const AnnotationContext& context) {
  if (const Setting* setting = setting_for(settings, "path", lanes)) {
    PODLANE_TRY_ASSIGN(lanes.path, at(*setting, parse_path_value(setting->value)));
    PODLANE_TRY(check_path_fits_kind(*setting, lanes, context));
  }
  if (const Setting* setting = setting_for(settings, "mode", lanes)) {
    PODLANE_TRY_ASSIGN(lanes.mode, at(*setting, parse_mode_value(setting->value)));
  }
  if (const Setting* setting = setting_for(settings, "flows", lanes)) {
    PODLANE_TRY_ASSIGN(lanes.flows, at(*setting, parse_flows_value(setting->value)));
  }
  if (const Setting* setting = setting_for(settings, "rewrite", lanes)) {
    PODLANE_TRY_ASSIGN(lanes.rewrite, at(*setting, parse_rewrite_value(setting->value)));
  }
  return {};
}

// Deals the entries of one addresses annotation to the lanes it is for, in the order of podlane.io/lanes.
Result<void> apply_addresses(const Setting& setting, const std::vector<PoolLanes*>& pools) {
  PODLANE_TRY_ASSIGN(const auto entries, at(setting, parse_addresses_value(setting.value)));
  std::size_t wanted = 0;
  for (const PoolLanes* lanes : pools) wanted += lanes->count;
  if (entries.size() != wanted) {
    return bad(setting, "has addresses for " + std::to_string(entries.size()) + " lanes where the pod asks for " +
                            std::to_string(wanted));
  }
  auto next = entries.begin();
  for (PoolLanes* lanes : pools) {
    lanes->addresses.assign(next, next + lanes->count);
    next += lanes->count;
  }
  return {};
}

Result<void> apply_all_addresses(PodLanes& pod, const std::vector<Setting>& settings) {
  std::vector<PoolLanes*> without_own;
  for (PoolLanes& lanes : pod.pools) {
    const Setting* own = find(settings, "addresses", lanes.pool);
    if (own == nullptr) without_own.push_back(&lanes);
    else PODLANE_TRY(apply_addresses(*own, {&lanes}));
  }
  // No lane left for it is an error too: what the pod wrote would be silently lost.
  if (const Setting* setting = find(settings, "addresses")) PODLANE_TRY(apply_addresses(*setting, without_own));
  return {};
}

// The grammar of a pod-wide value holds even where each pool has a setting of its own that wins.
Result<void> check_overruled_values(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    if (!setting.pool.empty()) continue;
    if (setting.name == "path") PODLANE_TRY(at(setting, parse_path_value(setting.value)));
    if (setting.name == "mode") PODLANE_TRY(at(setting, parse_mode_value(setting.value)));
    if (setting.name == "flows") PODLANE_TRY(at(setting, parse_flows_value(setting.value)));
    if (setting.name == "rewrite") PODLANE_TRY(at(setting, parse_rewrite_value(setting.value)));
  }
  return {};
}

}  // namespace

Result<PodLanes> parse_annotations(const Annotations& annotations, const AnnotationContext& context) {
  PODLANE_TRY_ASSIGN(const std::vector<Setting> settings, collect(annotations));
  if (context.refuse_status && find(settings, "status") != nullptr) {
    return fail(Errc::kInvalid, "annotation 'podlane.io/status' is written by the device plugin only; leave it out");
  }
  PODLANE_TRY(check_lanes_are_asked_for(settings));
  PodLanes pod;
  if (const Setting* setting = find(settings, "lanes")) {
    PODLANE_TRY_ASSIGN(const std::vector<PoolCount> pools, at(*setting, parse_lanes_value(setting->value)));
    for (const PoolCount& pool : pools) pod.pools.push_back({.pool = pool.pool, .count = pool.count});
  }
  PODLANE_TRY(check_pools_are_asked_for(settings, pod));
  PODLANE_TRY(check_overruled_values(settings));
  for (PoolLanes& lanes : pod.pools) PODLANE_TRY(apply_to_pool(lanes, settings, context));
  PODLANE_TRY(apply_all_addresses(pod, settings));
  if (const Setting* setting = find(settings, "container")) {
    PODLANE_TRY_ASSIGN(pod.container, at(*setting, parse_container_value(setting->value, context.containers)));
  }
  if (const Setting* setting = find(settings, "onload")) {
    PODLANE_TRY_ASSIGN(pod.onload, at(*setting, parse_mode_value(setting->value)));
  }
  if (const Setting* setting = find(settings, "tunnel")) {
    PODLANE_TRY_ASSIGN(pod.tunnel, at(*setting, parse_secret_value(setting->value)));
  }
  return pod;
}

std::span<const NotBuilt> not_built() {
  return kNotBuilt;
}

Result<void> check_built(const Annotations& annotations) {
  for (const auto& [key, value] : annotations) {
    if (!key.starts_with(kAnnotationPrefix)) continue;
    const SplitName split = split_name(std::string_view(key).substr(kAnnotationPrefix.size()));
    for (const NotBuilt& row : kNotBuilt) {
      if (row.name != split.name || (!row.value.empty() && row.value != value)) continue;
      return std::unexpected(Error(Errc::kUnsupported, std::string(row.words)).with(key, in_quotes(value)));
    }
  }
  return {};
}

}  // namespace podlane::lane
