// CHECK: compares the journal with the pod's kernel objects, the IPAM plugins and the device plugin.
#include "cni/plugin/control.hpp"
#include "cni/plugin/lane_tun.hpp"
#include "cni/plugin/netns_visit.hpp"
#include "cni/plugin/undo.hpp"
#include "cni/plugin/verbs.hpp"

namespace podlane::cni {

namespace {

constexpr std::chrono::milliseconds kCheckTimeout{5000};

CniResult<void> check_pod(const Call& call, const journal::AttachmentRecord& record) {
  const auto netns = net::open_netns(call.args.netns);
  if (!netns) return fail(CniCode::kInvalidNetns, "CNI_NETNS: " + netns.error().message());
  PODLANE_TRY_ASSIGN(const NetnsVisit visit, NetnsVisit::enter(netns->get()));
  PODLANE_TRY_ASSIGN(net::RtNetlink netlink, net::RtNetlink::open());
  for (const journal::LaneRecord& lane : record.lanes) {
    const auto same = check_tun(netlink, lane, alias_of(call.args.container_id));
    if (!same) return fail(CniCode::kDiffers, same.error());
  }
  return {};
}

CniResult<void> check_prev_result(const Call& call, const journal::AttachmentRecord& record) {
  if (!call.conf.prev_result)
    return fail(CniCode::kInvalidConfig, "prevResult is missing; CHECK needs the result of ADD");
  const auto reader = json::Reader::open(*call.conf.prev_result, "prevResult");
  const auto interfaces = reader ? reader->optional_objects("interfaces") : std::unexpected(reader.error());
  if (!interfaces) return fail(CniCode::kInvalidConfig, interfaces.error());
  for (const journal::LaneRecord& lane : record.lanes) {
    bool found = false;
    for (const json::Reader& interface : *interfaces) {
      const auto name = interface.optional_string("name");
      found |= name && *name == lane.ifname;
    }
    if (!found) return fail(CniCode::kDiffers, "prevResult.interfaces does not have " + lane.ifname);
  }
  return {};
}

CniResult<void> check_leases(const Call& call, const std::optional<journal::AddressRecord>& addresses) {
  if (!addresses) return {};
  for (journal::IpamCall ipam : addresses->calls) {
    // A plugin under its own name checks against the result of ADD (CNI 1.1, section 4).
    if (ipam.ifname == call.args.ifname) ipam.config = call.conf.whole;
    const auto answer = journal::call_ipam(ipam, "CHECK", {.timeout = call.deadline.left(kCheckTimeout)});
    if (!answer) {
      return std::unexpected(
          CniError(answer.error().cni_code.value_or(static_cast<int>(CniCode::kIpam)), answer.error().error.message()));
    }
  }
  return {};
}

CniResult<void> check_device_plugin(const Call& call, const journal::AttachmentRecord& record) {
  if (!record.with_daemon) return {};
  lane::CheckRequest request{.attachment = {call.conf.name, call.args.container_id, call.args.ifname}, .lanes = {}};
  for (const journal::LaneRecord& lane : record.lanes) {
    request.lanes.push_back({.device = lane.device,
                             .tun_name = lane.ifname,
                             .tun_ifindex = lane.ifindex,
                             .addresses = lane.addresses,
                             .mtu = lane.mtu,
                             .queues = lane.queues});
  }
  const auto answer = ask_device_plugin(call, request, -1, call.deadline.left(kCheckTimeout));
  if (!answer && answer.error().code == static_cast<int>(CniCode::kTryAgainLater)) {
    // Lanes live on without the device plugin; a pod must not be called broken while it restarts.
    call.log.warn("CHECK without the device plugin", {{"err", answer.error().message}});
    return {};
  }
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace

CniResult<std::string> cmd_check(const Call& call) {
  if (call.conf.version < Version::k0_4_0) {
    return fail(CniCode::kIncompatibleVersion, "CHECK needs cniVersion 0.4.0 or later");
  }
  std::vector<Error> problems;
  const Remains remains = read_remains(call.journal, call.key(), problems);
  for (const Error& problem : problems) return fail(CniCode::kInternal, problem);
  if (!remains.attachment) {
    const bool chained_without_us =
        call.conf.prev_result && !call.conf.annotated() && call.conf.select != Select::kAll && !call.conf.ipam_type;
    if (chained_without_us) return std::string();
    return fail(CniCode::kUnknownContainer, "container " + call.args.container_id + " is not attached to network " +
                                                call.conf.name + " as " + call.args.ifname);
  }
  PODLANE_TRY(check_prev_result(call, *remains.attachment));
  PODLANE_TRY(check_pod(call, *remains.attachment));
  PODLANE_TRY(check_leases(call, remains.addresses));
  PODLANE_TRY(check_device_plugin(call, *remains.attachment));
  return std::string();
}

}  // namespace podlane::cni
