// Messages of the hand-over (docs/handover-protocol.md): types and codec, no I/O. Any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::lane {

inline constexpr int kHandoverVersion = 1;
inline constexpr std::size_t kHandoverMessageMaxBytes = 16384;
inline constexpr std::size_t kHandoverMaxFds = 16;

enum class HandoverStyle { kFinished, kUnbound };

struct UmemShape {
  std::uint32_t frames = 0;
  std::uint32_t frame_size_bytes = 0;
  HugePages huge_pages = HugePages::kNone;
};

struct Hello {
  int version = kHandoverVersion;
  std::string client;
  bool vnet_hdr = true;  // The TUN descriptors come with IFF_VNET_HDR set.
  bool resume = false;
};
struct Offer {
  int version = kHandoverVersion;
  Kind kind = Kind::kVeth;
  HandoverStyle style = HandoverStyle::kFinished;
  std::optional<UmemShape> umem;  // Absent for tun lanes.
};
struct UmemMessage {};  // Carries the memfd when the style is finished.
struct Ready {};        // tun lanes, in place of UmemMessage.

struct XskDescription {
  std::string netdev;
  int netdev_ifindex = 0;
  std::uint32_t queue = 0;
  std::uint32_t rx_size = 0, tx_size = 0, fill_size = 0, completion_size = 0;  // Descriptors; powers of two.
  UmemShape umem;
  std::uint32_t headroom_bytes = 0;
};
struct InForce {
  bool zero_copy = false;
  bool native_xdp = false;
  bool busy_poll = false;
};
struct LaneDescription {
  std::string pool;
  std::uint32_t index = 0;
  std::string device;
  Kind kind = Kind::kVeth;
  std::optional<Path> path;
  Mode mode = Mode::kInterrupt;
  std::string ifname;  // The TUN.
  int ifindex = 0;
  std::uint32_t mtu = 0;
  std::string mac;  // Source MAC on the wire; empty for tun lanes.
  std::vector<std::string> addresses, gateways, subnets;
  std::vector<Neighbor> neighbors;
  std::optional<XskDescription> xsk;
  InForce in_force;
  std::vector<std::string> fds;  // "xsk", "tun", …: the order of the descriptors.
};
struct Ack {};
struct Resumed {};
struct Resolve {
  std::string ip;
};
struct NeighborUpdate {
  Neighbor neighbor;
};
struct Stats {
  std::vector<std::pair<std::string, std::uint64_t>> counters;
};
struct HandoverRefusal {
  std::string code;
  std::string message;
};

using HandoverMessage = std::variant<Hello, Offer, UmemMessage, Ready, LaneDescription, Ack, Resumed, Resolve,
                                     NeighborUpdate, Stats, HandoverRefusal>;

std::string encode(const HandoverMessage& message);
Result<HandoverMessage> decode_handover(std::string_view text);

}  // namespace podlane::lane
