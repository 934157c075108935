// LaneWork: one interface that ADD is about to make, from the device plugin's plan or from NetConf alone. No I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/plugin/call.hpp"
#include "cni/plugin/lane_tun.hpp"
#include "cni/spec/add_result.hpp"
#include "lib/journal/ipam.hpp"
#include "lib/lane/control_msg.hpp"

namespace podlane::cni {

struct LaneWork {
  TunPlan tun;
  std::uint32_t queues = 1;
  std::optional<lane::LanePlan> plan;  // Absent for a plain TUN.
  std::optional<journal::IpamCall> ipam;
  std::vector<net::IpPrefix> fixed_addresses;
  std::vector<net::IpPrefix> subnets;
  std::vector<net::IpAddress> gateways;
  std::vector<ResultAddress> result_addresses;  // With the gateways, for standalone results.
  std::vector<ResultRoute> result_routes;
  std::optional<json::Value> dns;
  TunMade made;
};

// Lane n's interface: tun.name counts up ("lane0", "lane1", …). Standalone, the first is CNI_IFNAME.
CniResult<std::vector<LaneWork>> work_of_plans(const Call& call, std::vector<lane::LanePlan> plans);
// NetConf's own TUN: no lane, no device plugin.
CniResult<LaneWork> work_of_plain_tun(const Call& call);

// NetConf's `ipam`, delegated under our own name and CNI_IFNAME (CNI 1.1, section 4).
journal::IpamCall own_ipam_call(const Call& call);

// Puts an IPAM plugin's answer into the work, after checking it against fixed addresses and subnets.
CniResult<void> take_ipam_result(LaneWork& work, std::string_view text);
// Fixed addresses alone, where no IPAM plugin is asked.
CniResult<void> take_fixed_addresses(LaneWork& work);

journal::LaneRecord record_of(const LaneWork& work);

}  // namespace podlane::cni
