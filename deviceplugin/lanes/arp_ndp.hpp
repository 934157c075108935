// ARP and neighbour discovery messages as bytes: built and read here, sent and received in wire.cpp. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "deviceplugin/lanes/host_side.hpp"
#include "lib/net/addr.hpp"

namespace podlane::dp {

using Frame = std::string;  // A whole Ethernet frame.

// "Who has target, tell sender?" by broadcast. sender empty: an RFC 5227 probe. IPv4 only.
Frame arp_request(const MacAddress& mac, const std::optional<net::IpAddress>& sender, const net::IpAddress& target);
// Neighbour solicitation to the target's solicited-node group. sender empty: duplicate address detection. IPv6 only.
Frame neighbor_solicitation(const MacAddress& mac, const std::optional<net::IpAddress>& sender,
                            const net::IpAddress& target);
// "address is at mac", to everybody: gratuitous ARP in request form (RFC 5227, 3: what most hosts take) or an
// unsolicited neighbour advertisement with the override flag (RFC 4861, 7.2.6).
Frame announcement(const MacAddress& mac, const net::IpAddress& address);

MacAddress solicited_node_mac(const net::IpAddress& address);  // 33:33:ff:xx:xx:xx

// What a received frame says about an address.
struct NeighborClaim {
  net::IpAddress address;
  MacAddress mac{};
  bool only_asks = false;  // A probe or duplicate address detection: wants the address, does not hold it yet.
};
std::optional<NeighborClaim> read_claim(std::span<const std::uint8_t> frame);

}  // namespace podlane::dp
