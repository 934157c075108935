// IP packets as the forwarding loops see them: bounds-checked views, nothing copied. All input is hostile. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace podlane {

inline constexpr std::size_t kEthernetHeaderBytes = 14;
inline constexpr std::size_t kVnetHeaderBytes = 10;  // struct virtio_net_hdr, the TUN's default TUNSETVNETHDRSZ.
inline constexpr std::uint8_t kProtocolTcp = 6;
inline constexpr std::uint8_t kProtocolUdp = 17;

using MacAddress = std::array<std::uint8_t, 6>;

// An IP address as the look-ups want it: IPv4 mapped (::ffff:a.b.c.d).
struct IpKey {
  std::uint64_t high = 0, low = 0;  // As the bytes stand in memory, not as numbers.
  friend bool operator==(const IpKey&, const IpKey&) = default;
};
IpKey ip_key_v4(const std::uint8_t* address);
IpKey ip_key_v6(const std::uint8_t* address);
std::array<std::uint8_t, 16> ip_key_bytes(const IpKey& key);

struct IpView {
  bool is_v4 = false;
  std::uint16_t header_bytes = 0;  // IPv4 with options; IPv6: the fixed 40.
  std::uint32_t total_bytes = 0;   // What the header promises: at most the bytes given.
  std::uint8_t protocol = 0;       // IPv4 protocol, IPv6 next header as it stands (extensions are not walked).
  bool is_fragment = false;        // IPv4: any fragment.
};
enum class IpFault { kNone, kNotIp, kMalformed };
// Looks at version, header length and total length. IPv6 jumbograms are kMalformed.
IpFault parse_ip_packet(std::span<const std::uint8_t> packet, IpView& view);

IpKey destination_of(const std::uint8_t* packet, const IpView& view);

// One's complement sum of the pseudo header (RFC 9293 3.1, RFC 8200 8.1), not folded.
std::uint64_t pseudo_header_sum(const std::uint8_t* packet, const IpView& view, std::uint8_t protocol,
                                std::uint32_t l4_bytes);

// Does the L4 checksum field hold just the pseudo header's sum, as a sender leaves it that counts on its device to do the
// rest (veth never does)? True then for one good packet of 65536 too. `offset` is where the field stands within L4.
struct L4Checksum {
  std::uint16_t start = 0;   // L4 header, from the start of the packet.
  std::uint16_t offset = 0;  // Checksum field, from there.
};
std::optional<L4Checksum> find_partial_checksum(const std::uint8_t* packet, const IpView& view);

// Writes the checksum of [start, total) at start + offset, where the pseudo header's sum stands now. false: out of bounds.
bool complete_checksum(std::span<std::uint8_t> packet, std::uint16_t start, std::uint16_t offset);

// virtio_net_hdr in the machine's byte order (the TUN's default for legacy headers: drivers/net/tun.c tun_is_little_endian).
struct VnetHeader {
  std::uint8_t flags = 0;
  std::uint8_t gso_type = 0;
  std::uint16_t hdr_len = 0;
  std::uint16_t gso_size = 0;
  std::uint16_t csum_start = 0;
  std::uint16_t csum_offset = 0;
};
static_assert(sizeof(VnetHeader) == kVnetHeaderBytes);
inline constexpr std::uint8_t kVnetNeedsChecksum = 1;

}  // namespace podlane
