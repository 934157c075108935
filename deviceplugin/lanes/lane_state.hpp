// What is known of one lane, and its journal form. Plain values.
//
//   free       nobody has the device; no record exists.
//   reserved   Allocate answered: slot and directory are taken, the hand-over socket listens. No pod is known.
//   attached   ADD came: the owner is known, the lane's host side is being built or stands. No steering.
//   ready      ADD committed: addresses are steered and announced; the hand-over gives sockets.
// From attached and ready a lane goes back to reserved (DEL, or the sandbox is gone), from there to free (the kubelet no
// longer counts the device to a pod). Allocate may take a lane in any state: the kubelet knows who has the device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deviceplugin/lanes/host_side.hpp"
#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/lane/lane_types.hpp"

namespace podlane::dp {

enum class LaneState { kFree, kReserved, kAttached, kReady };
std::string_view to_string(LaneState state);

struct LaneOwner {
  lane::Attachment attachment;
  lane::PodName pod;
  std::string container;  // The one that holds the device.
  std::string netns_path;  // Empty: not seen from our mount namespace; only the kubelet knows when the pod is gone.
  std::uint64_t netns_cookie = 0;
  std::optional<lane::Path> path;  // Empty for tun lanes.
  lane::Mode mode = lane::Mode::kInterrupt;
  std::vector<std::string> fixed_addresses;
};

// What ADD built on the host. Empty names and zero indices: not built (yet).
struct LaneHostSide {
  std::string nic_name;
  IfIndex nic;
  MacAddress nic_mac{};
  std::string veth_host_name;  // Journaled before the pair is made.
  std::string veth_pod_name;
  IfIndex veth_host;
  IfIndex veth_pod;
};

struct LaneTun {
  std::string name;
  int ifindex = 0;
  std::uint32_t mtu = 0;  // What the lane allows, then what the TUN got.
  std::uint32_t queues = 1;
  std::vector<std::string> addresses;  // CIDR
};

struct LaneRecord {
  std::string device;
  std::string pool;
  lane::Kind kind = lane::Kind::kVeth;
  LaneState state = LaneState::kFree;
  LaneSlot slot;
  std::uint32_t index = 0;  // n in the pod's directory.
  std::string directory;    // Of the Allocate; the lane's own is <directory>/<index>.
  LaneOwner owner;
  LaneHostSide host;
  LaneTun tun;
  lane::InForce in_force;            // What the last hand-over got.
  std::vector<std::string> watched;  // Next hops watched for this lane.

  std::string lane_directory() const { return directory + "/" + std::to_string(index); }
};

std::string encode_record(const LaneRecord& record, const std::string& boot_id);

struct DecodedRecord {
  LaneRecord record;
  std::string boot_id;
};
// kInvalid for what is not a record of ours; unknown keys are left alone (a later version wrote them).
Result<DecodedRecord> decode_record(std::string_view text);

}  // namespace podlane::dp
