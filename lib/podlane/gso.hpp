// GSO packets as a TUN gives them (virtio_net_hdr): one TCP or UDP packet of up to 64 KiB that stands for many. This cuts
// it into the packets of the wire, checksums included. Pure; any thread. Kernel: net/ipv4/tcp_offload.c tcp_gso_segment,
// net/ipv4/udp_offload.c __udp_gso_segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/podlane/packet.hpp"

namespace podlane {

struct GsoCut {
  IpView ip;
  std::uint8_t protocol = 0;       // TCP or UDP.
  std::uint16_t l4_start = 0;      // From the start of the packet.
  std::uint16_t header_bytes = 0;  // IP and L4 headers: what each packet repeats.
  std::uint16_t payload_bytes = 0; // Of each packet but the last.
  std::uint32_t packets = 0;       // At least 1.
};

// Empty when header and packet do not fit each other, or it is a kind of GSO that was not asked for.
std::optional<GsoCut> plan_gso(std::span<const std::uint8_t> packet, const VnetHeader& vnet);

std::uint32_t gso_packet_bytes(const GsoCut& cut, std::uint32_t index);

// Writes packet `index` to out, which has room for gso_packet_bytes() and is not part of `packet`.
void write_gso_packet(const GsoCut& cut, std::span<const std::uint8_t> packet, std::uint32_t index, std::uint8_t* out);

}  // namespace podlane
