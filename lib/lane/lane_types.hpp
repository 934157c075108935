// What a lane is, in words that all parts share. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::lane {

enum class Kind { kQueue, kVeth, kTun, kOnload };  // kOnload: no lane of ours; see docs/onload.md.
enum class Path { kRelay, kDirect, kKernel };
enum class Mode { kSpinning, kInterrupt, kAdaptive };
enum class HugePages { kNone, k2Mi, k1Gi };

std::string_view to_string(Kind kind);             // "queue", "veth", "tun", "onload"
std::string_view to_string(Path path);             // "relay", "direct", "kernel"
std::string_view to_string(Mode mode);             // "spinning", "interrupt", "adaptive"
std::string_view to_string(HugePages huge_pages);  // "none", "2Mi", "1Gi"
Result<Kind> parse_kind(std::string_view text);
Result<Path> parse_path(std::string_view text);
Result<Mode> parse_mode(std::string_view text);
Result<HugePages> parse_huge_pages(std::string_view text);

// CNI's key of one attachment of a pod to one network.
struct Attachment {
  std::string network;
  std::string container_id;
  std::string ifname;
  friend auto operator<=>(const Attachment&, const Attachment&) = default;
};

struct PodName {
  std::string name_space;
  std::string name;
  std::string uid;  // Empty where the runtime does not say.
};

struct Neighbor {
  std::string ip;
  std::optional<std::string> mac;  // "02:00:00:00:00:01"; empty: does not answer.
};

}  // namespace podlane::lane
