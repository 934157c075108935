#include "tests/bpf/bench.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace podlane::test {

namespace {

[[noreturn]] void give_up(const std::string& what) { throw std::runtime_error(what + ": " + std::to_string(errno)); }

}  // namespace

StandIn::StandIn(const ScratchNetns& netns) : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (::setns(netns.fd(), CLONE_NEWNET) != 0) give_up("setns");
}

StandIn::~StandIn() { (void)!::setns(home_.get(), CLONE_NEWNET); }

Bench::Bench() {
  // Silent: the tests count each frame that comes to the NIC.
  must_run("ip netns exec " + far_.name() + " sysctl -qw net.ipv6.conf.default.disable_ipv6=1");
  // Two receive queues, so that "the wrong queue" exists. GRO brings NAPI, without which the device has no XDP receive
  // queue and the kernel refuses test runs in its name.
  host_.ip("link add nic0 numrxqueues 2 numtxqueues 2 type veth peer name far0 numrxqueues 2 numtxqueues 2 netns " +
           far_.name());
  host_.ip("link set nic0 up");
  far_.ip("link set far0 up");
  must_run("ip netns exec " + host_.name() + " ethtool -K nic0 gro on");
  must_run("ip netns exec " + far_.name() + " ethtool -K far0 gro on");
  stand_in_.emplace(host_);
  nic_ = device("nic0");
  const std::string shown = host_.ip("-o link show nic0");
  const std::string mac = shown.substr(shown.find("link/ether ") + 11, 17);
  std::sscanf(mac.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &nic_mac_[0], &nic_mac_[1], &nic_mac_[2], &nic_mac_[3],
              &nic_mac_[4], &nic_mac_[5]);
  bpffs_ = "/sys/fs/bpf/" + random_name("pltest");
  auto steering = bpf::Steering::open(bpffs_);
  if (!steering) throw std::runtime_error(steering.error().message());
  steering_.emplace(std::move(*steering));
  const auto attached = steering_->attach_nic(nic_);
  if (!attached) throw std::runtime_error(attached.error().message());
}

Bench::~Bench() {
  if (steering_) (void)steering_->remove_all();
}

IfIndex Bench::device(const std::string& name) const {
  const unsigned index = ::if_nametoindex(name.c_str());
  if (index == 0) give_up(name);
  return IfIndex(static_cast<int>(index));
}

void Bench::answer_by_redirect(bool on) const {
  const UniqueFd macs(::bpf_obj_get((bpffs_ + "/nic_macs").c_str()));
  ::nic_mac entry{.mac = {}, .answer_by_redirect = static_cast<__u8>(on), .pad = 0};
  std::copy(nic_mac_.begin(), nic_mac_.end(), entry.mac);
  if (::bpf_map_update_elem(macs.get(), &nic_.value, &entry, BPF_EXIST) != 0) give_up("nic_macs");
}

std::optional<Outcome> Bench::run_xdp(int program, const Bytes& packet, std::uint32_t rx_queue) const {
  Bytes out(4096, '\0');
  xdp_md context{};
  context.data_end = static_cast<__u32>(packet.size());
  context.ingress_ifindex = static_cast<__u32>(nic_.value);
  context.rx_queue_index = rx_queue;
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet.data(), .data_out = out.data(),
              .data_size_in = static_cast<__u32>(packet.size()), .data_size_out = static_cast<__u32>(out.size()),
              .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
  if (::bpf_prog_test_run_opts(program, &options) != 0) return std::nullopt;
  out.resize(options.data_size_out);
  return Outcome{.verdict = options.retval, .packet = out};
}

std::optional<Outcome> Bench::run_tc(int program, const Bytes& packet, IfIndex on) const {
  Bytes out(4096, '\0');
  __sk_buff context{};
  context.ifindex = static_cast<__u32>(on.value);
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet.data(), .data_out = out.data(),
              .data_size_in = static_cast<__u32>(packet.size()), .data_size_out = static_cast<__u32>(out.size()),
              .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
  if (::bpf_prog_test_run_opts(program, &options) != 0) return std::nullopt;
  out.resize(options.data_size_out);
  return Outcome{.verdict = options.retval, .packet = out};
}

UniqueFd Bench::lane_steer() const {
  __u32 id = 0;
  if (::bpf_xdp_query_id(nic_.value, 0, &id) != 0 || id == 0) give_up("no program on the NIC");
  return UniqueFd(::bpf_prog_get_fd_by_id(id));
}

UniqueFd Bench::veth_host(IfIndex host_end) const {
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = host_end.value, .attach_point = BPF_TC_INGRESS);
  LIBBPF_OPTS(bpf_tc_opts, filter, .handle = 1, .priority = 1);
  if (::bpf_tc_query(&hook, &filter) != 0) give_up("no filter on the veth");
  return UniqueFd(::bpf_prog_get_fd_by_id(filter.prog_id));
}

std::uint32_t Bench::verified_instructions(int program) {
  bpf_prog_info info{};
  __u32 length = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &length) != 0) give_up("program info");
  return info.verified_insns;
}

}  // namespace podlane::test
