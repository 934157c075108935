#include "deviceplugin/handover/grant.hpp"

#include <net/if.h>
#include <poll.h>

#include <chrono>

#include "deviceplugin/handover/umem_check.hpp"
#include "deviceplugin/handover/xsk_maker.hpp"
#include "lib/net/netns.hpp"
#include "lib/net/tun.hpp"

namespace podlane::dp {

namespace {

Result<XskMade> make_xsk(const GrantRequest& request) {
  const HandoverLane& lane = request.lane;
  const bool unbound = lane.style == lane::HandoverStyle::kUnbound;
  if (!unbound) PODLANE_TRY(check_umem(request.memfd.get(), lane.description.xsk->umem));
  // Neither veth nor TUN has a NAPI id for AF_XDP: only a NIC's queue can be busy-polled.
  const XskPlan plan{.xsk = *lane.description.xsk,
                     .zero_copy = lane.zero_copy,
                     .busy_poll = lane.description.kind == lane::Kind::kQueue};
  Result<XskMade> made = fail(Errc::kIo, "not made");
  const auto make = [&]() -> Result<void> {
    made = unbound ? make_unbound_xsk(plan) : make_finished_xsk(plan, request.memfd.get());
    if (!made) return std::unexpected(made.error());
    return {};
  };
  auto done = lane.socket_in_pod_netns ? net::run_in_netns(request.netns.get(), make) : make();
  if (done) return made;
  if (done.error().code() == Errc::kInvalid) return std::unexpected(std::move(done).error().as(Errc::kIo));
  return std::unexpected(std::move(done).error());
}

// A killed owner's TUN queue goes some ms after its sockets: the kernel closes one descriptor after the other.
Result<UniqueFd> attach_patiently(const std::string& name, bool multi_queue, bool vnet_hdr,
                                  std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto attached = net::tun_attach(name, multi_queue, vnet_hdr);
    if (attached) return attached;
    const int error = attached.error().errno_value();
    if (error == EBUSY && std::chrono::steady_clock::now() < deadline) {
      ::poll(nullptr, 0, 2);
      continue;
    }
    if (error == EBUSY) return std::unexpected(std::move(attached).error().with("another owner holds the TUN"));
    return std::unexpected(std::move(attached).error().as(Errc::kIo));
  }
}

Result<void> attach_tuns(const GrantRequest& request, Grant& grant) {
  return net::run_in_netns(request.netns.get(), [&]() -> Result<void> {
    char name[IF_NAMESIZE] = {};
    if (::if_indextoname(static_cast<unsigned>(grant.description.ifindex), name) == nullptr) {
      return fail(Errc::kGone, "the lane's TUN " + grant.description.ifname + " is not there any more");
    }
    grant.description.ifname = name;  // The pod may have renamed it.
    const auto deadline = std::chrono::steady_clock::now() + kBindPatience;
    for (std::uint32_t queue = 0; queue < request.lane.tun_queues; ++queue) {
      PODLANE_TRY_ASSIGN(UniqueFd tun,
                         attach_patiently(name, request.lane.tun_multi_queue, request.vnet_hdr, deadline));
      grant.tuns.push_back(std::move(tun));
      grant.description.fds.emplace_back("tun");
    }
    return {};
  });
}

}  // namespace

std::vector<int> Grant::fds() const {
  std::vector<int> list;
  if (xsk.valid()) list.push_back(xsk.get());
  for (const UniqueFd& tun : tuns) list.push_back(tun.get());
  return list;
}

Result<Grant> make_grant(HandoverOwner& owner, GrantRequest request) {
  Grant grant{.description = std::move(request.lane.description)};
  request.lane.description = grant.description;
  grant.description.fds.clear();
  grant.description.in_force = {};
  if (grant.description.xsk) {
    PODLANE_TRY_ASSIGN(XskMade made, make_xsk(request));
    grant.description.xsk = made.xsk;
    grant.description.in_force = {
        .zero_copy = made.zero_copy, .native_xdp = request.lane.native_xdp, .busy_poll = made.busy_poll};
    grant.description.fds.emplace_back("xsk");
    grant.xsk = std::move(made.socket);
  }
  PODLANE_TRY(attach_tuns(request, grant));
  if (grant.xsk.valid()) {
    auto installed = owner.install_socket(request.device, grant.xsk.get());
    if (!installed) return std::unexpected(std::move(installed).error().as(Errc::kIo).with("XSKMAP"));
  }
  return grant;
}

}  // namespace podlane::dp
