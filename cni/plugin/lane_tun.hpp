// A lane's TUN in the pod's namespace, with its addresses, rules and routing table. The caller is in that namespace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cni/spec/net_conf.hpp"
#include "lib/journal/attachment_record.hpp"
#include "lib/net/rtnetlink.hpp"

namespace podlane::cni {

struct TunPlan {
  std::string name;
  std::string alias;
  std::uint32_t mtu = 1500;
  std::uint32_t tx_queue_len = 1000;
  bool multi_queue = false;
  TunOffloads offloads;
  std::uint32_t owner = 0;
  std::vector<net::IpPrefix> addresses;
  std::vector<TunRoute> routes;
  bool own_table = true;  // Lanes: rules and a table of their own. Plain TUNs: the main table.
};

struct TunMade {
  int ifindex = 0;
  std::uint32_t table = 0;
};

// Makes it and reads it back. On failure nothing of it stays.
Result<TunMade> make_tun(net::RtNetlink& netlink, const TunPlan& plan);

// kNotFound or kGone with words about the first thing that is not as the record says.
Result<void> check_tun(net::RtNetlink& netlink, const journal::LaneRecord& lane, const std::string& alias);

// Removes link and rules, whatever is left of them and however the pod renamed the link. Missing is success.
Result<void> remove_tun(net::RtNetlink& netlink, const journal::LaneRecord& lane, const std::string& alias);

// Removes every TUN with the alias but those listed: for an attachment whose record was lost.
Result<void> remove_unrecorded_tuns(net::RtNetlink& netlink, const std::string& alias,
                                    const std::vector<int>& keep_ifindexes);

}  // namespace podlane::cni
