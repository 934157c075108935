// LanePort: all that the owner of one lane holds - rings, TUN queues, next hops, counters, and the two queues to its
// control thread. Made by open(); not movable, because two threads hold its address.
//
// Threads: the packet thread (relay worker, or the application) owns everything but what is marked otherwise. The control
// thread (control.hpp) owns `session`, and meets the packet thread in `news`, `asks`, `fate` and the counters only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/handover_client.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/lane/handover_session.hpp"
#include "lib/podlane/counters.hpp"
#include "lib/podlane/next_hops.hpp"
#include "lib/podlane/packet.hpp"
#include "lib/podlane/spsc_queue.hpp"
#include "lib/xsk/xsk_socket.hpp"

namespace podlane {

// Bounds of the data path, in packets and bytes.
inline constexpr std::uint32_t kRxBatch = 32;
inline constexpr std::uint32_t kTxBatch = xsk::kKickBatch;
inline constexpr std::uint32_t kSuperPacketFrames = 64;  // Room wanted before a read: 64 KiB in packets of 1 KiB.
inline constexpr std::size_t kSpillBytes = 65536 + 64;   // A whole GSO packet with its headers.
inline constexpr std::size_t kNewsCapacity = 256;
// A packet to send stands here within its frame: headroom for headers of the application's own, then Ethernet, then IP on
// a 16-byte boundary.
inline constexpr std::uint32_t kTxIpOffset = 80;
inline constexpr std::uint32_t kTxFrameOffset = kTxIpOffset - static_cast<std::uint32_t>(kEthernetHeaderBytes);
// What the kernel keeps in front of a received packet (XDP_PACKET_HEADROOM, include/uapi/linux/bpf.h).
inline constexpr std::uint32_t kXdpHeadroom = 256;
static_assert(kTxBatch <= xsk::kKickBatch, "one kick in copy mode sends no more");
static_assert(kTxFrameOffset >= kVnetHeaderBytes, "the TUN's header lies in front of the packet");

enum class Fate : std::uint8_t {
  kAlive,
  kDeviceGone,  // The netdev of the AF_XDP socket, or the lane as the device plugin says.
  kTunGone,
};

struct NeighborNews {
  IpKey ip;
  MacAddress mac{};
  bool known = false;  // false: forget it.
};

struct LanePort {
  // Waits for the lane until `deadline`; errors as request_lane's, and kUnsupported for lanes without an AF_XDP socket.
  static Result<std::unique_ptr<LanePort>> open(const lane::HandoverOptions& options, MonotonicTime deadline);
  // From a grant that is there already.
  static Result<std::unique_ptr<LanePort>> make(lane::LaneGrant grant, std::string socket_path, std::string client);

  // Readiness, as the pod's routes see it (ignore_routes_with_linkdown). Any thread.
  Result<void> set_carrier(bool on) const;
  // Why the packet thread should stop. Any thread.
  Fate fate() const { return fate_.load(std::memory_order_relaxed); }
  void set_fate(Fate fate) { fate_.store(fate, std::memory_order_relaxed); }
  // Rouses the control thread: there is a question in `asks`, or the packet thread has stopped. Any thread.
  void wake_control() const;
  // Packet thread: takes over what the control thread has learnt.
  void take_news();
  // Packet thread: MAC of the next hop, or empty; asks where needed, and says why there is none.
  HopState find_hop(const IpKey& destination, bool is_v4, MacAddress& mac);

  lane::LaneDescription description;
  lane::UmemMemory memory;
  xsk::Umem umem;
  std::vector<UniqueFd> tuns;
  MacAddress mac{};
  std::uint32_t tun_offloads = 0;  // TUN_F_* in force.
  xsk::XskSocket socket;
  NextHops next_hops;
  Counters counters;
  std::uint32_t tun_budget = 1;     // Packets a look at the TUN takes before they are sent; see tun_to_tx().
  bool starved = false;             // The last look at the TUN was put off: no frame was free.
  std::vector<std::uint8_t> spill;  // Room for the part of a packet in its frame, then kSpillBytes.

  SpscQueue<NeighborNews, kNewsCapacity> news;  // Control thread -> packet thread.
  SpscQueue<IpKey, kNewsCapacity> asks;         // Packet thread -> control thread.
  lane::Session session;                        // Control thread only.
  UniqueFd wake;                                // eventfd; the control thread polls it.

  LanePort(const LanePort&) = delete;
  LanePort& operator=(const LanePort&) = delete;

 private:
  LanePort(lane::LaneGrant grant, const xsk::Umem& umem_view, xsk::XskSocket xsk, NextHops hops, lane::Session opened);
  std::atomic<Fate> fate_{Fate::kAlive};  // Relaxed: it guards no other data.
};

}  // namespace podlane
