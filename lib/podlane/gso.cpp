#include "lib/podlane/gso.hpp"

#include <cstring>

#include "lib/podlane/checksum.hpp"

namespace podlane {

namespace {

// include/uapi/linux/virtio_net.h, which is not C++ (a field is called class) and in Debian 12 has no UDP_L4.
constexpr std::uint8_t kGsoTcpV4 = 1, kGsoTcpV6 = 4, kGsoUdpL4 = 5, kGsoEcn = 0x80;

constexpr std::size_t kTcpHeaderMin = 20;
constexpr std::size_t kUdpHeader = 8;
constexpr std::uint8_t kTcpFin = 0x01, kTcpPsh = 0x08, kTcpCwr = 0x80;

std::uint16_t read_be16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }
void write_be16(std::uint8_t* at, std::uint32_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}
std::uint32_t read_be32(const std::uint8_t* at) {
  return static_cast<std::uint32_t>(read_be16(at)) << 16 | read_be16(at + 2);
}
void write_be32(std::uint8_t* at, std::uint32_t value) {
  write_be16(at, value >> 16);
  write_be16(at + 2, value);
}

void write_gso_packet_ip(const GsoCut& cut, std::uint32_t index, std::uint32_t bytes, std::uint8_t* out) {
  if (!cut.ip.is_v4) {
    write_be16(out + 4, bytes - cut.ip.header_bytes);
    return;
  }
  write_be16(out + 2, bytes);
  write_be16(out + 4, read_be16(out + 4) + index);  // Identification counts up, as a sending stack would.
  out[10] = out[11] = 0;
  const std::uint16_t checksum =
      static_cast<std::uint16_t>(~checksum_fold(checksum_add(0, out, cut.ip.header_bytes)));
  std::memcpy(out + 10, &checksum, 2);
}

void write_gso_packet_l4(const GsoCut& cut, std::uint32_t index, std::uint32_t bytes, std::uint8_t* out) {
  std::uint8_t* l4 = out + cut.l4_start;
  std::size_t field = 6;
  if (cut.protocol == kProtocolTcp) {
    field = 16;
    write_be32(l4 + 4, read_be32(l4 + 4) + index * cut.payload_bytes);
    if (index != 0) l4[13] &= static_cast<std::uint8_t>(~kTcpCwr);                        // Said once, on the first.
    if (index + 1 != cut.packets) l4[13] &= static_cast<std::uint8_t>(~(kTcpFin | kTcpPsh));  // Belong to the last.
  } else {
    write_be16(l4 + 4, bytes - cut.l4_start);
  }
  l4[field] = l4[field + 1] = 0;
  const std::uint32_t l4_bytes = bytes - cut.l4_start;
  std::uint64_t sum = pseudo_header_sum(out, cut.ip, cut.protocol, l4_bytes);
  sum = checksum_add(sum, l4, l4_bytes);
  std::uint16_t checksum = static_cast<std::uint16_t>(~checksum_fold(sum));
  if (checksum == 0) checksum = 0xffff;
  std::memcpy(l4 + field, &checksum, 2);
}

}  // namespace

std::optional<GsoCut> plan_gso(std::span<const std::uint8_t> packet, const VnetHeader& vnet) {
  GsoCut cut;
  if (parse_ip_packet(packet, cut.ip) != IpFault::kNone || cut.ip.total_bytes != packet.size()) return std::nullopt;
  switch (vnet.gso_type & ~kGsoEcn) {
    case kGsoTcpV4:
      if (!cut.ip.is_v4) return std::nullopt;
      cut.protocol = kProtocolTcp;
      break;
    case kGsoTcpV6:
      if (cut.ip.is_v4) return std::nullopt;
      cut.protocol = kProtocolTcp;
      break;
    case kGsoUdpL4: cut.protocol = kProtocolUdp; break;
    default: return std::nullopt;
  }
  // A GSO packet is checksum-partial, so csum_start is its L4 header: IPv6 extensions need no walking.
  if ((vnet.flags & kVnetNeedsChecksum) == 0 || vnet.gso_size == 0 || cut.ip.is_fragment) return std::nullopt;
  cut.l4_start = vnet.csum_start;
  if (cut.l4_start < cut.ip.header_bytes) return std::nullopt;
  std::size_t l4_header = kUdpHeader;
  if (cut.protocol == kProtocolTcp) {
    if (cut.l4_start + kTcpHeaderMin > packet.size()) return std::nullopt;
    l4_header = static_cast<std::size_t>(packet[cut.l4_start + 12] >> 4) * 4;
    if (l4_header < kTcpHeaderMin) return std::nullopt;
  }
  if (cut.l4_start + l4_header >= packet.size()) return std::nullopt;
  cut.header_bytes = static_cast<std::uint16_t>(cut.l4_start + l4_header);
  cut.payload_bytes = vnet.gso_size;
  const std::size_t payload = packet.size() - cut.header_bytes;
  cut.packets = static_cast<std::uint32_t>((payload + cut.payload_bytes - 1) / cut.payload_bytes);
  return cut;
}

std::uint32_t gso_packet_bytes(const GsoCut& cut, std::uint32_t index) {
  const std::uint32_t payload = cut.ip.total_bytes - cut.header_bytes;
  const std::uint32_t before = index * cut.payload_bytes;
  const std::uint32_t rest = payload - before;
  return cut.header_bytes + (rest < cut.payload_bytes ? rest : cut.payload_bytes);
}

void write_gso_packet(const GsoCut& cut, std::span<const std::uint8_t> packet, std::uint32_t index, std::uint8_t* out) {
  const std::uint32_t bytes = gso_packet_bytes(cut, index);
  std::memcpy(out, packet.data(), cut.header_bytes);
  std::memcpy(out + cut.header_bytes, packet.data() + cut.header_bytes + index * cut.payload_bytes,
              bytes - cut.header_bytes);
  write_gso_packet_ip(cut, index, bytes, out);
  write_gso_packet_l4(cut, index, bytes, out);
}

}  // namespace podlane
