#include "lib/podlane/lane_port.hpp"

#include <linux/if_tun.h>
#include <sys/eventfd.h>

#include "lib/net/tun.hpp"

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#endif
#ifndef TUN_F_USO6
#define TUN_F_USO6 0x40
#endif

namespace podlane {

namespace {

constexpr std::uint32_t kWantedOffloads =
    TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN | TUN_F_USO4 | TUN_F_USO6;

Result<xsk::XskSocket> make_socket(lane::LaneGrant& grant, const xsk::Umem& umem) {
  const lane::XskDescription& described = *grant.description.xsk;
  const xsk::RingSizes sizes{described.rx_size, described.tx_size, described.fill_size, described.completion_size};
  if (grant.style == lane::HandoverStyle::kFinished) return xsk::XskSocket::adopt(std::move(grant.xsk), umem, sizes);
  return xsk::XskSocket::set_up(std::move(grant.xsk), umem, sizes,
                                {.device = IfIndex(described.netdev_ifindex),
                                 .queue = QueueId(described.queue),
                                 .headroom_bytes = described.headroom_bytes,
                                 .zero_copy = grant.description.in_force.zero_copy});
}

Result<void> check_mtu(const lane::LaneDescription& description) {
  const lane::XskDescription& xsk = *description.xsk;
  const std::uint32_t receives =
      xsk.umem.frame_size_bytes - kXdpHeadroom - xsk.headroom_bytes - static_cast<std::uint32_t>(kEthernetHeaderBytes);
  if (description.mtu < 68 || description.mtu > receives || description.mtu > xsk.umem.frame_size_bytes - kTxIpOffset) {
    return fail(Errc::kProtocol, "mtu " + std::to_string(description.mtu) + " must be 68 to " +
                                     std::to_string(receives) + ", what a frame of " +
                                     std::to_string(xsk.umem.frame_size_bytes) + " bytes holds");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LanePort>> LanePort::open(const lane::HandoverOptions& options, MonotonicTime deadline) {
  PODLANE_TRY_ASSIGN(lane::LaneGrant grant, lane::request_lane(options, deadline));
  return make(std::move(grant), options.socket_path, options.client);
}

Result<std::unique_ptr<LanePort>> LanePort::make(lane::LaneGrant grant, std::string socket_path, std::string client) {
  if (!grant.description.xsk || !grant.xsk.valid()) {
    return fail(Errc::kUnsupported, "lane " + grant.description.device + " of kind " +
                                        std::string(lane::to_string(grant.description.kind)) +
                                        " has no AF_XDP socket: relay and direct path need a queue or veth lane");
  }
  if (grant.tuns.empty()) return fail(Errc::kProtocol, "the hand-over gave no TUN descriptor");
  const auto mac = parse_mac(grant.description.mac);
  if (!mac) return fail(Errc::kProtocol, "mac '" + grant.description.mac + "' is not a MAC address");
  PODLANE_TRY(check_mtu(grant.description));
  const lane::UmemShape& shape = grant.description.xsk->umem;
  PODLANE_TRY_ASSIGN(const xsk::Umem umem, xsk::Umem::over(grant.umem.memory(), grant.umem.size(), shape.frames,
                                                           shape.frame_size_bytes));
  PODLANE_TRY_ASSIGN(xsk::XskSocket socket, make_socket(grant, umem));
  PODLANE_TRY_ASSIGN(NextHops hops, NextHops::create(grant.description));
  lane::Session session(std::move(grant.session), std::move(socket_path), std::move(client));
  std::unique_ptr<LanePort> port(
      new LanePort(std::move(grant), umem, std::move(socket), std::move(hops), std::move(session)));
  port->mac = *mac;
  port->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!port->wake.valid()) return fail_errno("eventfd");
  for (const UniqueFd& tun : port->tuns) {
    PODLANE_TRY_ASSIGN(port->tun_offloads, net::tun_set_offloads(tun.get(), kWantedOffloads));
  }
  port->spill.resize(shape.frame_size_bytes + kSpillBytes);
  port->socket.refill();
  return port;
}

LanePort::LanePort(lane::LaneGrant grant, const xsk::Umem& umem_view, xsk::XskSocket xsk, NextHops hops,
                   lane::Session opened)
    : description(std::move(grant.description)),
      memory(std::move(grant.umem)),
      umem(umem_view),
      tuns(std::move(grant.tuns)),
      socket(std::move(xsk)),
      next_hops(std::move(hops)),
      session(std::move(opened)) {}

Result<void> LanePort::set_carrier(bool on) const { return net::tun_set_carrier(tuns.front().get(), on); }

void LanePort::wake_control() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(wake.get(), &one, sizeof(one));
}

void LanePort::take_news() {
  NeighborNews item;
  while (news.pop(item)) {
    if (item.known) next_hops.learn(item.ip, item.mac);
    else next_hops.forget(item.ip);
  }
}

HopState LanePort::find_hop(const IpKey& destination, bool is_v4, MacAddress& mac_out) {
  const Hop hop = next_hops.find(destination, is_v4);
  if (hop.state == HopState::kKnown) [[likely]] {
    mac_out = hop.mac;
  } else if (hop.state == HopState::kAsk) {
    counters.add(Counter::kResolves);
    if (asks.push(hop.next_hop)) wake_control();
    else next_hops.forget(hop.next_hop);  // The next packet asks again.
  }
  return hop.state;
}

}  // namespace podlane
