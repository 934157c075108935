// The kernel objects of a lane on the host's side, apart from BPF (bpf/loader/steering.hpp): the lane's veth, what the
// NIC is, announcements and probes on the wire. Blocking; called from worker threads of the lane table.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"

namespace podlane::dp {

using MacAddress = std::array<std::uint8_t, 6>;
std::string to_string(const MacAddress& mac);  // "02:00:00:00:00:01"
std::optional<MacAddress> parse_mac(const std::string& text);

struct NicFacts {
  IfIndex index;
  std::string name;
  MacAddress mac{};
  std::uint32_t mtu = 0;
  std::uint32_t rx_queues = 0;  // In use (ethtool channels; /sys/class/net/<name>/queues where the driver has none).
  bool up = false;
  std::string pci_id;  // Empty for a device that is not on PCI.
};
Result<NicFacts> nic_facts(const std::string& name, const std::string& sysfs_root);

struct VethLane {
  IfIndex host_end;
  IfIndex pod_end;  // Index inside the pod's namespace.
};
// One queue, no address, checksum and segmentation offloads off, GRO on at the pod's end as native XDP needs it, interface
// numbers of the slot (lane_abi.h). The pod's end is made in the pod's namespace; the host end carries the alias
// "podlane:<device>". Both are down with a small MTU: whoever attached opens them (lib/net/veth_pair.hpp).
Result<VethLane> make_veth_lane(int pod_netns_fd, const std::string& host_name, const std::string& pod_name,
                                const std::string& device, LaneSlot slot);
// Both ends up, the host end's MTU at least as given. In words what is not; the pod's end is seen by the carrier only.
Result<void> check_veth_lane_is_open(IfIndex host_end, std::uint32_t mtu);
Result<void> delete_link(IfIndex index);                           // Success when it is gone.
Result<std::vector<std::pair<IfIndex, std::string>>> our_veths();  // (host end, device) by alias: for reconciling.

// Largest MTU a lane's TUN can have: what NIC and frame take.
std::uint32_t lane_mtu(std::uint32_t nic_mtu, std::uint32_t frame_size_bytes);

// Gratuitous ARP (request form) / unsolicited NA for the addresses ("10.9.0.5/24"), out of the NIC.
Result<void> announce(IfIndex nic, const MacAddress& mac, const std::vector<std::string>& addresses);
// RFC 5227 probe (IPv4) or duplicate address detection (RFC 4862) in short: does anybody else hold it? true: taken.
Result<bool> probe_taken(IfIndex nic, const MacAddress& mac, const std::string& address,
                         std::chrono::milliseconds wait);
// Joins or leaves the solicited-node group of an IPv6 address on the NIC by SIOCADDMULTI: survives this process. The
// kernel does not count these joins and addresses with the same last 24 bits share a group: leave it with the last.
Result<void> join_solicited_node(IfIndex nic, const std::string& address);
Result<void> leave_solicited_node(IfIndex nic, const std::string& address);

}  // namespace podlane::dp
