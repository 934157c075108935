// The socket: sending, acknowledgements, dumps and the parsing of what the kernel tells.
#include "lib/net/rtnetlink.hpp"

#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>

#include "lib/net/netns.hpp"

namespace podlane::net {

namespace {

constexpr std::size_t kReceiveBytes = 32768;  // iproute2's size: the kernel fills dump datagrams up to 32 KiB.
constexpr timeval kAnswerTimeout{.tv_sec = 5, .tv_usec = 0};

template <std::size_t N>
class Attributes {
 public:
  static Result<Attributes> parse(const void* first, int length, std::string_view what) {
    Attributes attributes;
    auto* head = static_cast<nlattr*>(const_cast<void*>(first));
    if (nla_parse(attributes.table_.data(), static_cast<int>(N) - 1, head, length, nullptr) != 0) {
      return fail(Errc::kProtocol, "netlink: malformed " + std::string(what));
    }
    return attributes;
  }
  bool has(int type, int min_bytes = 0) const { return at(type) != nullptr && nla_len(at(type)) >= min_bytes; }
  std::uint32_t u32(int type) const { return has(type, 4) ? nla_get_u32(at(type)) : 0; }
  std::uint8_t u8(int type) const { return has(type, 1) ? nla_get_u8(at(type)) : 0; }
  std::string text(int type) const {
    if (!has(type)) return {};
    const char* data = static_cast<const char*>(nla_data(at(type)));
    return std::string(data, ::strnlen(data, static_cast<std::size_t>(nla_len(at(type)))));
  }
  std::optional<IpAddress> ip(int type, Family family) const {
    IpAddress address{.family = family, .bytes = {}};
    if (!has(type, static_cast<int>(address.size()))) return {};
    std::memcpy(address.bytes.data(), nla_data(at(type)), address.size());
    return address;
  }
  template <std::size_t M>
  Result<Attributes<M>> nested(int type, std::string_view what) const {
    if (!has(type)) return Attributes<M>{};
    return Attributes<M>::parse(nla_data(at(type)), nla_len(at(type)), what);
  }
  nlattr* at(int type) const { return table_[static_cast<std::size_t>(type)]; }

 private:
  std::array<nlattr*, N> table_{};
};

template <std::size_t N, typename Header>
Result<Attributes<N>> attributes_of(const nlmsghdr* message, std::string_view what) {
  const int length = static_cast<int>(message->nlmsg_len) - static_cast<int>(NLMSG_SPACE(sizeof(Header)));
  const char* first = reinterpret_cast<const char*>(message) + NLMSG_SPACE(sizeof(Header));
  return Attributes<N>::parse(first, length < 0 ? 0 : length, what);
}

// The text of an extended acknowledgement (NLMSGERR_ATTR_MSG), which follows the original header.
std::string extended_text(const nlmsghdr* message) {
  if ((message->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return {};
  const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(message));
  std::size_t skip = sizeof(nlmsgerr);
  if ((message->nlmsg_flags & NLM_F_CAPPED) == 0) skip += NLMSG_ALIGN(error->msg.nlmsg_len) - sizeof(nlmsghdr);
  if (NLMSG_HDRLEN + skip > message->nlmsg_len) return {};
  auto attributes = Attributes<NLMSGERR_ATTR_MAX + 1>::parse(reinterpret_cast<const char*>(error) + skip,
                                                             static_cast<int>(message->nlmsg_len - NLMSG_HDRLEN - skip),
                                                             "acknowledgement");
  return attributes ? attributes->text(NLMSGERR_ATTR_MSG) : std::string();
}

// Empty for a plain acknowledgement.
std::optional<Error> error_of(const nlmsghdr* message, std::string_view what) {
  if (message->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) {
    return Error(Errc::kProtocol, "netlink: acknowledgement cut short");
  }
  const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(message));
  if (error->error == 0) return {};
  return Error::from_errno(-error->error, what, extended_text(message));
}

std::string operstate_name(std::uint8_t state) {
  static constexpr std::array<std::string_view, 7> kNames{"unknown", "notpresent", "down", "lowerlayerdown",
                                                          "testing", "dormant",    "up"};
  return std::string(state < kNames.size() ? kNames[state] : "unknown");
}

std::string mac_text(const nlattr* attribute) {
  if (attribute == nullptr || nla_len(attribute) != 6) return {};
  static constexpr char kHex[] = "0123456789abcdef";
  const auto* bytes = static_cast<const std::uint8_t*>(nla_data(attribute));
  std::string text;
  for (int i = 0; i < 6; ++i) {
    if (i > 0) text.push_back(':');
    text.push_back(kHex[bytes[i] >> 4]);
    text.push_back(kHex[bytes[i] & 15]);
  }
  return text;
}

Result<bool> has_no_address_generation(const Attributes<IFLA_MAX + 1>& attributes) {
  PODLANE_TRY_ASSIGN(const auto families, attributes.nested<AF_MAX>(IFLA_AF_SPEC, "address families"));
  PODLANE_TRY_ASSIGN(const auto inet6, families.nested<IFLA_INET6_MAX + 1>(AF_INET6, "IPv6 settings"));
  return inet6.has(IFLA_INET6_ADDR_GEN_MODE, 1) && inet6.u8(IFLA_INET6_ADDR_GEN_MODE) == IN6_ADDR_GEN_MODE_NONE;
}

Result<Link> parse_link(const nlmsghdr* message) {
  const auto* header = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  PODLANE_TRY_ASSIGN(const auto attributes, (attributes_of<IFLA_MAX + 1, ifinfomsg>(message, "link")));
  Link link;
  link.ifindex = IfIndex(header->ifi_index);
  link.up = (header->ifi_flags & IFF_UP) != 0;
  link.carrier = (header->ifi_flags & IFF_LOWER_UP) != 0;
  link.name = attributes.text(IFLA_IFNAME);
  link.alias = attributes.text(IFLA_IFALIAS);
  link.mac = mac_text(attributes.at(IFLA_ADDRESS));
  link.mtu = attributes.u32(IFLA_MTU);
  link.tx_queue_len = attributes.u32(IFLA_TXQLEN);
  link.rx_queues = attributes.u32(IFLA_NUM_RX_QUEUES);
  link.tx_queues = attributes.u32(IFLA_NUM_TX_QUEUES);
  link.operstate = operstate_name(attributes.u8(IFLA_OPERSTATE));
  link.peer = IfIndex(static_cast<int>(attributes.u32(IFLA_LINK)));
  if (attributes.has(IFLA_LINK_NETNSID, 4)) {
    link.peer_netnsid = static_cast<std::int32_t>(attributes.u32(IFLA_LINK_NETNSID));
  }
  PODLANE_TRY_ASSIGN(const auto info, attributes.nested<IFLA_INFO_MAX + 1>(IFLA_LINKINFO, "link info"));
  link.kind = info.text(IFLA_INFO_KIND);
  if (link.kind == "tun") {
    PODLANE_TRY_ASSIGN(const auto tun, info.nested<IFLA_TUN_MAX + 1>(IFLA_INFO_DATA, "TUN info"));
    if (tun.has(IFLA_TUN_OWNER, 4)) link.tun_owner = tun.u32(IFLA_TUN_OWNER);
  }
  PODLANE_TRY_ASSIGN(const auto xdp, attributes.nested<IFLA_XDP_MAX + 1>(IFLA_XDP, "XDP info"));
  link.xdp_prog_id = xdp.u32(IFLA_XDP_PROG_ID);
  link.xdp_attached = xdp.u8(IFLA_XDP_ATTACHED);
  PODLANE_TRY_ASSIGN(link.no_address_generation, has_no_address_generation(attributes));
  return link;
}

std::string message_bytes(std::uint16_t type, std::uint16_t flags, const void* body, std::size_t size) {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(size));
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  std::string bytes(NLMSG_SPACE(size), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + NLMSG_HDRLEN, body, size);
  return bytes;
}

void append_attribute(std::string& bytes, std::uint16_t type, const void* data, std::size_t size) {
  const nlattr header{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + size), .nla_type = type};
  const std::size_t at = bytes.size();
  bytes.resize(at + NLA_HDRLEN + NLA_ALIGN(size));
  std::memcpy(bytes.data() + at, &header, sizeof(header));
  std::memcpy(bytes.data() + at + NLA_HDRLEN, data, size);
  auto* message = reinterpret_cast<nlmsghdr*>(bytes.data());
  message->nlmsg_len = static_cast<std::uint32_t>(bytes.size());
}

int af_of(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}

}  // namespace

// A request whose answer is one or more objects: a dump, or a get that is acknowledged.
class NetlinkDump {
 public:
  static Result<void> run(RtNetlink& netlink, std::string request, std::string_view what,
                          const std::function<Result<void>(const nlmsghdr*)>& each) {
    auto* header = reinterpret_cast<nlmsghdr*>(request.data());
    header->nlmsg_seq = ++netlink.sequence_;
    PODLANE_TRY(netlink.send(request));
    Result<void> outcome;
    bool interrupted = false;
    for (;;) {
      PODLANE_TRY_ASSIGN(const std::string_view datagram, netlink.receive());
      int left = static_cast<int>(datagram.size());
      for (const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data()); NLMSG_OK(message, left);
           message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_seq != netlink.sequence_) continue;  // Of an earlier request that timed out.
        interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
        if (message->nlmsg_type == NLMSG_DONE) {
          if (outcome && interrupted) return fail(Errc::kBusy, std::string(what) + ": changed while it was read");
          return outcome;
        }
        if (message->nlmsg_type == NLMSG_ERROR) {
          if (auto error = error_of(message, what)) return std::unexpected(std::move(*error));
          return outcome;
        }
        if (outcome) outcome = each(message);
      }
    }
  }

  // A dump that was interrupted by a change is not complete: it is read again.
  static Result<void> run_again(RtNetlink& netlink, const std::string& request, std::string_view what,
                                const std::function<void()>& reset,
                                const std::function<Result<void>(const nlmsghdr*)>& each) {
    for (int attempts_left = 10;; --attempts_left) {
      reset();
      auto result = run(netlink, request, what, each);
      if (result || result.error().code() != Errc::kBusy || attempts_left <= 1) return result;
    }
  }
};

Result<RtNetlink> RtNetlink::open() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd.valid()) return fail_errno("socket", "NETLINK_ROUTE");
  const int on = 1;
  // The options exist since Linux 4.12 and 4.20; without them only words or speed are lost.
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTimeout, sizeof(kAnswerTimeout));
  return RtNetlink(std::move(fd));
}

Result<RtNetlink> RtNetlink::open_in(int netns_fd) {
  std::optional<RtNetlink> made;
  PODLANE_TRY(run_in_netns(netns_fd, [&]() -> Result<void> {
    PODLANE_TRY_ASSIGN(made, open());
    return {};
  }));
  return std::move(*made);
}

Result<void> RtNetlink::send(std::string_view bytes) {
  const sockaddr_nl kernel{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  for (;;) {
    if (::sendto(socket_.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
                 sizeof(kernel)) >= 0) {
      return {};
    }
    if (errno != EINTR) return fail_errno("netlink send");
  }
}

Result<std::string_view> RtNetlink::receive() {
  buffer_.resize(kReceiveBytes);
  for (;;) {
    // MSG_TRUNC returns the whole length, so that a longer datagram is noticed instead of parsed in part.
    const ssize_t n = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("netlink receive");
    if (static_cast<std::size_t>(n) > buffer_.size()) {
      return fail(Errc::kProtocol, "netlink: datagram of " + std::to_string(n) + " bytes");
    }
    return std::string_view(buffer_.data(), static_cast<std::size_t>(n));
  }
}

Result<void> RtNetlink::run(const NetlinkRequest& request) {
  return run(std::vector<NetlinkRequest>{request});
}

Result<void> RtNetlink::run(const std::vector<NetlinkRequest>& batch) {
  if (batch.empty()) return {};
  std::string bytes;
  const std::uint32_t first = sequence_ + 1;
  for (const NetlinkRequest& request : batch) {
    const std::size_t at = bytes.size();
    bytes.append(request.bytes());
    bytes.resize(NLMSG_ALIGN(bytes.size()));
    reinterpret_cast<nlmsghdr*>(bytes.data() + at)->nlmsg_seq = ++sequence_;
  }
  PODLANE_TRY(send(bytes));
  std::optional<Error> failure;
  for (std::size_t acknowledged = 0; acknowledged < batch.size();) {
    PODLANE_TRY_ASSIGN(const std::string_view datagram, receive());
    int left = static_cast<int>(datagram.size());
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      const std::uint32_t index = message->nlmsg_seq - first;
      if (message->nlmsg_type != NLMSG_ERROR || index >= batch.size()) continue;
      ++acknowledged;
      auto error = error_of(message, batch[index].what());
      if (error && !failure) failure = std::move(error);
    }
  }
  if (failure) return std::unexpected(std::move(*failure));
  return {};
}

Result<Link> RtNetlink::link_by_name(const std::string& name) {
  const ifinfomsg header{};
  std::string request = message_bytes(RTM_GETLINK, NLM_F_ACK, &header, sizeof(header));
  append_attribute(request, IFLA_IFNAME, name.c_str(), name.size() + 1);
  const std::uint32_t mask = RTEXT_FILTER_SKIP_STATS;
  append_attribute(request, IFLA_EXT_MASK, &mask, sizeof(mask));
  Link link;
  PODLANE_TRY(NetlinkDump::run(*this, request, "interface " + name, [&](const nlmsghdr* message) -> Result<void> {
    PODLANE_TRY_ASSIGN(link, parse_link(message));
    return {};
  }));
  return link;
}

Result<Link> RtNetlink::link_by_index(IfIndex ifindex) {
  ifinfomsg header{};
  header.ifi_index = ifindex.value;
  std::string request = message_bytes(RTM_GETLINK, NLM_F_ACK, &header, sizeof(header));
  const std::uint32_t mask = RTEXT_FILTER_SKIP_STATS;
  append_attribute(request, IFLA_EXT_MASK, &mask, sizeof(mask));
  Link link;
  PODLANE_TRY(NetlinkDump::run(*this, request, "interface with index " + std::to_string(ifindex.value),
                               [&](const nlmsghdr* message) -> Result<void> {
                                 PODLANE_TRY_ASSIGN(link, parse_link(message));
                                 return {};
                               }));
  return link;
}

Result<std::vector<Link>> RtNetlink::links() {
  const ifinfomsg header{};
  std::string request = message_bytes(RTM_GETLINK, NLM_F_DUMP, &header, sizeof(header));
  const std::uint32_t mask = RTEXT_FILTER_SKIP_STATS;
  append_attribute(request, IFLA_EXT_MASK, &mask, sizeof(mask));
  std::vector<Link> links;
  PODLANE_TRY(NetlinkDump::run_again(
      *this, request, "list links", [&] { links.clear(); },
      [&](const nlmsghdr* message) -> Result<void> {
        PODLANE_TRY_ASSIGN(Link link, parse_link(message));
        links.push_back(std::move(link));
        return {};
      }));
  return links;
}

Result<std::vector<Address>> RtNetlink::addresses(IfIndex ifindex) {
  ifaddrmsg header{};
  header.ifa_index = static_cast<std::uint32_t>(ifindex.value);
  const std::string request = message_bytes(RTM_GETADDR, NLM_F_DUMP, &header, sizeof(header));
  std::vector<Address> addresses;
  PODLANE_TRY(NetlinkDump::run_again(
      *this, request, "list addresses", [&] { addresses.clear(); },
      [&](const nlmsghdr* message) -> Result<void> {
        const auto* found = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
        if (found->ifa_family != AF_INET && found->ifa_family != AF_INET6) return {};
        if (ifindex.value != 0 && static_cast<int>(found->ifa_index) != ifindex.value) return {};
        const Family family = found->ifa_family == AF_INET ? Family::kIpv4 : Family::kIpv6;
        PODLANE_TRY_ASSIGN(const auto attributes, (attributes_of<IFA_MAX + 1, ifaddrmsg>(message, "address")));
        auto ip = attributes.ip(IFA_LOCAL, family);
        if (!ip) ip = attributes.ip(IFA_ADDRESS, family);
        if (!ip) return {};
        addresses.push_back({.ifindex = IfIndex(static_cast<int>(found->ifa_index)),
                             .prefix = {*ip, found->ifa_prefixlen},
                             .no_prefix_route = (attributes.u32(IFA_FLAGS) & IFA_F_NOPREFIXROUTE) != 0});
        return {};
      }));
  return addresses;
}

Result<std::vector<Rule>> RtNetlink::rules(Family family) {
  fib_rule_hdr header{};
  header.family = static_cast<std::uint8_t>(af_of(family));
  const std::string request = message_bytes(RTM_GETRULE, NLM_F_DUMP, &header, sizeof(header));
  std::vector<Rule> rules;
  PODLANE_TRY(NetlinkDump::run_again(
      *this, request, "list rules", [&] { rules.clear(); },
      [&](const nlmsghdr* message) -> Result<void> {
        const auto* found = static_cast<const fib_rule_hdr*>(NLMSG_DATA(message));
        PODLANE_TRY_ASSIGN(const auto attributes, (attributes_of<FRA_MAX + 1, fib_rule_hdr>(message, "rule")));
        if (found->action != FR_ACT_TO_TBL) return {};
        Rule rule;
        rule.from = {attributes.ip(FRA_SRC, family).value_or(IpAddress{family, {}}), found->src_len};
        rule.table = attributes.has(FRA_TABLE, 4) ? attributes.u32(FRA_TABLE) : found->table;
        rule.priority = attributes.u32(FRA_PRIORITY);
        rules.push_back(rule);
        return {};
      }));
  return rules;
}

Result<std::vector<Route>> RtNetlink::routes(Family family, std::uint32_t table) {
  rtmsg header{};
  header.rtm_family = static_cast<std::uint8_t>(af_of(family));
  std::string request = message_bytes(RTM_GETROUTE, NLM_F_DUMP, &header, sizeof(header));
  append_attribute(request, RTA_TABLE, &table, sizeof(table));
  std::vector<Route> routes;
  auto dumped = NetlinkDump::run_again(
      *this, request, "list routes of table " + std::to_string(table), [&] { routes.clear(); },
      [&](const nlmsghdr* message) -> Result<void> {
        const auto* found = static_cast<const rtmsg*>(NLMSG_DATA(message));
        PODLANE_TRY_ASSIGN(const auto attributes, (attributes_of<RTA_MAX + 1, rtmsg>(message, "route")));
        const std::uint32_t in_table = attributes.has(RTA_TABLE, 4) ? attributes.u32(RTA_TABLE) : found->rtm_table;
        if (in_table != table) return {};
        Route route;
        route.destination = {attributes.ip(RTA_DST, family).value_or(IpAddress{family, {}}), found->rtm_dst_len};
        route.gateway = attributes.ip(RTA_GATEWAY, family);
        route.source = attributes.ip(RTA_PREFSRC, family);
        route.ifindex = IfIndex(static_cast<int>(attributes.u32(RTA_OIF)));
        route.table = in_table;
        route.on_link = (found->rtm_flags & RTNH_F_ONLINK) != 0;
        route.link_scope = found->rtm_scope == RT_SCOPE_LINK;
        route.metric = attributes.u32(RTA_PRIORITY);
        routes.push_back(route);
        return {};
      });
  // A table that never had a route does not exist; the filtered dump says so with ENOENT (net/ipv4/fib_frontend.c).
  if (!dumped && dumped.error().code() == Errc::kNotFound) return std::vector<Route>{};
  if (!dumped) return std::unexpected(std::move(dumped).error());
  return routes;
}

}  // namespace podlane::net
