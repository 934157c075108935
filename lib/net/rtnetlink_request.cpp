// The messages that rtnetlink.hpp sends, built with libnl's attribute functions.
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include <cstdio>
#include <memory>

#include "lib/base/assert.hpp"
#include "lib/net/rtnetlink.hpp"

namespace podlane::net {

namespace {

int af_of(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}

// One message under construction. The buffer holds every message we build; a put that fails is our own mistake.
class Builder {
 public:
  template <typename Header>
  Builder(std::uint16_t type, std::uint16_t flags, const Header& header)
      : message_(nlmsg_alloc_size(4096), nlmsg_free) {
    PODLANE_ASSERT(message_ != nullptr);
    PODLANE_ASSERT(nlmsg_put(message_.get(), 0, 0, type, 0, NLM_F_REQUEST | NLM_F_ACK | flags) != nullptr);
    append(header);
  }

  template <typename Header>
  void append(const Header& header) {
    Header copy = header;
    PODLANE_ASSERT(nlmsg_append(message_.get(), &copy, sizeof(copy), NLMSG_ALIGNTO) == 0);
  }
  void bytes(int type, const void* data, std::size_t size) {
    PODLANE_ASSERT(nla_put(message_.get(), type, static_cast<int>(size), data) == 0);
  }
  void u32(int type, std::uint32_t value) { bytes(type, &value, sizeof(value)); }
  void u8(int type, std::uint8_t value) { bytes(type, &value, sizeof(value)); }
  void text(int type, const std::string& value) { bytes(type, value.c_str(), value.size() + 1); }
  void ip(int type, const IpAddress& address) { bytes(type, address.bytes.data(), address.size()); }

  nlattr* begin(int type) {
    nlattr* nest = nla_nest_start(message_.get(), type);
    PODLANE_ASSERT(nest != nullptr);
    return nest;
  }
  void end(nlattr* nest) { nla_nest_end(message_.get(), nest); }

  NetlinkRequest finish(std::string what) const {
    const nlmsghdr* header = nlmsg_hdr(message_.get());
    return NetlinkRequest(std::string(reinterpret_cast<const char*>(header), header->nlmsg_len), std::move(what));
  }

 private:
  std::unique_ptr<nl_msg, void (*)(nl_msg*)> message_;
};

// Text that is not a MAC address becomes six zero bytes, which the kernel refuses in words.
std::array<std::uint8_t, 6> mac_bytes(const std::string& text) {
  std::array<unsigned, 6> parts{};
  std::array<std::uint8_t, 6> bytes{};
  // NOLINTNEXTLINE(cert-err34-c): two hex digits cannot be out of range.
  if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x", parts.data(), &parts[1], &parts[2], &parts[3], &parts[4],
                  &parts[5]) != 6) {
    return bytes;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(parts[i]);
  return bytes;
}

void put_mac(Builder& builder, const std::optional<std::string>& mac) {
  if (!mac) return;
  const auto bytes = mac_bytes(*mac);
  builder.bytes(IFLA_ADDRESS, bytes.data(), bytes.size());
}

// NLA_F_NESTED stays away from IFLA_AF_SPEC and below, as in iproute2: old kernels refuse it there.
void put_no_address_generation(Builder& builder) {
  nlattr* families = builder.begin(IFLA_AF_SPEC);
  nlattr* inet6 = builder.begin(AF_INET6);
  builder.u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
  builder.end(inet6);
  builder.end(families);
}

void put_veth_end(Builder& builder, const std::string& name, const VethOptions& options,
                  const std::optional<std::string>& mac) {
  builder.text(IFLA_IFNAME, name);
  builder.u32(IFLA_MTU, options.mtu);
  builder.u32(IFLA_NUM_TX_QUEUES, options.queues);
  builder.u32(IFLA_NUM_RX_QUEUES, options.queues);
  put_mac(builder, mac);
}

NetlinkRequest address_request(std::uint16_t type, std::uint16_t flags, const Address& address, std::string_view verb) {
  ifaddrmsg header{};
  header.ifa_family = static_cast<std::uint8_t>(af_of(address.prefix.family()));
  header.ifa_prefixlen = static_cast<std::uint8_t>(address.prefix.length);
  header.ifa_index = static_cast<std::uint32_t>(address.ifindex.value);
  header.ifa_scope = RT_SCOPE_UNIVERSE;
  Builder builder(type, flags, header);
  builder.ip(IFA_LOCAL, address.prefix.address);
  builder.ip(IFA_ADDRESS, address.prefix.address);
  if (type == RTM_NEWADDR) {
    std::uint32_t bits = address.no_prefix_route ? IFA_F_NOPREFIXROUTE : 0;
    // Nobody shares a lane's link, so duplicate address detection would only delay the address.
    if (address.prefix.family() == Family::kIpv6) bits |= IFA_F_NODAD;
    builder.u32(IFA_FLAGS, bits);
  }
  return builder.finish(std::string(verb) + " address " + address.prefix.to_string());
}

NetlinkRequest route_request(std::uint16_t type, std::uint16_t flags, const Route& route, std::string_view verb) {
  rtmsg header{};
  header.rtm_family = static_cast<std::uint8_t>(af_of(route.destination.family()));
  header.rtm_dst_len = static_cast<std::uint8_t>(route.destination.length);
  header.rtm_table = static_cast<std::uint8_t>(route.table < 256 ? route.table : RT_TABLE_UNSPEC);
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = route.link_scope ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  if (route.on_link) header.rtm_flags |= RTNH_F_ONLINK;
  Builder builder(type, flags, header);
  if (route.destination.length > 0) builder.ip(RTA_DST, route.destination.network().address);
  if (route.gateway) builder.ip(RTA_GATEWAY, *route.gateway);
  if (route.source) builder.ip(RTA_PREFSRC, *route.source);
  if (route.ifindex.value != 0) builder.u32(RTA_OIF, static_cast<std::uint32_t>(route.ifindex.value));
  if (route.metric != 0) builder.u32(RTA_PRIORITY, route.metric);
  builder.u32(RTA_TABLE, route.table);
  return builder.finish(std::string(verb) + " route " + route.destination.to_string() + " in table " +
                        std::to_string(route.table));
}

NetlinkRequest rule_request(std::uint16_t type, std::uint16_t flags, const Rule& rule, std::string_view verb) {
  fib_rule_hdr header{};
  header.family = static_cast<std::uint8_t>(af_of(rule.from.family()));
  header.src_len = static_cast<std::uint8_t>(rule.from.length);
  header.table = static_cast<std::uint8_t>(rule.table < 256 ? rule.table : RT_TABLE_UNSPEC);
  header.action = FR_ACT_TO_TBL;
  Builder builder(type, flags, header);
  if (rule.from.length > 0) builder.ip(FRA_SRC, rule.from.network().address);
  builder.u32(FRA_TABLE, rule.table);
  if (rule.priority != 0) builder.u32(FRA_PRIORITY, rule.priority);
  if (type == RTM_NEWRULE) builder.u8(FRA_PROTOCOL, RTPROT_STATIC);
  return builder.finish(std::string(verb) + " rule from " + rule.from.to_string() + " lookup " +
                        std::to_string(rule.table));
}

}  // namespace

NetlinkRequest set_link_request(IfIndex ifindex, const LinkChange& change) {
  ifinfomsg header{};
  header.ifi_index = ifindex.value;
  if (change.up) {
    header.ifi_change = IFF_UP;
    header.ifi_flags = *change.up ? static_cast<unsigned>(IFF_UP) : 0U;
  }
  Builder builder(RTM_NEWLINK, 0, header);
  if (change.mtu) builder.u32(IFLA_MTU, *change.mtu);
  if (change.tx_queue_len) builder.u32(IFLA_TXQLEN, *change.tx_queue_len);
  if (change.name) builder.text(IFLA_IFNAME, *change.name);
  // Without the terminating zero: the kernel stores the bytes as they come (net/core/dev.c, dev_set_alias).
  if (change.alias) builder.bytes(IFLA_IFALIAS, change.alias->data(), change.alias->size());
  put_mac(builder, change.mac);
  if (change.no_address_generation) put_no_address_generation(builder);
  if (change.netns_fd) builder.u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(*change.netns_fd));
  return builder.finish("set link " + std::to_string(ifindex.value));
}

NetlinkRequest delete_link_request(IfIndex ifindex) {
  ifinfomsg header{};
  header.ifi_index = ifindex.value;
  return Builder(RTM_DELLINK, 0, header).finish("delete link " + std::to_string(ifindex.value));
}

NetlinkRequest create_veth_request(const VethOptions& options) {
  ifinfomsg header{}, peer_header{};
  header.ifi_index = options.ifindex.value;
  peer_header.ifi_index = options.peer_ifindex.value;
  Builder builder(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, header);
  put_veth_end(builder, options.name, options, options.mac);
  nlattr* info = builder.begin(IFLA_LINKINFO);
  builder.text(IFLA_INFO_KIND, "veth");
  nlattr* data = builder.begin(IFLA_INFO_DATA);
  nlattr* peer = builder.begin(VETH_INFO_PEER);
  builder.append(peer_header);
  put_veth_end(builder, options.peer_name, options, options.peer_mac);
  if (options.peer_netns_fd) builder.u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(*options.peer_netns_fd));
  builder.end(peer);
  builder.end(data);
  builder.end(info);
  return builder.finish("create veth " + options.name + " with peer " + options.peer_name);
}

NetlinkRequest add_address_request(const Address& address) {
  return address_request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address, "add");
}
NetlinkRequest delete_address_request(const Address& address) {
  return address_request(RTM_DELADDR, 0, address, "delete");
}
NetlinkRequest add_route_request(const Route& route) {
  return route_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route, "add");
}
NetlinkRequest delete_route_request(const Route& route) {
  return route_request(RTM_DELROUTE, 0, route, "delete");
}
NetlinkRequest add_rule_request(const Rule& rule) {
  return rule_request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule, "add");
}
NetlinkRequest delete_rule_request(const Rule& rule) {
  return rule_request(RTM_DELRULE, 0, rule, "delete");
}

}  // namespace podlane::net
