// The annotations of a pod under podlane.io/: grammar (design §4), and apart from it the one table of what the grammar
// allows but is not built yet. Input comes from whoever may create pods, so nothing in it is trusted. Any thread.
//
// Two readers: admission (refuses podlane.io/status, may not know the pools) and ADD (ignores it). Both use the same
// grammar; tests/unit/lane runs it over shared/cases/annotations.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/lane/lane_types.hpp"
#include "lib/net/addr.hpp"

namespace podlane::lane {

inline constexpr std::string_view kAnnotationPrefix = "podlane.io/";
inline constexpr std::uint32_t kMaxLanesOfPool = 64;  // In one pod.

using Annotations = std::vector<std::pair<std::string, std::string>>;

enum class Transport { kTcp, kUdp };

// What is to reach the lane. Ports 0-0: all of them.
struct FlowRule {
  Transport transport = Transport::kUdp;
  net::IpPrefix destination;
  std::optional<net::IpAddress> source;
  std::uint16_t low_port = 0, high_port = 0;
};

struct RewriteTarget {
  net::IpAddress address;
  std::uint16_t port = 0;
  friend auto operator<=>(const RewriteTarget&, const RewriteTarget&) = default;
};
struct RewriteRule {
  std::optional<Transport> transport;  // Empty: both.
  RewriteTarget from;
  std::vector<RewriteTarget> backends;
};

// One pool's lanes with what is asked for them. An empty optional: not written, the default applies.
struct PoolLanes {
  std::string pool;
  std::uint32_t count = 1;
  std::optional<Path> path;
  std::optional<Mode> mode;
  std::vector<std::vector<net::IpPrefix>> addresses;  // Empty, or one entry per lane of one or two prefixes.
  std::vector<FlowRule> flows;
  std::vector<RewriteRule> rewrite;
};

struct PodLanes {
  std::vector<PoolLanes> pools;  // In the order written. Empty: the pod asks for no lane.
  std::optional<std::string> container;
  std::optional<Mode> onload;
  std::optional<std::string> tunnel;
};

// What the caller knows of the pod and the node; each empty part is simply not checked.
struct AnnotationContext {
  std::vector<std::string> containers;
  std::map<std::string, Kind, std::less<>> kinds;  // Pool -> kind.
  bool refuse_status = false;                      // Admission; ADD ignores podlane.io/status.
};

// Keys that do not begin with podlane.io/ are skipped. kInvalid names key, value and what would be right.
Result<PodLanes> parse_annotations(const Annotations& annotations, const AnnotationContext& context);

// A row: this annotation, with this value (empty: any), is refused in these words.
struct NotBuilt {
  std::string_view name;  // Without podlane.io/ and pool.
  std::string_view value;
  std::string_view words;
};
std::span<const NotBuilt> not_built();

// kUnsupported for the first annotation that the table lists. To be called after parse_annotations.
Result<void> check_built(const Annotations& annotations);

// The grammar of a pool's name; the configuration uses it too. The message says what is wrong, without a key.
Result<void> check_pool_name(std::string_view name);

}  // namespace podlane::lane
