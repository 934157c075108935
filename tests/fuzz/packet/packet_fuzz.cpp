// Any bytes as a packet with its virtio_net_hdr: nothing is read or written beyond them, and what GSO cutting makes are
// packets that parse, are no longer than announced, and carry the payload once.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/podlane/gso.hpp"
#include "lib/podlane/packet.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void cut(const std::vector<std::uint8_t>& packet, const podlane::VnetHeader& vnet) {
  const auto plan = podlane::plan_gso(packet, vnet);
  if (!plan) return;
  std::size_t payload = 0;
  for (std::uint32_t i = 0; i < plan->packets; ++i) {
    const std::uint32_t bytes = podlane::gso_packet_bytes(*plan, i);
    require(bytes > plan->header_bytes && bytes <= packet.size());
    std::vector<std::uint8_t> out(bytes);  // Of the exact size, so that a sanitizer sees each byte too many.
    podlane::write_gso_packet(*plan, packet, i, out.data());
    podlane::IpView view;
    require(podlane::parse_ip_packet(out, view) == podlane::IpFault::kNone && view.total_bytes == bytes);
    payload += bytes - plan->header_bytes;
  }
  require(payload == packet.size() - plan->header_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < podlane::kVnetHeaderBytes || size > 65536 + podlane::kVnetHeaderBytes) return 0;
  podlane::VnetHeader vnet;
  std::memcpy(&vnet, data, sizeof(vnet));
  std::vector<std::uint8_t> packet(data + sizeof(vnet), data + size);
  cut(packet, vnet);
  podlane::IpView view;
  if (podlane::parse_ip_packet(packet, view) != podlane::IpFault::kNone) return 0;
  require(view.total_bytes <= packet.size() && view.header_bytes <= view.total_bytes);
  podlane::destination_of(packet.data(), view);
  if (const auto partial = podlane::find_partial_checksum(packet.data(), view)) {
    require(podlane::complete_checksum({packet.data(), view.total_bytes}, partial->start, partial->offset));
  }
  podlane::complete_checksum({packet.data(), view.total_bytes}, vnet.csum_start, vnet.csum_offset);
  return 0;
}
