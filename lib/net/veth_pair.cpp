#include "lib/net/veth_pair.hpp"

#include <cerrno>

namespace podlane::net {

namespace {

Result<void> open_end(RtNetlink& netlink, IfIndex end, std::uint32_t mtu) {
  LinkChange resize;
  resize.mtu = mtu;
  PODLANE_TRY(netlink.set_link(end, resize));
  // Before the link goes up, which is when the kernel gives it a link-local address. A link without IPv6 gets none.
  LinkChange no_address;
  no_address.no_address_generation = true;
  auto changed = netlink.set_link(end, no_address);
  if (!changed && changed.error().errno_value() != EAFNOSUPPORT) return changed;
  LinkChange raise;
  raise.up = true;
  return netlink.set_link(end, raise);
}

}  // namespace

Result<void> open_veth_pair(const VethPair& pair, int pod_netns_fd, std::uint32_t mtu) {
  PODLANE_TRY_ASSIGN(auto host, RtNetlink::open());
  PODLANE_TRY(open_end(host, pair.host, mtu));
  PODLANE_TRY_ASSIGN(auto pod, RtNetlink::open_in(pod_netns_fd));
  return open_end(pod, pair.pod, mtu);
}

}  // namespace podlane::net
