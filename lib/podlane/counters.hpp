// Counters of a lane's owner: one enum, one name table (docs/counters-relay.md). Single writer, the thread that moves the
// packets; any thread may read.
//
// They add up, always, when no frame is in the application's hand:
//   rx_frames               = rx_to_tun + rx_taken + the rx_drop_* ones
//   tx_packets + tx_direct  = tx_frames + the tx_drop_* ones
// A GSO packet counts in tx_packets as the packets it stands for, so that the sums hold on the wire's terms.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace podlane {

enum class Counter : std::uint8_t {
  kRxFrames,
  kRxToTun,
  kRxTaken,
  kRxDropNotIp,
  kRxDropMalformed,
  kRxDropTooLong,
  kRxDropTunDown,
  kRxDropTunFull,
  kRxDropTunRefused,
  kRxPartialChecksum,
  kRxBytes,
  kTxPackets,
  kTxDirect,
  kTxFrames,
  kTxDropNotIp,
  kTxDropMalformed,
  kTxDropTooLong,
  kTxDropNoRoute,
  kTxDropNoNeighbor,
  kTxDropNoFrame,
  kTxGsoPackets,
  kTxGsoSegments,
  kTxBytes,
  kTxWaitNoFrame,
  kTxKickLater,
  kTxKickDown,
  kTunReads,
  kTunWrites,
  kXskKicks,
  kSleeps,
  kResolves,
  kCount,
};
inline constexpr std::size_t kCounterCount = static_cast<std::size_t>(Counter::kCount);

inline constexpr std::array<std::string_view, kCounterCount> kCounterNames = {
    "rx_frames",
    "rx_to_tun",
    "rx_taken",
    "rx_drop_not_ip",
    "rx_drop_malformed",
    "rx_drop_too_long",
    "rx_drop_tun_down",
    "rx_drop_tun_full",
    "rx_drop_tun_refused",
    "rx_partial_checksum",
    "rx_bytes",
    "tx_packets",
    "tx_direct",
    "tx_frames",
    "tx_drop_not_ip",
    "tx_drop_malformed",
    "tx_drop_too_long",
    "tx_drop_no_route",
    "tx_drop_no_neighbor",
    "tx_drop_no_frame",
    "tx_gso_packets",
    "tx_gso_segments",
    "tx_bytes",
    "tx_wait_no_frame",
    "tx_kick_later",
    "tx_kick_down",
    "tun_reads",
    "tun_writes",
    "xsk_kicks",
    "sleeps",
    "resolves",
};
static_assert(kCounterNames[kCounterCount - 1] == "resolves", "one name for each counter");
static_assert(kCounterNames[static_cast<std::size_t>(Counter::kTxPackets)] == "tx_packets", "names in the enum's order");
static_assert(kCounterNames[static_cast<std::size_t>(Counter::kTunReads)] == "tun_reads", "names in the enum's order");

class Counters {
 public:
  // Relaxed load and store, no read-modify-write: there is one writer. Readers need no order between counters.
  void add(Counter counter, std::uint64_t count = 1) {
    std::atomic<std::uint64_t>& cell = cells_[static_cast<std::size_t>(counter)];
    cell.store(cell.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  void set(Counter counter, std::uint64_t value) {
    cells_[static_cast<std::size_t>(counter)].store(value, std::memory_order_relaxed);
  }
  std::uint64_t get(Counter counter) const {
    return cells_[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
  }
  std::vector<std::pair<std::string, std::uint64_t>> snapshot() const {
    std::vector<std::pair<std::string, std::uint64_t>> all;
    all.reserve(kCounterCount);
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      all.emplace_back(std::string(kCounterNames[i]), cells_[i].load(std::memory_order_relaxed));
    }
    return all;
  }

 private:
  alignas(64) std::array<std::atomic<std::uint64_t>, kCounterCount> cells_{};
};

}  // namespace podlane
