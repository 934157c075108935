// Messages of the control socket (docs/control-protocol.md): types and codec, no I/O. Any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/strong.hpp"
#include "lib/json/json.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::lane {

inline constexpr int kControlVersion = 1;
inline constexpr std::size_t kControlMessageMaxBytes = 196608;

// The ends of a veth lane, which the CNI plugin opens (lib/net/veth_pair.hpp) before commit. Zero: not a veth lane.
struct VethEnds {
  IfIndex host;
  IfIndex pod;  // In the pod's namespace.
};

// A lane as the CNI plugin must configure it (answer of attach).
struct LanePlan {
  std::string pool;
  std::uint32_t index = 0;
  std::string device;
  Kind kind = Kind::kVeth;
  std::optional<Path> path;  // Absent for tun lanes.
  Mode mode = Mode::kInterrupt;
  std::uint32_t mtu = 0;  // Of the TUN at most, and of the veth's ends.
  VethEnds veth;
  std::vector<std::string> subnets;
  std::vector<std::string> gateways;
  std::optional<json::Value> ipam;
  std::vector<std::string> fixed_addresses;
  std::string socket_path;
  std::optional<std::string> pci_id;
  bool probed = false;
};

// A lane as the CNI plugin made it (request of commit and check).
struct LaneMade {
  std::string device;
  std::string tun_name;
  int tun_ifindex = 0;
  std::vector<std::string> addresses;  // CIDR
  std::uint32_t mtu = 0;               // Of the TUN, at most the plan's. 0: the plan's (plugins of before this key).
  std::uint32_t queues = 1;            // Of the TUN; more than one: it is a multi-queue TUN.
};

struct AttachRequest {
  Attachment attachment;
  PodName pod;
  std::vector<std::pair<std::string, std::string>> annotations;  // Keys under podlane.io/ only.
  std::string netns_path;
};
struct CommitRequest {
  Attachment attachment;
  std::vector<LaneMade> lanes;
};
struct DetachRequest {
  Attachment attachment;
};
struct CheckRequest {
  Attachment attachment;
  std::vector<LaneMade> lanes;
};
struct AttachmentsRequest {
  std::string network;
};
struct StatusRequest {};

using ControlRequest =
    std::variant<AttachRequest, CommitRequest, DetachRequest, CheckRequest, AttachmentsRequest, StatusRequest>;

enum class ControlCode { kNoLane, kGone, kRefused, kNotReady, kProtocol, kInternal };
std::string_view to_string(ControlCode code);  // "no-lane", "gone", …

struct ControlRefusal {
  ControlCode code = ControlCode::kInternal;
  std::string message;
};

struct ControlAnswer {
  std::optional<ControlRefusal> refusal;  // Empty: ok.
  std::vector<LanePlan> lanes;            // attach
  std::vector<Attachment> attachments;    // attachments
};

std::string encode(const ControlRequest& request);
Result<ControlRequest> decode_control_request(std::string_view text);
std::string encode(const ControlAnswer& answer);
Result<ControlAnswer> decode_control_answer(std::string_view text);

}  // namespace podlane::lane
