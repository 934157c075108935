// RtNetlink: one rtnetlink socket that belongs to one network namespace for its whole life. Requests are plain values
// that can be sent one by one or as a batch in one system call; libnl-3 builds and parses messages, nothing is cached.
// Errors carry the kernel's extended acknowledgement. One thread at a time per object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/net/addr.hpp"

namespace podlane::net {

struct Link {
  IfIndex ifindex;
  std::string name;
  std::string kind;  // IFLA_INFO_KIND: "tun", "veth", …; empty for plain devices.
  std::string alias;
  std::string mac;  // "02:00:00:00:00:01"; empty where the device has none (TUN).
  std::uint32_t mtu = 0;
  std::uint32_t tx_queue_len = 0;
  std::uint32_t rx_queues = 0, tx_queues = 0;
  bool up = false;        // IFF_UP
  bool carrier = false;   // IFF_LOWER_UP
  std::string operstate;  // RFC 2863: "up", "down", "lowerlayerdown", "dormant", "testing", "notpresent", "unknown".
  std::uint32_t xdp_prog_id = 0;             // 0: none.
  std::uint8_t xdp_attached = 0;             // XDP_ATTACHED_NONE, _DRV, _SKB, _HW, _MULTI.
  IfIndex peer;                              // IFLA_LINK: the veth's peer, in the namespace peer_netnsid. 0: none.
  std::optional<std::int32_t> peer_netnsid;  // Empty: the same namespace.
  bool no_address_generation = false;        // IPv6 addrgenmode none.
  std::optional<std::uint32_t> tun_owner;    // Of a TUN or TAP that has one.
};

// What set_link changes; absent fields stay as they are.
struct LinkChange {
  std::optional<bool> up;
  std::optional<std::uint32_t> mtu;
  std::optional<std::uint32_t> tx_queue_len;
  std::optional<std::string> name;
  std::optional<std::string> alias;
  std::optional<std::string> mac;
  // IPv6 addrgenmode none, before up. EAFNOSUPPORT where the link has no IPv6, as with an MTU below 1280.
  bool no_address_generation = false;
  std::optional<int> netns_fd;  // Moves the device; borrowed.
};

// The kernel takes no addrgenmode with a creation (EAFNOSUPPORT, tried on 6.18): set_link does it before up.
struct VethOptions {
  std::string name;
  std::string peer_name;
  std::optional<int> peer_netns_fd;  // Borrowed; absent: the same namespace.
  std::uint32_t mtu = 1500;          // Of both ends.
  std::optional<std::string> mac, peer_mac;
  std::uint32_t queues = 1;  // RX and TX queues of both ends.
  // Zero: the kernel chooses. It hears the peer's only beside one of this end (drivers/net/veth.c, veth_newlink, 6.18).
  IfIndex ifindex, peer_ifindex;
};

struct Address {
  IfIndex ifindex;
  IpPrefix prefix;
  bool no_prefix_route = true;
};

struct Route {
  IpPrefix destination;  // 0.0.0.0/0 or ::/0: default.
  std::optional<IpAddress> gateway;
  std::optional<IpAddress> source;  // Preferred source address.
  IfIndex ifindex;
  std::uint32_t table = 254;  // RT_TABLE_MAIN
  bool on_link = false;       // The gateway is reached through ifindex whatever the routes say.
  bool link_scope = false;
  std::uint32_t metric = 0;  // 0: the kernel's default.
};

struct Rule {
  IpPrefix from;
  std::uint32_t table = 0;
  std::uint32_t priority = 0;  // 0: the kernel chooses (just before the lowest that exists).
};

// One message to the kernel, with the words for its error.
class NetlinkRequest {
 public:
  NetlinkRequest(std::string bytes, std::string what) : bytes_(std::move(bytes)), what_(std::move(what)) {}
  const std::string& bytes() const { return bytes_; }
  const std::string& what() const { return what_; }

 private:
  std::string bytes_;
  std::string what_;
};

NetlinkRequest set_link_request(IfIndex ifindex, const LinkChange& change);
NetlinkRequest delete_link_request(IfIndex ifindex);
NetlinkRequest create_veth_request(const VethOptions& options);
NetlinkRequest add_address_request(const Address& address);
NetlinkRequest delete_address_request(const Address& address);
NetlinkRequest add_route_request(const Route& route);
NetlinkRequest delete_route_request(const Route& route);
NetlinkRequest add_rule_request(const Rule& rule);
NetlinkRequest delete_rule_request(const Rule& rule);

class RtNetlink {
 public:
  // In the namespace of the calling thread.
  static Result<RtNetlink> open();
  // In another namespace, by a short-lived thread; for processes with threads of their own.
  static Result<RtNetlink> open_in(int netns_fd);

  Result<void> run(const NetlinkRequest& request);
  // All requests in one sendmsg. The kernel takes them in order and goes on past a failed one: on an error the caller
  // must undo the whole batch. The error is that of the first that failed.
  Result<void> run(const std::vector<NetlinkRequest>& batch);

  // kNotFound when there is none.
  Result<Link> link_by_name(const std::string& name);
  Result<Link> link_by_index(IfIndex ifindex);
  Result<std::vector<Link>> links();
  Result<std::vector<Address>> addresses(IfIndex ifindex = IfIndex(0));  // 0: of all links.
  Result<std::vector<Rule>> rules(Family family);  // Only rules with a source or without selector; from is x/0 then.
  Result<std::vector<Route>> routes(Family family, std::uint32_t table);

  // Short forms of run(…_request(…)). Deleting what does not exist is kNotFound.
  Result<void> set_link(IfIndex ifindex, const LinkChange& change) { return run(set_link_request(ifindex, change)); }
  Result<void> delete_link(IfIndex ifindex) { return run(delete_link_request(ifindex)); }
  Result<void> create_veth(const VethOptions& options) { return run(create_veth_request(options)); }
  Result<void> add_address(const Address& address) { return run(add_address_request(address)); }
  Result<void> delete_address(const Address& address) { return run(delete_address_request(address)); }
  Result<void> add_route(const Route& route) { return run(add_route_request(route)); }
  Result<void> delete_route(const Route& route) { return run(delete_route_request(route)); }
  Result<void> add_rule(const Rule& rule) { return run(add_rule_request(rule)); }
  Result<void> delete_rule(const Rule& rule) { return run(delete_rule_request(rule)); }

 private:
  explicit RtNetlink(UniqueFd socket) : socket_(std::move(socket)) {}

  Result<void> send(std::string_view bytes);
  // Receives one datagram whole, however long.
  Result<std::string_view> receive();

  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
  std::string buffer_;

  friend class NetlinkDump;
};

}  // namespace podlane::net
