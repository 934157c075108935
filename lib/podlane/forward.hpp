// The hot loops: AF_XDP -> TUN and TUN -> AF_XDP, as free functions over a LanePort. Packet thread only. No allocation, no
// lock, no log, no clock; each loop is bounded by its budget.
#pragma once

#include <cstdint>

#include "lib/podlane/lane_port.hpp"

namespace podlane {

// Takes up to budget_packets (at most kRxBatch) off the RX ring, refills the fill ring first, then writes each to the TUN.
// Work done.
std::uint32_t rx_to_tun(LanePort& port, std::uint32_t budget_packets);

// Writes one received Ethernet frame to the TUN: L2 stripped, checks, counters. The frame stays the caller's; its bytes in
// front of the IP header are overwritten. false: dropped and counted.
bool frame_to_tun(LanePort& port, std::uint8_t* frame, std::uint32_t frame_bytes);

// Reads up to budget_packets (at most kTxBatch, and at most port.tun_budget) from each queue of the TUN until it is empty,
// adds L2, completes checksums, cuts GSO packets, and sends and kicks at once. Reads nothing while no frame is free. Work
// done, in reads.
std::uint32_t tun_to_tx(LanePort& port, std::uint32_t budget_packets);

// Kicks until the kernel has taken everything or takes no more for now. true: all taken.
bool flush_tx(LanePort& port);

}  // namespace podlane
