// Steering: the node's BPF objects - pinned maps, the NIC programs and the veth programs - behind one class.
// Owned by the device plugin's lane table; one thread. Everything that must survive the daemon is pinned or holds on
// by itself (XDP on a veth's pod end and tc on its host end live and die with the veth).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bpf/abi/lane_abi.h"
#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"

namespace podlane::bpf {

enum class AttachMode { kNative, kGeneric };

struct NicAttachment {
  IfIndex nic;
  AttachMode mode;
  bool adopted;  // The pinned link was there already; its program was replaced in place.
};

class Steering {
 public:
  // bpffs_dir: a directory on a bpf file system, "/sys/fs/bpf/podlane". Creates or adopts the pinned maps. A pinned map
  // of another shape is an error that names the path and what differs, except side maps, which may be re-made.
  static Result<Steering> open(const std::string& bpffs_dir);

  // Attaches lane_steer natively (generic where the driver has no XDP) by a pinned link, or adopts the pinned one and
  // swaps its program atomically. A foreign program is kExists, its id and name in the message, and nothing is touched.
  Result<NicAttachment> attach_nic(IfIndex nic);
  Result<void> detach_nic(IfIndex nic);  // Unpins and detaches; success when it was not attached.
  std::vector<IfIndex> attached_nics() const;  // From the pins: also what an earlier life attached.

  // The lane map. Addresses are 16 bytes, IPv4 mapped.
  Result<void> set_lane(IfIndex nic, const std::array<std::uint8_t, 16>& address, const lane_entry& entry);
  Result<void> clear_lane(IfIndex nic, const std::array<std::uint8_t, 16>& address);  // Success when absent.
  Result<std::vector<std::pair<lane_key, lane_entry>>> lanes() const;                 // For reconciling.

  Result<void> set_socket(LaneSlot slot, int xsk_fd);  // The slot empties by itself when the socket's last fd closes.
  Result<void> clear_socket(LaneSlot slot);
  Result<void> clear_counters(LaneSlot slot);  // A slot's new owner starts from zero.

  // Veth lanes. The pod end's program is attached from inside the pod's namespace, so its netns is given by descriptor.
  Result<void> attach_veth_pod_end(int netns_fd, IfIndex pod_end, LaneSlot slot);
  Result<void> attach_veth_host_end(IfIndex host_end, const veth_entry& entry);
  Result<void> forget_veth_host_end(IfIndex host_end);  // Success when absent.
  Result<std::vector<std::pair<IfIndex, veth_entry>>> veth_host_ends() const;

  Result<std::array<std::uint64_t, LANE_COUNTER_COUNT>> counters(LaneSlot slot) const;
  Result<nic_counters> counters(IfIndex nic) const;

  // Removes pins and maps of this bpffs directory: uninstall and tests.
  Result<void> remove_all();

  Steering(Steering&&) noexcept;
  Steering& operator=(Steering&&) noexcept;
  ~Steering();

 private:
  struct Impl;
  explicit Steering(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "rx_frames", …: the names used in metrics, docs/counters.md and podlanectl. Index = enum lane_counter.
extern const std::array<const char*, LANE_COUNTER_COUNT> kLaneCounterNames;

}  // namespace podlane::bpf
