#include "lib/podlane/forward.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/podlane/gso.hpp"

namespace podlane {

namespace {

constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;

std::uint8_t* bytes_at(LanePort& port, std::uint64_t address) {
  return reinterpret_cast<std::uint8_t*>(port.umem.at(address));
}

Counter drop_of_write_error(LanePort& port, int error) {
  switch (error) {
    case EIO: return Counter::kRxDropTunDown;  // Not IFF_UP (tun_get_user, drivers/net/tun.c).
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM: return Counter::kRxDropTunFull;
    case EBADFD: port.set_fate(Fate::kTunGone); return Counter::kRxDropTunDown;
    default: return Counter::kRxDropTunRefused;
  }
}

// Frames on their way to the TX ring.
class TxBatch {
 public:
  explicit TxBatch(LanePort& port) : port_(port), room_(port.socket.send_room()) {}
  ~TxBatch() { flush(); }
  TxBatch(const TxBatch&) = delete;
  TxBatch& operator=(const TxBatch&) = delete;

  // Is there room for `wanted` frames more? Sends, kicks and reclaims to get it.
  bool make_room(std::uint32_t wanted) {
    if (room_ >= wanted) [[likely]] return true;
    flush();
    port_.socket.reclaim();
    room_ = port_.socket.send_room();
    return room_ >= wanted;
  }
  bool take(std::uint64_t& address) {
    if (room_ == 0 || !port_.socket.take(address)) return false;
    --room_;
    return true;
  }
  void give_back(std::uint64_t address) {
    port_.socket.give_back(address);
    ++room_;
  }
  void add(std::uint64_t address, std::uint32_t ip_bytes) {
    frames_[count_++] = {address + kTxFrameOffset, ip_bytes + static_cast<std::uint32_t>(kEthernetHeaderBytes)};
    bytes_ += ip_bytes;
    if (count_ == kTxBatch) flush();
  }
  void flush() {
    if (count_ == 0) return;
    const std::uint32_t sent = port_.socket.send(std::span(frames_).first(count_));
    PODLANE_ASSERT(sent == count_);  // room_ said so.
    port_.counters.add(Counter::kTxFrames, sent);
    port_.counters.add(Counter::kTxBytes, bytes_);
    count_ = 0;
    bytes_ = 0;
    flush_tx(port_);
  }

 private:
  LanePort& port_;
  std::uint32_t room_;
  std::array<xsk::FrameSpan, kTxBatch> frames_{};
  std::uint32_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

void write_ethernet(const LanePort& port, const MacAddress& destination, bool is_v4, std::uint8_t* frame) {
  std::memcpy(frame, destination.data(), 6);
  std::memcpy(frame + 6, port.mac.data(), 6);
  frame[12] = is_v4 ? kEtherTypeIpv4 >> 8 : kEtherTypeIpv6 >> 8;
  frame[13] = is_v4 ? kEtherTypeIpv4 & 0xff : kEtherTypeIpv6 & 0xff;
}

void drop_tx(LanePort& port, Counter reason, std::uint32_t packets) {
  port.counters.add(Counter::kTxPackets, packets);
  port.counters.add(reason, packets);
}

bool find_tx_hop(LanePort& port, const std::uint8_t* packet, const IpView& view, std::uint32_t packets,
                 MacAddress& mac) {
  switch (port.find_hop(destination_of(packet, view), view.is_v4, mac)) {
    case HopState::kKnown: return true;
    case HopState::kNoRoute: drop_tx(port, Counter::kTxDropNoRoute, packets); return false;
    default: drop_tx(port, Counter::kTxDropNoNeighbor, packets); return false;
  }
}

// One ordinary packet, which stands in its frame already. true: the frame went into the batch.
bool tun_to_tx_single(LanePort& port, TxBatch& batch, std::uint64_t address, std::uint32_t bytes,
                      const VnetHeader& vnet) {
  std::uint8_t* packet = bytes_at(port, address + kTxIpOffset);
  const std::uint32_t capacity = port.umem.frame_size_bytes() - kTxIpOffset;
  IpView view;
  if (bytes > std::min(port.description.mtu, capacity)) {
    drop_tx(port, Counter::kTxDropTooLong, 1);
    return false;
  }
  const IpFault fault = parse_ip_packet({packet, bytes}, view);
  if (fault != IpFault::kNone) {
    drop_tx(port, fault == IpFault::kNotIp ? Counter::kTxDropNotIp : Counter::kTxDropMalformed, 1);
    return false;
  }
  if ((vnet.flags & kVnetNeedsChecksum) != 0 &&
      (vnet.csum_start < view.header_bytes ||
       !complete_checksum({packet, view.total_bytes}, vnet.csum_start, vnet.csum_offset))) {
    drop_tx(port, Counter::kTxDropMalformed, 1);
    return false;
  }
  MacAddress mac;
  if (!find_tx_hop(port, packet, view, 1, mac)) return false;
  write_ethernet(port, mac, view.is_v4, packet - kEthernetHeaderBytes);
  port.counters.add(Counter::kTxPackets);
  batch.add(address, view.total_bytes);
  return true;
}

// A GSO packet, contiguous in the spill buffer.
void tun_to_tx_gso(LanePort& port, TxBatch& batch, std::span<const std::uint8_t> packet, const VnetHeader& vnet) {
  const auto cut = plan_gso(packet, vnet);
  if (!cut) return drop_tx(port, Counter::kTxDropMalformed, 1);
  if (gso_packet_bytes(*cut, 0) > port.description.mtu) return drop_tx(port, Counter::kTxDropTooLong, cut->packets);
  MacAddress mac;
  if (!find_tx_hop(port, packet.data(), cut->ip, cut->packets, mac)) return;
  port.counters.add(Counter::kTxGsoPackets);
  for (std::uint32_t i = 0; i < cut->packets; ++i) {
    std::uint64_t address = 0;
    if (!batch.make_room(1) || !batch.take(address)) {
      return drop_tx(port, Counter::kTxDropNoFrame, cut->packets - i);
    }
    std::uint8_t* out = bytes_at(port, address + kTxIpOffset);
    write_gso_packet(*cut, packet, i, out);
    write_ethernet(port, mac, cut->ip.is_v4, out - kEthernetHeaderBytes);
    port.counters.add(Counter::kTxPackets);
    port.counters.add(Counter::kTxGsoSegments);
    batch.add(address, gso_packet_bytes(*cut, i));
  }
}

// One packet from the TUN. The frame's part of a packet is followed by the spill buffer, so that an ordinary packet lands
// where it is sent from and a GSO packet costs one copy of its head. Empty: nothing to read (or the TUN is gone).
enum class ReadOutcome { kSent, kHandled, kEmpty };
ReadOutcome tun_to_tx_one(LanePort& port, TxBatch& batch, int tun, std::uint64_t address) {
  const std::uint32_t capacity = port.umem.frame_size_bytes() - kTxIpOffset;
  std::uint8_t* packet = bytes_at(port, address + kTxIpOffset);
  std::uint8_t* spill = port.spill.data();
  const iovec parts[2] = {{packet - kVnetHeaderBytes, kVnetHeaderBytes + capacity}, {spill + capacity, kSpillBytes}};
  port.counters.add(Counter::kTunReads);
  const ssize_t n = ::readv(tun, parts, 2);
  if (n < 0) {
    if (errno == EBADFD) port.set_fate(Fate::kTunGone);
    return ReadOutcome::kEmpty;
  }
  if (n < static_cast<ssize_t>(kVnetHeaderBytes)) {
    drop_tx(port, Counter::kTxDropMalformed, 1);
    return ReadOutcome::kHandled;
  }
  VnetHeader vnet;
  std::memcpy(&vnet, packet - kVnetHeaderBytes, kVnetHeaderBytes);
  const std::uint32_t bytes = static_cast<std::uint32_t>(n) - static_cast<std::uint32_t>(kVnetHeaderBytes);
  if (vnet.gso_type == 0) [[likely]] {
    return tun_to_tx_single(port, batch, address, bytes, vnet) ? ReadOutcome::kSent : ReadOutcome::kHandled;
  }
  std::memcpy(spill, packet, std::min(bytes, capacity));
  tun_to_tx_gso(port, batch, {spill, bytes}, vnet);
  return ReadOutcome::kHandled;
}

}  // namespace

std::uint32_t rx_to_tun(LanePort& port, std::uint32_t budget_packets) {
  std::array<xsk::FrameSpan, kRxBatch> frames;
  const std::uint32_t count = port.socket.receive(std::span(frames).first(std::min(budget_packets, kRxBatch)));
  // Before the batch is worked on: an empty fill ring loses frames (net/xdp/xsk.c, rx_fill_ring_empty_descs).
  port.socket.refill();
  if (count == 0) return 0;
  port.counters.add(Counter::kRxFrames, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    frame_to_tun(port, bytes_at(port, frames[i].address), frames[i].length);
    port.socket.give_back(frames[i].address);
  }
  return count;
}

bool frame_to_tun(LanePort& port, std::uint8_t* frame, std::uint32_t frame_bytes) {
  const auto drop = [&](Counter reason) {
    port.counters.add(reason);
    return false;
  };
  if (frame_bytes < kEthernetHeaderBytes + 1) return drop(Counter::kRxDropMalformed);
  const std::uint32_t ether_type = static_cast<std::uint32_t>(frame[12]) << 8 | frame[13];
  if (ether_type != kEtherTypeIpv4 && ether_type != kEtherTypeIpv6) return drop(Counter::kRxDropNotIp);
  std::uint8_t* packet = frame + kEthernetHeaderBytes;
  IpView view;
  const IpFault fault = parse_ip_packet({packet, frame_bytes - kEthernetHeaderBytes}, view);
  if (fault != IpFault::kNone) {
    return drop(fault == IpFault::kNotIp ? Counter::kRxDropNotIp : Counter::kRxDropMalformed);
  }
  if (view.is_v4 != (ether_type == kEtherTypeIpv4)) return drop(Counter::kRxDropMalformed);
  if (view.total_bytes > port.description.mtu) return drop(Counter::kRxDropTooLong);

  VnetHeader vnet;
  if (const auto partial = find_partial_checksum(packet, view)) [[unlikely]] {
    vnet.flags = kVnetNeedsChecksum;
    vnet.csum_start = partial->start;
    vnet.csum_offset = partial->offset;
    port.counters.add(Counter::kRxPartialChecksum);
  }
  // The TUN's header takes the place of the Ethernet header's end: one contiguous write.
  std::uint8_t* start = packet - kVnetHeaderBytes;
  std::memcpy(start, &vnet, kVnetHeaderBytes);
  port.counters.add(Counter::kTunWrites);
  if (::write(port.tuns.front().get(), start, kVnetHeaderBytes + view.total_bytes) < 0) [[unlikely]] {
    return drop(drop_of_write_error(port, errno));
  }
  port.counters.add(Counter::kRxToTun);
  port.counters.add(Counter::kRxBytes, view.total_bytes);
  return true;
}

std::uint32_t tun_to_tx(LanePort& port, std::uint32_t budget_packets) {
  if (port.socket.pool().count(xsk::Place::kSending) != 0) port.socket.reclaim();
  const std::uint32_t wanted = std::min(kSuperPacketFrames, port.socket.send_limit());
  const std::uint32_t budget = std::min({budget_packets, kTxBatch, port.tun_budget});
  std::uint32_t reads = 0, longest = 0;
  port.starved = false;
  TxBatch batch(port);
  for (const UniqueFd& tun : port.tuns) {
    bool in_hand = false;
    std::uint64_t address = 0;
    std::uint32_t of_queue = 0;
    while (of_queue < budget) {
      // A read may bring a GSO packet: room for all of it is there first.
      if (!batch.make_room(wanted - (in_hand ? 1 : 0)) || (!in_hand && !batch.take(address))) {
        port.starved = true;
        port.counters.add(Counter::kTxWaitNoFrame);  // The packets wait in the TUN's queue.
        break;
      }
      in_hand = true;
      const ReadOutcome outcome = tun_to_tx_one(port, batch, tun.get(), address);
      if (outcome == ReadOutcome::kEmpty) break;
      if (outcome == ReadOutcome::kSent) in_hand = false;
      ++of_queue;
    }
    if (in_hand) batch.give_back(address);
    reads += of_queue;
    longest = std::max(longest, of_queue);
  }
  // A lone packet is sent at once, not after a look for the next one, which would cost it a system call. Where packets
  // queue up, the batch doubles until a look finds nothing.
  port.tun_budget = longest >= port.tun_budget ? std::min(kTxBatch, port.tun_budget * 2) : std::max(longest, 1U);
  return reads;
}

bool flush_tx(LanePort& port) {
  // At least one descriptor goes with each round, or it is the last.
  std::uint32_t before = port.socket.not_taken();
  while (before != 0) {
    const xsk::KickOutcome outcome = port.socket.kick();
    port.counters.set(Counter::kXskKicks, port.socket.kicks());
    if (outcome == xsk::KickOutcome::kSent) return true;
    if (outcome == xsk::KickOutcome::kGone) {
      port.set_fate(Fate::kDeviceGone);
      return false;
    }
    if (outcome == xsk::KickOutcome::kDown) {
      port.counters.add(Counter::kTxKickDown);
      return false;
    }
    const std::uint32_t after = port.socket.not_taken();
    if (after >= before) {
      port.counters.add(Counter::kTxKickLater);
      return after == 0;
    }
    before = after;
  }
  return true;
}

}  // namespace podlane
