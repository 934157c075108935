#include "cni/plugin/lane_tun.hpp"

#include <linux/if_tun.h>

#include <algorithm>

#include "lib/base/scope_guard.hpp"
#include "lib/net/sysctl.hpp"
#include "lib/net/tun.hpp"

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#endif
#ifndef TUN_F_USO6
#define TUN_F_USO6 0x40
#endif

namespace podlane::cni {

namespace {

using net::Family;
using net::IpPrefix;
using net::RtNetlink;
using net::Rule;

constexpr std::uint32_t kFirstTable = 20000;
constexpr std::uint32_t kTableStride = 100000;  // To the next candidate when somebody uses the first.
constexpr int kTableCandidates = 10;
constexpr std::uint32_t kMinIpv6Mtu = 1280;  // The kernel runs no IPv6 on a link below (IPV6_MIN_MTU).

bool has_family(const std::vector<IpPrefix>& addresses, Family family) {
  return std::ranges::any_of(addresses, [&](const IpPrefix& address) { return address.family() == family; });
}

Result<bool> table_is_used(RtNetlink& netlink, Family family, std::uint32_t table) {
  PODLANE_TRY_ASSIGN(const auto routes, netlink.routes(family, table));
  if (!routes.empty()) return true;
  PODLANE_TRY_ASSIGN(const auto rules, netlink.rules(family));
  return std::ranges::any_of(rules, [&](const Rule& rule) { return rule.table == table; });
}

Result<std::uint32_t> find_free_table(RtNetlink& netlink, int ifindex, const std::vector<IpPrefix>& addresses) {
  std::uint32_t table = kFirstTable + static_cast<std::uint32_t>(ifindex);
  for (int i = 0; i < kTableCandidates; ++i, table += kTableStride) {
    bool used = false;
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      if (used || !has_family(addresses, family)) continue;
      PODLANE_TRY_ASSIGN(used, table_is_used(netlink, family, table));
    }
    if (!used) return table;
  }
  return podlane::fail(Errc::kBusy, "routing tables from " + std::to_string(table) + " down are all used in the pod");
}

Result<void> set_offloads(int tun_fd, const TunOffloads& offloads) {
  std::uint32_t wanted = 0;
  if (offloads.checksum) wanted |= TUN_F_CSUM;
  if (offloads.tso) wanted |= TUN_F_TSO4 | TUN_F_TSO6;
  if (offloads.uso) wanted |= TUN_F_USO4 | TUN_F_USO6;
  if (wanted == 0) return {};
  PODLANE_TRY_ASSIGN(const std::uint32_t taken, net::tun_set_offloads(tun_fd, wanted));
  if (taken == wanted) return {};
  return podlane::fail(Errc::kUnsupported,
                       "tun.offloads: this kernel's TUN takes less than asked for ('uso' needs Linux 6.2)");
}

// A kernel without IPv6 has no such files.
Result<void> set_ipv6_sysctl(const std::string& ifname, std::string_view key, std::string_view value) {
  auto written = net::set_interface_sysctl("ipv6", ifname, key, value);
  if (!written && written.error().code() == Errc::kNotFound) return {};
  return written;
}

// Routes of a TUN whose reader is gone must not swallow packets: without carrier they count as dead
// (Documentation/networking/ip-sysctl.rst, ignore_routes_with_linkdown).
Result<void> set_sysctls(const TunPlan& plan) {
  PODLANE_TRY(net::set_interface_sysctl("ipv4", plan.name, "ignore_routes_with_linkdown", "1"));
  PODLANE_TRY_ASSIGN(const std::string in_force,
                     net::get_interface_sysctl("ipv4", plan.name, "ignore_routes_with_linkdown"));
  if (in_force != "1")
    return podlane::fail(Errc::kIo, "ignore_routes_with_linkdown of " + plan.name + " stays " + in_force);
  PODLANE_TRY(set_ipv6_sysctl(plan.name, "ignore_routes_with_linkdown", "1"));
  PODLANE_TRY(set_ipv6_sysctl(plan.name, "accept_ra", "0"));
  // Runtimes often switch IPv6 off in a pod; a lane that has an IPv6 address needs it on its own link.
  if (has_family(plan.addresses, Family::kIpv6))
    return net::set_interface_sysctl("ipv6", plan.name, "disable_ipv6", "0");
  return {};
}

std::vector<net::NetlinkRequest> configuration_of(const TunPlan& plan, IfIndex ifindex, std::uint32_t table) {
  std::vector<net::NetlinkRequest> batch;
  for (const IpPrefix& address : plan.addresses) {
    batch.push_back(
        net::add_address_request({.ifindex = ifindex, .prefix = address, .no_prefix_route = plan.own_table}));
  }
  for (const TunRoute& route : plan.routes) {
    // A TUN has no neighbours: the gateway says who forwards, the device alone decides.
    batch.push_back(
        net::add_route_request({.destination = route.destination,
                                .gateway = route.gateway,
                                .ifindex = ifindex,
                                .table = table,
                                .on_link = route.gateway.has_value(),
                                .link_scope = !route.gateway && route.destination.family() == Family::kIpv4}));
  }
  if (!plan.own_table) return batch;
  // Rules last: packets find the table only when it is complete.
  for (const IpPrefix& address : plan.addresses) {
    batch.push_back(net::add_rule_request({.from = net::host_prefix(address.address), .table = table}));
  }
  return batch;
}

Result<std::vector<Rule>> rules_to(RtNetlink& netlink, std::uint32_t table) {
  std::vector<Rule> found;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    PODLANE_TRY_ASSIGN(const auto rules, netlink.rules(family));
    for (const Rule& rule : rules) {
      if (rule.table == table) found.push_back(rule);
    }
  }
  return found;
}

Result<void> ignore_missing(Result<void> result) {
  if (!result && result.error().code() == Errc::kNotFound) return {};
  return result;
}

Result<void> delete_rules(RtNetlink& netlink, const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) PODLANE_TRY(ignore_missing(netlink.delete_rule(rule)));
  return {};
}

// Rules of a link whose table nobody wrote down: those from its own addresses to one of its candidates.
Result<std::vector<Rule>> rules_of_link(RtNetlink& netlink, IfIndex ifindex) {
  PODLANE_TRY_ASSIGN(const auto addresses, netlink.addresses(ifindex));
  std::vector<Rule> found;
  std::uint32_t table = kFirstTable + static_cast<std::uint32_t>(ifindex.value);
  for (int i = 0; i < kTableCandidates; ++i, table += kTableStride) {
    PODLANE_TRY_ASSIGN(const auto rules, rules_to(netlink, table));
    for (const Rule& rule : rules) {
      if (std::ranges::any_of(addresses, [&](const net::Address& address) {
            return net::host_prefix(address.prefix.address) == rule.from;
          })) {
        found.push_back(rule);
      }
    }
  }
  return found;
}

// Our TUN by index; without one, by the planned name. ADD may have been killed between the TUN's creation and its
// alias, so a TUN of that name which is down, without alias and of the recorded owner is ours too.
Result<std::optional<net::Link>> find_tun(RtNetlink& netlink, const journal::LaneRecord& lane,
                                          const std::string& alias) {
  auto link = lane.ifindex != 0 ? netlink.link_by_index(IfIndex(lane.ifindex)) : netlink.link_by_name(lane.ifname);
  if (!link && link.error().code() == Errc::kNotFound) return std::optional<net::Link>();
  if (!link) return std::unexpected(std::move(link).error());
  if (link->kind != "tun") return std::optional<net::Link>();
  const bool unfinished = lane.ifindex == 0 && link->alias.empty() && !link->up && link->tun_owner == lane.owner;
  if (link->alias != alias && !unfinished) return std::optional<net::Link>();
  return std::optional(std::move(*link));
}

Result<void> read_back(RtNetlink& netlink, const TunPlan& plan, const TunMade& made) {
  journal::LaneRecord lane{.ifname = plan.name, .ifindex = made.ifindex, .table = made.table, .mtu = plan.mtu};
  for (const IpPrefix& address : plan.addresses) lane.addresses.push_back(address.to_string());
  return check_tun(netlink, lane, plan.alias);
}

}  // namespace

Result<TunMade> make_tun(RtNetlink& netlink, const TunPlan& plan) {
  const bool ipv6 = has_family(plan.addresses, Family::kIpv6);
  if (ipv6 && plan.mtu < kMinIpv6Mtu) {
    return podlane::fail(Errc::kInvalid, plan.name + ": an IPv6 address needs an MTU of at least 1280, it has " +
                                             std::to_string(plan.mtu));
  }
  PODLANE_TRY_ASSIGN(const UniqueFd tun,
                     net::tun_create({.name = plan.name, .owner = plan.owner, .multi_queue = plan.multi_queue}));
  PODLANE_TRY_ASSIGN(const net::Link link, netlink.link_by_name(plan.name));
  TunMade made{.ifindex = link.ifindex.value, .table = 0};
  ScopeGuard undo([&] {
    // The error that is on its way says more than one of the undoing would.
    (void)remove_tun(netlink, {.ifname = plan.name, .ifindex = made.ifindex, .table = made.table}, plan.alias);
    (void)netlink.delete_link(link.ifindex);
  });
  PODLANE_TRY(set_offloads(tun.get(), plan.offloads));
  // The alias goes first and alone decides who finds this link again.
  PODLANE_TRY(
      netlink.set_link(link.ifindex, {.mtu = plan.mtu, .tx_queue_len = plan.tx_queue_len, .alias = plan.alias}));
  PODLANE_TRY(set_sysctls(plan));
  auto quiet = netlink.set_link(link.ifindex, {.no_address_generation = true});
  if (!quiet && ipv6) return std::unexpected(std::move(quiet).error());  // Without IPv6 on the link there is no noise.
  PODLANE_TRY(netlink.set_link(link.ifindex, {.up = true}));
  const std::uint32_t kMainTable = 254;
  if (plan.own_table) {
    PODLANE_TRY_ASSIGN(made.table, find_free_table(netlink, made.ifindex, plan.addresses));
  }
  PODLANE_TRY(netlink.run(configuration_of(plan, link.ifindex, plan.own_table ? made.table : kMainTable)));
  PODLANE_TRY(read_back(netlink, plan, made));
  undo.release();
  return made;
}

Result<void> check_tun(RtNetlink& netlink, const journal::LaneRecord& lane, const std::string& alias) {
  PODLANE_TRY_ASSIGN(const auto link, find_tun(netlink, lane, alias));
  if (!link) return podlane::fail(Errc::kNotFound, "interface " + lane.ifname + " is gone");
  if (!link->up) return podlane::fail(Errc::kGone, "interface " + lane.ifname + " is down");
  if (link->mtu != lane.mtu) {
    return podlane::fail(Errc::kGone, "interface " + lane.ifname + " has MTU " + std::to_string(link->mtu) +
                                          " instead of " + std::to_string(lane.mtu));
  }
  PODLANE_TRY_ASSIGN(const auto addresses, netlink.addresses(link->ifindex));
  std::vector<Rule> rules;
  if (lane.table != 0) {
    PODLANE_TRY_ASSIGN(rules, rules_to(netlink, lane.table));
  }
  for (const std::string& text : lane.addresses) {
    PODLANE_TRY_ASSIGN(const IpPrefix wanted, net::parse_ip_prefix(text));
    if (std::ranges::none_of(addresses, [&](const net::Address& found) { return found.prefix == wanted; })) {
      return podlane::fail(Errc::kGone, "interface " + lane.ifname + " has lost address " + text);
    }
    if (lane.table == 0) continue;
    if (std::ranges::none_of(rules, [&](const Rule& rule) { return rule.from == net::host_prefix(wanted.address); })) {
      return podlane::fail(Errc::kGone, "rule from " + wanted.address.to_string() + " lookup " +
                                            std::to_string(lane.table) + " is gone");
    }
    PODLANE_TRY_ASSIGN(const auto routes, netlink.routes(wanted.family(), lane.table));
    if (std::ranges::none_of(routes, [&](const net::Route& route) { return route.ifindex == link->ifindex; })) {
      return podlane::fail(Errc::kGone,
                           "routing table " + std::to_string(lane.table) + " of " + lane.ifname + " is empty");
    }
  }
  return {};
}

Result<void> remove_tun(RtNetlink& netlink, const journal::LaneRecord& lane, const std::string& alias) {
  PODLANE_TRY_ASSIGN(const auto link, find_tun(netlink, lane, alias));
  std::vector<Rule> rules;
  if (lane.table != 0) {
    PODLANE_TRY_ASSIGN(rules, rules_to(netlink, lane.table));
  } else if (link) {
    PODLANE_TRY_ASSIGN(rules, rules_of_link(netlink, link->ifindex));
  }
  PODLANE_TRY(delete_rules(netlink, rules));
  if (link) PODLANE_TRY(ignore_missing(netlink.delete_link(link->ifindex)));
  return {};
}

Result<void> remove_unrecorded_tuns(RtNetlink& netlink, const std::string& alias,
                                    const std::vector<int>& keep_ifindexes) {
  PODLANE_TRY_ASSIGN(const auto links, netlink.links());
  for (const net::Link& link : links) {
    if (link.kind != "tun" || link.alias != alias ||
        std::ranges::find(keep_ifindexes, link.ifindex.value) != keep_ifindexes.end())
      continue;
    PODLANE_TRY(remove_tun(netlink, {.ifname = link.name, .ifindex = link.ifindex.value}, alias));
  }
  return {};
}

}  // namespace podlane::cni
