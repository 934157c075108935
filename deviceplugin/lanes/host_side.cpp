#include "deviceplugin/lanes/host_side.hpp"

#include <dirent.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <random>

#include "bpf/abi/lane_abi.h"
#include "deviceplugin/lanes/arp_ndp.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/net/ethtool.hpp"
#include "lib/net/netns.hpp"
#include "lib/net/rtnetlink.hpp"
#include "lib/net/veth_pair.hpp"

namespace podlane::dp {

namespace {

constexpr std::string_view kAliasPrefix = "podlane:";

Result<std::uint32_t> rx_queues_in_use(const std::string& name, const std::string& sysfs_root) {
  const auto channels = net::rx_channels(name);
  if (channels && *channels > 0) return *channels;
  const std::string path = sysfs_root + "/class/net/" + name + "/queues";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path.c_str()), ::closedir);
  if (!listing) return fail_errno("count receive queues", path);
  std::uint32_t queues = 0;
  while (const dirent* entry = ::readdir(listing.get())) queues += std::strncmp(entry->d_name, "rx-", 3) == 0;
  return queues;
}

bool is_pci_id(std::string_view text) {  // "0000:3b:00.1"
  static constexpr std::string_view kShape = "hhhh:hh:hh.h";
  if (text.size() != kShape.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kShape[i] == 'h' ? ::isxdigit(static_cast<unsigned char>(text[i])) == 0 : text[i] != kShape[i]) return false;
  }
  return true;
}

// The last PCI function on the device's path: virtio and auxiliary devices stand one level below theirs.
std::string pci_id_of(const std::string& name, const std::string& sysfs_root) {
  char resolved[PATH_MAX];
  if (::realpath((sysfs_root + "/class/net/" + name + "/device").c_str(), resolved) == nullptr) return {};
  std::string path = resolved;
  for (;;) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    if (is_pci_id(std::string_view(path).substr(slash + 1))) return path.substr(slash + 1);
    path.resize(slash);
  }
}

// The end that sends must not leave checksums to a device that has none: XDP and AF_XDP would see the sum of the pseudo
// header alone. Segments neither: a lane's frame must fit a UMEM frame.
Result<void> make_plain_sender(const std::string& ifname) {
  PODLANE_TRY(net::set_offload(ifname, net::Offload::kTxChecksum, false));
  PODLANE_TRY(net::set_offload(ifname, net::Offload::kTso, false));
  return net::set_offload(ifname, net::Offload::kGso, false);
}

Result<IfIndex> set_up_pod_end(const std::string& name) {
  PODLANE_TRY(make_plain_sender(name));
  // GRO keeps NAPI on at this end, which redirects from the NIC into the pair need, whether or not a program is
  // attached just then (drivers/net/veth.c, veth_xdp_xmit).
  PODLANE_TRY(net::set_offload(name, net::Offload::kGro, true));
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  PODLANE_TRY_ASSIGN(const net::Link link, netlink.link_by_name(name));
  return link.ifindex;
}

Result<void> change_group(IfIndex nic, const std::string& address, unsigned long request_code) {
  PODLANE_TRY_ASSIGN(const net::IpAddress ip, net::parse_ip(address.substr(0, address.find('/'))));
  if (ip.family != net::Family::kIpv6) {
    return fail(Errc::kInvalid, "solicited-node group of '" + address + "': must be an IPv6 address");
  }
  ifreq request{};
  if (::if_indextoname(static_cast<unsigned>(nic.value), request.ifr_name) == nullptr) {
    return fail_errno("find NIC", "ifindex " + std::to_string(nic.value));
  }
  const MacAddress group = solicited_node_mac(ip);
  request.ifr_hwaddr.sa_family = AF_UNSPEC;
  std::memcpy(request.ifr_hwaddr.sa_data, group.data(), group.size());
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("socket");
  if (::ioctl(socket.get(), request_code, &request) == 0) return {};
  if (request_code == SIOCDELMULTI && errno == ENOENT) return {};
  return fail_errno(request_code == SIOCADDMULTI ? "join group" : "leave group", to_string(group));
}

}  // namespace

Result<NicFacts> nic_facts(const std::string& name, const std::string& sysfs_root) {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  PODLANE_TRY_ASSIGN(const net::Link link, netlink.link_by_name(name));
  NicFacts facts{.index = link.ifindex, .name = link.name, .mtu = link.mtu, .up = link.up, .pci_id = {}};
  const auto mac = parse_mac(link.mac);
  if (!mac) return fail(Errc::kUnsupported, name + " is not an Ethernet device: no lanes on it");
  facts.mac = *mac;
  PODLANE_TRY_ASSIGN(facts.rx_queues, rx_queues_in_use(name, sysfs_root));
  facts.pci_id = pci_id_of(name, sysfs_root);
  return facts;
}

Result<VethLane> make_veth_lane(int pod_netns_fd, const std::string& host_name, const std::string& pod_name,
                                const std::string& device, LaneSlot slot) {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  const auto low =
      static_cast<int>(std::random_device{}() % (LANE_IFINDEX_HOST / LANE_SLOTS) * LANE_SLOTS + slot.value);
  // The pod's end is born in the pod: it never stands in the host's namespace, where udev and others would meet it.
  PODLANE_TRY(netlink.create_veth({.name = host_name,
                                   .peer_name = pod_name,
                                   .peer_netns_fd = pod_netns_fd,
                                   .mtu = net::kMtuWithoutIpv6,
                                   .mac = {},
                                   .peer_mac = {},
                                   .queues = 1,
                                   .ifindex = IfIndex(LANE_IFINDEX_HOST | low),
                                   .peer_ifindex = IfIndex(LANE_IFINDEX_POD | low)}));
  PODLANE_TRY_ASSIGN(const net::Link host_end, netlink.link_by_name(host_name));
  ScopeGuard undo([&] { (void)netlink.delete_link(host_end.ifindex); });
  net::LinkChange name_it;
  name_it.alias = std::string(kAliasPrefix) + device;
  PODLANE_TRY(netlink.set_link(host_end.ifindex, name_it));
  PODLANE_TRY(make_plain_sender(host_name));
  VethLane lane{.host_end = host_end.ifindex, .pod_end = {}};
  PODLANE_TRY(net::run_in_netns(pod_netns_fd, [&]() -> Result<void> {
    PODLANE_TRY_ASSIGN(lane.pod_end, set_up_pod_end(pod_name));
    return {};
  }));
  undo.release();
  return lane;
}

Result<void> delete_link(IfIndex index) {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  auto deleted = netlink.delete_link(index);
  if (!deleted && deleted.error().code() == Errc::kNotFound) return {};
  return deleted;
}

Result<void> check_veth_lane_is_open(IfIndex host_end, std::uint32_t mtu) {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  auto link = netlink.link_by_index(host_end);
  if (!link) return std::unexpected(std::move(link).error().with("look at", "the veth pair"));
  if (link->up && link->carrier && link->mtu >= mtu) return {};
  return fail(Errc::kInvalid, "the veth pair must be up at both ends, its host end " + link->name + " with MTU " +
                                  std::to_string(mtu) + "; its host end is " + (link->up ? "up" : "down") +
                                  (link->carrier ? "" : ", without carrier") + ", with MTU " +
                                  std::to_string(link->mtu) +
                                  ": somebody changed it, or the CNI plugin is older than the device plugin");
}

Result<std::vector<std::pair<IfIndex, std::string>>> our_veths() {
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  PODLANE_TRY_ASSIGN(const auto links, netlink.links());
  std::vector<std::pair<IfIndex, std::string>> found;
  for (const net::Link& link : links) {
    if (link.kind != "veth" || !link.alias.starts_with(kAliasPrefix)) continue;
    found.emplace_back(link.ifindex, link.alias.substr(kAliasPrefix.size()));
  }
  return found;
}

Result<void> join_solicited_node(IfIndex nic, const std::string& address) {
  return change_group(nic, address, SIOCADDMULTI);
}

Result<void> leave_solicited_node(IfIndex nic, const std::string& address) {
  return change_group(nic, address, SIOCDELMULTI);
}

}  // namespace podlane::dp
