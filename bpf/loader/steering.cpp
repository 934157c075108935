#include "bpf/loader/steering.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>

#include "bpf/loader/pinned_maps.hpp"
#include "bpf/loader/programs.hpp"
#include "bpf/loader/xdp_link.hpp"
#include "lib/net/netns.hpp"
#include "lib/net/rtnetlink.hpp"

namespace podlane::bpf {

const std::array<const char*, LANE_COUNTER_COUNT> kLaneCounterNames = {
    "rx_frames",   "rx_no_socket", "rx_wrong_queue", "rx_to_veth",         "arp_answered",
    "ns_answered", "tx_frames",    "tx_bad_source",  "tx_same_node_queue",
};

struct Steering::Impl {
  std::string directory;
  PinnedMaps maps;
  UniqueFd lane_steer;
  UniqueFd veth_host;
  UniqueFd veth_pod;
  std::size_t cpus = 1;

  int fd(MapId map) const { return maps.fd(map); }
};

namespace {

// The filter's place on the veth's ingress: fixed, so that attaching again replaces it.
constexpr std::uint32_t kFilterHandle = 1;
constexpr std::uint32_t kFilterPriority = 1;

Result<void> ready_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("make directory", directory);
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return fail_errno("statfs", directory);
  if (info.f_type != BPF_FS_MAGIC) {
    return fail(Errc::kInvalid, "bpffs directory " + directory +
                                    " is not on a bpf file system; mount one: mount -t bpf bpf /sys/fs/bpf");
  }
  return {};
}

Result<nic_mac> read_nic(IfIndex nic) {
  ifreq request{};
  if (::if_indextoname(static_cast<unsigned>(nic.value), request.ifr_name) == nullptr) {
    return fail_errno("find NIC", "ifindex " + std::to_string(nic.value));
  }
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("socket");
  if (::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) return fail_errno("read MAC of", request.ifr_name);
  if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return fail(Errc::kUnsupported, std::string(request.ifr_name) + " is not an Ethernet device: no lanes on it");
  }
  nic_mac mac{};
  std::memcpy(mac.mac, request.ifr_hwaddr.sa_data, sizeof(mac.mac));
  // XDP_TX on a veth wakes the peer only when that has a program; a redirect wakes it also when it has GRO alone
  // (drivers/net/veth.c, veth_xdp_flush against veth_ndo_xdp_xmit; seen on 6.18). Elsewhere XDP_TX is the surer way.
  PODLANE_TRY_ASSIGN(auto netlink, net::RtNetlink::open());
  PODLANE_TRY_ASSIGN(const net::Link link, netlink.link_by_index(nic));
  mac.answer_by_redirect = link.kind == "veth" ? 1 : 0;
  return mac;
}

lane_key key_of(IfIndex nic, const std::array<std::uint8_t, 16>& address) {
  lane_key key{.ifindex = static_cast<__u32>(nic.value), .addr = {}};
  std::memcpy(key.addr, address.data(), address.size());
  return key;
}

Result<void> erase(int map, const void* key, const char* what) {
  if (::bpf_map_delete_elem(map, key) != 0 && errno != ENOENT) return fail_errno("remove from map", what);
  return {};
}

template <typename Key, typename Value>
Result<std::vector<std::pair<Key, Value>>> entries(int map) {
  std::vector<std::pair<Key, Value>> found;
  Key key{}, next{};
  for (const Key* previous = nullptr; ::bpf_map_get_next_key(map, previous, &next) == 0; previous = &key) {
    key = next;
    Value value{};
    if (::bpf_map_lookup_elem(map, &key, &value) == 0) found.emplace_back(key, value);
  }
  if (errno != ENOENT) return fail_errno("walk map");
  return found;
}

// A per-CPU value comes as one copy per possible CPU, each rounded up to 8 bytes (bpf(2)).
template <typename Value>
Result<std::vector<Value>> per_cpu(int map, std::uint32_t key, std::size_t cpus) {
  static_assert(sizeof(Value) % 8 == 0);
  std::vector<Value> values(cpus);
  if (::bpf_map_lookup_elem(map, &key, values.data()) != 0) return fail_errno("read counters of", std::to_string(key));
  return values;
}

}  // namespace

Result<Steering> Steering::open(const std::string& bpffs_dir) {
  ::libbpf_set_print(nullptr);  // What it has to say is in our errors.
  PODLANE_TRY(ready_directory(bpffs_dir));
  auto impl = std::make_unique<Impl>();
  impl->directory = bpffs_dir;
  const int cpus = ::libbpf_num_possible_cpus();
  if (cpus < 1) return fail(Errc::kIo, "the kernel does not tell its number of CPUs");
  impl->cpus = static_cast<std::size_t>(cpus);
  PODLANE_TRY_ASSIGN(impl->maps, PinnedMaps::open(bpffs_dir));
  PODLANE_TRY_ASSIGN(impl->lane_steer, load_lane_steer(impl->maps));
  PODLANE_TRY_ASSIGN(impl->veth_host, load_veth_host(impl->maps));
  PODLANE_TRY_ASSIGN(impl->veth_pod, load_veth_pod(impl->maps));
  (void)pinned_links(bpffs_dir, true);
  return Steering(std::move(impl));
}

Result<NicAttachment> Steering::attach_nic(IfIndex nic) {
  // First what the program looks up, then the program.
  PODLANE_TRY_ASSIGN(const nic_mac mac, read_nic(nic));
  const __u32 key = static_cast<__u32>(nic.value);
  if (::bpf_map_update_elem(impl_->fd(MapId::kNicMacs), &key, &mac, BPF_ANY) != 0) return fail_errno("set NIC's MAC");
  const std::vector<nic_counters> zero(impl_->cpus);
  if (::bpf_map_update_elem(impl_->fd(MapId::kNicCounters), &key, zero.data(), BPF_NOEXIST) != 0 && errno != EEXIST) {
    return fail_errno("make NIC's counters");
  }
  return attach_pinned_link(impl_->directory, nic, impl_->lane_steer.get());
}

Result<void> Steering::detach_nic(IfIndex nic) {
  PODLANE_TRY(detach_pinned_link(impl_->directory, nic));
  const __u32 key = static_cast<__u32>(nic.value);
  PODLANE_TRY(erase(impl_->fd(MapId::kNicMacs), &key, "nic_macs"));
  return erase(impl_->fd(MapId::kNicCounters), &key, "nic_counters");
}

std::vector<IfIndex> Steering::attached_nics() const {
  return pinned_links(impl_->directory, false);
}

Result<void> Steering::set_lane(IfIndex nic, const std::array<std::uint8_t, 16>& address, const lane_entry& entry) {
  const lane_key key = key_of(nic, address);
  if (::bpf_map_update_elem(impl_->fd(MapId::kLaneByAddr), &key, &entry, BPF_ANY) != 0) {
    return fail_errno("steer lane", "slot " + std::to_string(entry.slot));
  }
  return {};
}

Result<void> Steering::clear_lane(IfIndex nic, const std::array<std::uint8_t, 16>& address) {
  const lane_key key = key_of(nic, address);
  return erase(impl_->fd(MapId::kLaneByAddr), &key, "lane_by_addr");
}

Result<std::vector<std::pair<lane_key, lane_entry>>> Steering::lanes() const {
  return entries<lane_key, lane_entry>(impl_->fd(MapId::kLaneByAddr));
}

Result<void> Steering::set_socket(LaneSlot slot, int xsk_fd) {
  if (::bpf_map_update_elem(impl_->fd(MapId::kXsks), &slot.value, &xsk_fd, BPF_ANY) != 0) {
    return fail_errno("put socket into xsks", "slot " + std::to_string(slot.value));
  }
  return {};
}

Result<void> Steering::clear_socket(LaneSlot slot) {
  return erase(impl_->fd(MapId::kXsks), &slot.value, "xsks");
}

Result<void> Steering::clear_counters(LaneSlot slot) {
  const std::vector<lane_counters> zero(impl_->cpus);
  if (::bpf_map_update_elem(impl_->fd(MapId::kLaneCounters), &slot.value, zero.data(), BPF_ANY) != 0) {
    return fail_errno("clear counters", "slot " + std::to_string(slot.value));
  }
  return {};
}

Result<void> Steering::attach_veth_pod_end(int netns_fd, IfIndex pod_end, LaneSlot slot) {
  if (slot.value >= LANE_SLOTS)
    return fail(Errc::kInvalid, "slot " + std::to_string(slot.value) + " must be below 4096");
  if (static_cast<std::uint32_t>(pod_end.value) % LANE_SLOTS != slot.value || pod_end.value < LANE_IFINDEX_POD) {
    return fail(Errc::kInvalid, "ifindex " + std::to_string(pod_end.value) + " is not one of slot " +
                                    std::to_string(slot.value) +
                                    ": another version made this veth; make the pod again");
  }
  return net::run_in_netns(netns_fd, [&] { return attach_by_netlink(pod_end, impl_->veth_pod.get(), "veth_pod"); });
}

Result<void> Steering::attach_veth_host_end(IfIndex host_end, const veth_entry& entry) {
  // The entry first: the program drops what comes from a device that it does not know.
  const __u32 key = static_cast<__u32>(host_end.value);
  if (::bpf_map_update_elem(impl_->fd(MapId::kVethSlots), &key, &entry, BPF_ANY) != 0) {
    return fail_errno("set veth slot", "ifindex " + std::to_string(host_end.value));
  }
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = host_end.value, .attach_point = BPF_TC_INGRESS);
  if (const int error = ::bpf_tc_hook_create(&hook); error != 0 && error != -EEXIST) {
    errno = -error;
    return fail_errno("make clsact on", "ifindex " + std::to_string(host_end.value));
  }
  LIBBPF_OPTS(bpf_tc_opts, filter, .prog_fd = impl_->veth_host.get(), .flags = BPF_TC_F_REPLACE,
              .handle = kFilterHandle, .priority = kFilterPriority);
  if (const int error = ::bpf_tc_attach(&hook, &filter); error != 0) {
    errno = -error;
    return fail_errno("attach veth_host to", "ifindex " + std::to_string(host_end.value));
  }
  return {};
}

Result<void> Steering::forget_veth_host_end(IfIndex host_end) {
  const __u32 key = static_cast<__u32>(host_end.value);
  return erase(impl_->fd(MapId::kVethSlots), &key, "veth_slots");
}

Result<std::vector<std::pair<IfIndex, veth_entry>>> Steering::veth_host_ends() const {
  PODLANE_TRY_ASSIGN(const auto found, (entries<__u32, veth_entry>(impl_->fd(MapId::kVethSlots))));
  std::vector<std::pair<IfIndex, veth_entry>> ends;
  for (const auto& [ifindex, entry] : found) ends.emplace_back(IfIndex(static_cast<int>(ifindex)), entry);
  return ends;
}

Result<std::array<std::uint64_t, LANE_COUNTER_COUNT>> Steering::counters(LaneSlot slot) const {
  PODLANE_TRY_ASSIGN(const auto values,
                     per_cpu<lane_counters>(impl_->fd(MapId::kLaneCounters), slot.value, impl_->cpus));
  std::array<std::uint64_t, LANE_COUNTER_COUNT> sum{};
  for (const lane_counters& cpu : values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += cpu.value[i];
  }
  return sum;
}

Result<nic_counters> Steering::counters(IfIndex nic) const {
  PODLANE_TRY_ASSIGN(const auto values, per_cpu<nic_counters>(impl_->fd(MapId::kNicCounters),
                                                              static_cast<std::uint32_t>(nic.value), impl_->cpus));
  nic_counters sum{};
  for (const nic_counters& cpu : values) {
    sum.passed += cpu.passed;
    sum.malformed += cpu.malformed;
  }
  return sum;
}

Result<void> Steering::remove_all() {
  for (const IfIndex nic : pinned_links(impl_->directory, true)) PODLANE_TRY(detach_nic(nic));
  PODLANE_TRY(PinnedMaps::unpin_all(impl_->directory));
  if (::rmdir(impl_->directory.c_str()) != 0 && errno != ENOENT) return fail_errno("rmdir", impl_->directory);
  return {};
}

Steering::Steering(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Steering::Steering(Steering&&) noexcept = default;
Steering& Steering::operator=(Steering&&) noexcept = default;
Steering::~Steering() = default;

}  // namespace podlane::bpf
