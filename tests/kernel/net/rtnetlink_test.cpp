// RtNetlink against the kernel, each test in scratch namespaces.
#include "lib/net/rtnetlink.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/net/ethtool.hpp"
#include "lib/net/sysctl.hpp"
#include "lib/net/tun.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::net {
namespace {

using test::ScratchNetns;

RtNetlink open_in(const ScratchNetns& netns) {
  auto netlink = RtNetlink::open_in(netns.fd());
  EXPECT_TRUE(netlink) << netlink.error().message();
  return std::move(*netlink);
}

IpPrefix prefix(std::string_view text) {
  auto parsed = parse_ip_prefix(text);
  EXPECT_TRUE(parsed) << text;
  return *parsed;
}

#define EXPECT_OK(call)                                    \
  do {                                                     \
    const auto expect_ok = (call);                         \
    EXPECT_TRUE(expect_ok) << expect_ok.error().message(); \
  } while (false)

TEST(RtNetlink, MakesAVethPairAcrossNamespacesAndReadsItBack) {
  ScratchNetns near, far;
  RtNetlink netlink = open_in(near);
  EXPECT_OK(netlink.create_veth({.name = "host0",
                                 .peer_name = "pod0",
                                 .peer_netns_fd = far.fd(),
                                 .mtu = 1400,
                                 .mac = "02:00:00:00:00:01",
                                 .peer_mac = "02:00:00:00:00:02"}));
  const auto host = netlink.link_by_name("host0");
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ(host->kind, "veth");
  EXPECT_EQ(host->mtu, 1400U);
  EXPECT_EQ(host->mac, "02:00:00:00:00:01");
  EXPECT_EQ(host->rx_queues, 1U);
  EXPECT_EQ(host->tx_queues, 1U);
  EXPECT_FALSE(host->up);
  EXPECT_TRUE(host->peer_netnsid.has_value());
  near.inside([] {
    EXPECT_EQ(driver_name("host0").value_or("none"), "veth");
    EXPECT_FALSE(driver_name("host1"));
  });

  RtNetlink inside = open_in(far);
  const auto pod = inside.link_by_name("pod0");
  ASSERT_TRUE(pod) << pod.error().message();
  EXPECT_EQ(pod->mac, "02:00:00:00:00:02");
  EXPECT_EQ(pod->ifindex, host->peer);
  EXPECT_EQ(pod->mtu, 1400U);

  EXPECT_OK(inside.set_link(pod->ifindex, {.up = true}));
  EXPECT_OK(netlink.set_link(host->ifindex, {.up = true, .no_address_generation = true}));
  EXPECT_TRUE(test::eventually(std::chrono::seconds(2), [&] {
    const auto link = netlink.link_by_index(host->ifindex);
    return link && link->carrier && link->operstate == "up";
  }));
  EXPECT_OK(netlink.delete_link(host->ifindex));
  EXPECT_FALSE(inside.link_by_name("pod0"));
}

TEST(RtNetlink, ChangesALinkInOneMessage) {
  ScratchNetns netns, other;
  netns.inside([] { ASSERT_TRUE(tun_create({.name = "lane0"})); });
  RtNetlink netlink = open_in(netns);
  const auto made = netlink.link_by_name("lane0");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->kind, "tun");
  EXPECT_EQ(made->mac, "");
  EXPECT_EQ(made->tun_owner, kNobodyRunsAs);
  EXPECT_OK(netlink.set_link(
      made->ifindex,
      {.up = true, .mtu = 1300, .tx_queue_len = 77, .alias = "podlane:abc", .no_address_generation = true}));
  const auto changed = netlink.link_by_index(made->ifindex);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->up);
  EXPECT_EQ(changed->mtu, 1300U);
  EXPECT_EQ(changed->tx_queue_len, 77U);
  EXPECT_EQ(changed->alias, "podlane:abc");
  EXPECT_TRUE(changed->no_address_generation);

  EXPECT_OK(netlink.set_link(made->ifindex, {.up = false}));
  EXPECT_OK(netlink.set_link(made->ifindex, {.name = "renamed0", .netns_fd = other.fd()}));
  EXPECT_FALSE(netlink.link_by_name("lane0"));
  const auto moved = open_in(other).link_by_name("renamed0");
  ASSERT_TRUE(moved) << moved.error().message();
  EXPECT_EQ(moved->alias, "podlane:abc");
}

TEST(RtNetlink, AddressesRulesAndRoutesOfBothFamilies) {
  struct Row {
    const char* name;
    const char* address;
    const char* destination;
    const char* fallback;
    Family family;
  };
  const std::vector<Row> rows{
      {"IPv4", "10.9.0.5/24", "10.9.0.0/24", "0.0.0.0/0", Family::kIpv4},
      {"IPv6", "fd00:9::5/64", "fd00:9::/64", "::/0", Family::kIpv6},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ScratchNetns netns;
    netns.inside([] { ASSERT_TRUE(tun_create({.name = "lane0"})); });
    RtNetlink netlink = open_in(netns);
    const auto link = netlink.link_by_name("lane0");
    ASSERT_TRUE(link);
    const Address address{.ifindex = link->ifindex, .prefix = prefix(row.address)};
    const Rule rule{.from = host_prefix(address.prefix.address), .table = 20017};
    const Route subnet{
        .destination = prefix(row.destination), .ifindex = link->ifindex, .table = 20017, .link_scope = true};
    const Route fallback{.destination = prefix(row.fallback), .ifindex = link->ifindex, .table = 20017, .metric = 5};
    EXPECT_OK(netlink.run({set_link_request(link->ifindex, {.up = true, .no_address_generation = true}),
                           add_address_request(address), add_route_request(subnet), add_route_request(fallback),
                           add_rule_request(rule)}));
    const auto addresses = netlink.addresses(link->ifindex);
    ASSERT_TRUE(addresses) << addresses.error().message();
    ASSERT_EQ(addresses->size(), 1U);
    EXPECT_EQ((*addresses)[0].prefix.to_string(), row.address);
    EXPECT_TRUE((*addresses)[0].no_prefix_route);

    const auto rules = netlink.rules(row.family);
    ASSERT_TRUE(rules) << rules.error().message();
    EXPECT_EQ(std::ranges::count_if(*rules, [&](const Rule& r) { return r.table == 20017 && r.from == rule.from; }), 1);

    const auto routes = netlink.routes(row.family, 20017);
    ASSERT_TRUE(routes) << routes.error().message();
    EXPECT_EQ(routes->size(), 2U);
    EXPECT_TRUE(netlink.routes(row.family, 20018)->empty());
    const auto main_table = netlink.routes(row.family, 254);
    ASSERT_TRUE(main_table) << main_table.error().message();
    EXPECT_TRUE(std::ranges::none_of(*main_table, [&](const Route& r) { return r.ifindex == link->ifindex; }));

    EXPECT_OK(netlink.delete_rule(rule));
    EXPECT_OK(netlink.delete_address(address));
    const auto again = netlink.delete_rule(rule);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Errc::kNotFound);
  }
}

TEST(RtNetlink, ErrorsSayWhatAndWhyInTheKernelsWords) {
  ScratchNetns netns;
  RtNetlink netlink = open_in(netns);
  const auto missing = netlink.link_by_name("nosuch0");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::kNotFound);
  EXPECT_NE(missing.error().message().find("nosuch0"), std::string::npos) << missing.error().message();

  EXPECT_OK(netlink.create_veth({.name = "a0", .peer_name = "b0"}));
  const auto bad_mtu = netlink.set_link(netlink.link_by_name("a0")->ifindex, {.mtu = 70000});
  ASSERT_FALSE(bad_mtu);
  EXPECT_NE(bad_mtu.error().message().find("mtu greater than device maximum"), std::string::npos)
      << bad_mtu.error().message();

  const auto twice = netlink.create_veth({.name = "a0", .peer_name = "b0"});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), Errc::kExists);
}

TEST(RtNetlink, ABatchReportsItsFirstFailureAndNamesIt) {
  ScratchNetns netns;
  RtNetlink netlink = open_in(netns);
  const Address nowhere{.ifindex = IfIndex(9999), .prefix = prefix("10.0.0.1/24")};
  const auto result = netlink.run({add_address_request(nowhere), delete_link_request(IfIndex(9998))});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("add address 10.0.0.1/24"), std::string::npos) << result.error().message();
  EXPECT_TRUE(netlink.link_by_name("lo"));  // The socket is in step again.
}

TEST(RtNetlink, ListsMoreLinksThanOneDatagramHolds) {
  ScratchNetns netns;
  RtNetlink netlink = open_in(netns);
  std::vector<NetlinkRequest> batch;
  for (int i = 0; i < 60; ++i) {
    batch.push_back(create_veth_request({.name = "a" + std::to_string(i), .peer_name = "b" + std::to_string(i)}));
  }
  EXPECT_OK(netlink.run(batch));
  const auto links = netlink.links();
  ASSERT_TRUE(links) << links.error().message();
  EXPECT_EQ(std::ranges::count_if(*links, [](const Link& link) { return link.kind == "veth"; }), 120);
}

TEST(Sysctl, WritesAndReadsPerInterface) {
  ScratchNetns netns;
  netns.inside([] {
    ASSERT_TRUE(tun_create({.name = "lane.0"}));  // A dot in the name must not split the path.
    EXPECT_OK(set_interface_sysctl("ipv4", "lane.0", "ignore_routes_with_linkdown", "1"));
    EXPECT_EQ(get_interface_sysctl("ipv4", "lane.0", "ignore_routes_with_linkdown").value_or("?"), "1");
    EXPECT_EQ(get_interface_sysctl("ipv4", "nosuch0", "forwarding").error().code(), Errc::kNotFound);
  });
}

}  // namespace
}  // namespace podlane::net
