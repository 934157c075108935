#include "deviceplugin/lanes/neighbor_socket.hpp"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

namespace podlane::dp {

namespace {

// NDA_PROTOCOL of our entries: tells them from those of others after a restart. Free in rt_protos and linux/rtnetlink.h.
constexpr std::uint8_t kOriginator = 112;
constexpr int kReceiveBytes = 1 << 20;

template <typename Value>
std::string attribute(std::uint16_t type, const Value* value, std::size_t size) {
  rtattr header{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size)), .rta_type = type};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(reinterpret_cast<const char*>(value), size);
  bytes.resize(RTA_SPACE(size), '\0');
  return bytes;
}

std::string keep_attributes(Keep how) {
  std::string bytes = attribute(NDA_PROTOCOL, &kOriginator, sizeof(kOriginator));
  if (how == Keep::kManaged) {
    const std::uint32_t managed = NTF_EXT_MANAGED;
    bytes += attribute(NDA_FLAGS_EXT, &managed, sizeof(managed));
  }
  return bytes;
}

std::uint8_t keep_flags(Keep how) { return how == Keep::kOnce ? NTF_USE : 0; }

std::optional<NeighborEntry> parse(const nlmsghdr* message) {
  if (message->nlmsg_len < NLMSG_LENGTH(sizeof(ndmsg))) return std::nullopt;
  const auto* header = static_cast<const ndmsg*>(NLMSG_DATA(message));
  if (header->ndm_family != AF_INET && header->ndm_family != AF_INET6) return std::nullopt;
  NeighborEntry entry;
  entry.key.nic = IfIndex(header->ndm_ifindex);
  entry.key.ip.family = header->ndm_family == AF_INET ? net::Family::kIpv4 : net::Family::kIpv6;
  entry.removed = message->nlmsg_type == RTM_DELNEIGH;
  if (!entry.removed) entry.state = header->ndm_state;
  bool has_destination = false;
  int left = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof(ndmsg)));
  const auto* attribute_at = reinterpret_cast<const rtattr*>(reinterpret_cast<const char*>(header) +
                                                             NLMSG_ALIGN(sizeof(ndmsg)));
  for (; RTA_OK(attribute_at, left); attribute_at = RTA_NEXT(attribute_at, left)) {
    const std::size_t size = RTA_PAYLOAD(attribute_at);
    if (attribute_at->rta_type == NDA_DST && size == entry.key.ip.size()) {
      std::memcpy(entry.key.ip.bytes.data(), RTA_DATA(attribute_at), size);
      has_destination = true;
    } else if (attribute_at->rta_type == NDA_LLADDR && size == 6 && !entry.removed) {
      entry.mac.emplace();
      std::memcpy(entry.mac->data(), RTA_DATA(attribute_at), size);
    } else if (attribute_at->rta_type == NDA_PROTOCOL && size == 1) {
      entry.ours = *static_cast<const std::uint8_t*>(RTA_DATA(attribute_at)) == kOriginator;
    }
  }
  // The address of a failed entry is a memory of the past: the kernel sends nothing to it.
  constexpr std::uint16_t kUsable =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  if ((entry.state & kUsable) == 0) entry.mac.reset();
  return has_destination ? std::optional(entry) : std::nullopt;
}

}  // namespace

Result<NeighborSocket> NeighborSocket::open() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!socket.valid()) return fail_errno("netlink socket");
  // Needs CAP_NET_ADMIN to go past the system's limit; without it a burst costs a re-read (ENOBUFS), nothing else.
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof(kReceiveBytes));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail_errno("bind netlink socket");
  }
  const int group = RTNLGRP_NEIGH;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0) {
    return fail_errno("listen to neighbour changes");
  }
  // The kernel checks headers of single look-ups only, and filters them, under strict checking (Linux 5.0).
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  return NeighborSocket(std::move(socket));
}

Result<std::uint32_t> NeighborSocket::send(std::uint16_t type, std::uint16_t flags, const NeighborKey& key,
                                           std::uint8_t entry_flags, const std::string& attributes,
                                           std::uint16_t state) {
  struct {
    nlmsghdr header;
    ndmsg entry;
  } start{};
  std::string body = attributes;
  if ((flags & NLM_F_DUMP) != NLM_F_DUMP) body = attribute(NDA_DST, key.ip.bytes.data(), key.ip.size()) + attributes;
  start.header.nlmsg_len = static_cast<std::uint32_t>(sizeof(start) + body.size());
  start.header.nlmsg_type = type;
  start.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  start.header.nlmsg_seq = ++sequence_;
  start.entry.ndm_family = static_cast<std::uint8_t>(key.ip.family == net::Family::kIpv4 ? AF_INET : AF_INET6);
  if ((flags & NLM_F_DUMP) == NLM_F_DUMP) start.entry.ndm_family = AF_UNSPEC;
  start.entry.ndm_ifindex = key.nic.value;
  start.entry.ndm_state = state;
  start.entry.ndm_flags = entry_flags;
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof(start));
  bytes += body;
  if (::send(fd(), bytes.data(), bytes.size(), 0) < 0) return fail_errno("send to netlink");
  return sequence_;
}

Result<std::uint32_t> NeighborSocket::ask(const NeighborKey& key) { return send(RTM_GETNEIGH, 0, key, 0, {}); }

Result<std::uint32_t> NeighborSocket::keep(const NeighborKey& key, Keep how) {
  return send(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, key, keep_flags(how), keep_attributes(how));
}

Result<std::uint32_t> NeighborSocket::teach(const NeighborKey& key, const MacAddress& mac, Keep how) {
  // Two messages: NTF_USE and the managed flag make the kernel ignore the state that comes with them
  // (net/core/neighbour.c, __neigh_update), and a message without the flag takes it away.
  PODLANE_TRY(send(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, key, 0,
                   attribute(NDA_LLADDR, mac.data(), mac.size()) +
                       attribute(NDA_PROTOCOL, &kOriginator, sizeof(kOriginator)),
                   NUD_REACHABLE));
  return keep(key, how);
}

Result<std::uint32_t> NeighborSocket::remove(const NeighborKey& key) {
  return send(RTM_DELNEIGH, NLM_F_ACK, key, 0, {});
}

Result<std::uint32_t> NeighborSocket::list() { return send(RTM_GETNEIGH, NLM_F_DUMP, {}, 0, {}); }

Result<void> NeighborSocket::read_all(const std::function<void(const NeighborEntry&)>& on_entry,
                                      const std::function<void(std::uint32_t, int)>& on_error) {
  std::vector<char> buffer(32768);  // The kernel's largest dump datagram.
  for (;;) {
    const ssize_t n = ::recv(fd(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0 && errno == ENOBUFS) return fail(Errc::kUnavailable, "neighbour changes were lost");
    if (n < 0) return fail_errno("receive from netlink");
    int left = static_cast<int>(n);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(message, static_cast<unsigned>(left));
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_ERROR && message->nlmsg_len >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
        const int error = -static_cast<const nlmsgerr*>(NLMSG_DATA(message))->error;
        if (error != 0) on_error(message->nlmsg_seq, error);
      } else if (message->nlmsg_type == RTM_NEWNEIGH || message->nlmsg_type == RTM_DELNEIGH) {
        if (const auto entry = parse(message)) on_entry(*entry);
      }
    }
  }
}

}  // namespace podlane::dp
