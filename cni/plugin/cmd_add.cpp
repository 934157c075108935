// ADD.
//
// How it works. A pod that is none of our business gets prevResult back before anything is opened. Otherwise:
//   lock → intent on tmpfs → `attach` (the device plugin reserves and answers with plans) → plans on tmpfs, leases to
//   be on disk → IPAM per lane → TUN, addresses, table, rules per lane → what was made on tmpfs → `commit` → result.
// Every step is written down before it is made, and what is written down is enough to undo it: one guard stands from
// the first record on and runs the same code as DEL. So a process that is killed anywhere leaves what the runtime's
// DEL, GC or the device plugin's reconcile can clean.
#include <fcntl.h>
#include <sys/stat.h>

#include "cni/plugin/control.hpp"
#include "cni/plugin/lane_work.hpp"
#include "cni/plugin/netns_visit.hpp"
#include "cni/plugin/undo.hpp"
#include "cni/plugin/verbs.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/net/veth_pair.hpp"

namespace podlane::cni {

namespace {

constexpr std::chrono::milliseconds kAttachTimeout{40000};
constexpr std::chrono::milliseconds kIpamTimeout{30000};

CniResult<void> check_combination(const Call& call, bool chained, Select select) {
  const NetConf& conf = call.conf;
  if (chained && conf.ipam_type) {
    return fail(CniCode::kInvalidConfig, "ipam.type '" + *conf.ipam_type +
                                             "' must not be there when chained: a lane's addresses come from its pool");
  }
  const bool plain_possible = select == Select::kAll;
  if (!plain_possible && (!conf.tun.addresses.empty() || !conf.tun.routes.empty())) {
    return fail(CniCode::kInvalidConfig,
                "tun.addresses and tun.routes are for plain TUNs and need select 'all': a lane's come from its pool");
  }
  if (!chained && select == Select::kAnnotated && !conf.annotated()) {
    return fail(CniCode::kInvalidConfig,
                "select 'annotated' without prevResult must be 'all': a pod without podlane.io annotations would get "
                "no interface " +
                    call.args.ifname);
  }
  return {};
}

CniResult<UniqueFd> open_pod_netns(const Call& call) {
  auto netns = net::open_netns(call.args.netns);
  if (!netns) return fail(CniCode::kInvalidNetns, "CNI_NETNS: " + netns.error().message());
  struct stat pod {
  }, own{};
  if (!call.args.netns_override && ::fstat(netns->get(), &pod) == 0 && ::stat("/proc/self/ns/net", &own) == 0 &&
      pod.st_ino == own.st_ino && pod.st_dev == own.st_dev) {
    return fail(CniCode::kInvalidNetns,
                "CNI_NETNS '" + call.args.netns + "' is the namespace that podlane runs in; it must be the pod's");
  }
  return std::move(*netns);
}

// An ADD that was killed before it had made its interfaces may come again without its DEL; one that had them may not.
CniResult<void> clear_earlier_try(const Call& call, int lock_fd) {
  std::vector<Error> problems;
  Remains remains = read_remains(call.journal, call.key(), problems);
  if (remains.attachment && remains.attachment->state == journal::RecordState::kMade) {
    return fail(CniCode::kExists, "container " + call.args.container_id + " is attached to network " + call.conf.name +
                                      " as " + call.args.ifname + " already; DEL must come first");
  }
  auto waits = call.journal.has_pending_delete(call.key());
  const bool delete_waits = !waits || *waits;
  remains.ask_daemon |= delete_waits;
  if (remains.attachment || remains.addresses || delete_waits) {
    for (Error& problem : undo(call, remains, Deadline(kDelTimeout), lock_fd)) problems.push_back(std::move(problem));
  }
  for (const Error& problem : problems) call.log.warn("earlier try", {{"err", problem.message()}});
  waits = call.journal.has_pending_delete(call.key());
  // The device plugin would carry it out on the lanes that this ADD is about to get.
  if (call.conf.annotated() && waits && *waits) {
    return fail(CniCode::kTryAgainLater,
                "an earlier DEL of this container still waits for the device plugin at " + call.conf.socket);
  }
  return {};
}

CniResult<std::vector<LaneWork>> attach(const Call& call, Remains& remains, int netns_fd) {
  lane::AttachRequest request{.attachment = {call.conf.name, call.args.container_id, call.args.ifname},
                              .pod = {call.args.pod_namespace, call.args.pod_name, call.args.pod_uid},
                              .annotations = call.conf.annotations,
                              .netns_path = call.args.netns};
  auto received = lane::control_call(call.conf.socket, request, netns_fd, call.deadline.left(kAttachTimeout));
  // Where no connection came about, nothing was reserved and nothing needs detaching. After any other failure the device
  // plugin may have taken the request, or take it yet.
  remains.ask_daemon = received || received.error().code() != Errc::kUnavailable;
  PODLANE_TRY_ASSIGN(lane::ControlAnswer answer, granted(std::move(received)));
  if (answer.lanes.empty()) return fail(CniCode::kProtocol, "the device plugin attached the pod but named no lane");
  return work_of_plans(call, std::move(answer.lanes));
}

CniResult<void> ask_ipam(const Call& call, std::vector<LaneWork>& works, Remains& remains, int lock_fd) {
  journal::AddressRecord record{
      .key = call.key(), .boot_id = remains.attachment->boot_id, .netns_path = call.args.netns, .calls = {}};
  for (const LaneWork& work : works) {
    if (!work.ipam) continue;
    // A plugin that is not there took no lease: nothing to write down, nothing to release for ever.
    if (const auto found = journal::find_ipam_plugin(*work.ipam); !found) return fail(CniCode::kIpam, found.error());
    record.calls.push_back(*work.ipam);
  }
  if (!record.calls.empty()) {
    // On disk before the first lease is taken: who holds what must be known after a reboot too.
    PODLANE_TRY(call.journal.write_addresses(record));
    remains.addresses = std::move(record);
  }
  for (LaneWork& work : works) {
    if (!work.ipam) {
      PODLANE_TRY(take_fixed_addresses(work));
      continue;
    }
    const auto answer =
        journal::call_ipam(*work.ipam, "ADD", {.timeout = call.deadline.left(kIpamTimeout), .inherit_fd = lock_fd});
    if (!answer) {
      return std::unexpected(
          CniError(answer.error().cni_code.value_or(static_cast<int>(CniCode::kIpam)), answer.error().error.message()));
    }
    PODLANE_TRY(take_ipam_result(work, *answer));
  }
  return {};
}

CniResult<void> open_veths(const std::vector<LaneWork>& works, int netns_fd) {
  for (const LaneWork& work : works) {
    if (!work.plan || work.plan->veth.host.value == 0) continue;
    auto opened = net::open_veth_pair({work.plan->veth.host, work.plan->veth.pod}, netns_fd, work.plan->mtu);
    if (!opened) return std::unexpected(CniError(std::move(opened).error().with("open the veth of", work.plan->device)));
  }
  return {};
}

CniResult<void> make_tuns(const Call& call, std::vector<LaneWork>& works, Remains& remains, int netns_fd) {
  PODLANE_TRY_ASSIGN(const NetnsVisit visit, NetnsVisit::enter(netns_fd));
  PODLANE_TRY_ASSIGN(net::RtNetlink netlink, net::RtNetlink::open());
  for (std::size_t i = 0; i < works.size(); ++i) {
    auto made = make_tun(netlink, works[i].tun);
    if (!made) return std::unexpected(CniError(std::move(made).error().with("make", works[i].tun.name)));
    works[i].made = *made;
    remains.attachment->lanes[i] = record_of(works[i]);
  }
  (void)call;
  return {};
}

CniResult<void> commit(const Call& call, const std::vector<LaneWork>& works) {
  lane::CommitRequest request{.attachment = {call.conf.name, call.args.container_id, call.args.ifname}, .lanes = {}};
  for (const LaneWork& work : works) {
    lane::LaneMade made{.device = work.plan->device, .tun_name = work.tun.name, .tun_ifindex = work.made.ifindex};
    made.mtu = work.tun.mtu;
    made.queues = work.queues;
    for (const net::IpPrefix& address : work.tun.addresses) made.addresses.push_back(address.to_string());
    request.lanes.push_back(std::move(made));
  }
  PODLANE_TRY(ask_device_plugin(call, request, -1, call.deadline.left(kAttachTimeout)));
  return {};
}

CniResult<std::string> result_of(const Call& call, const std::vector<LaneWork>& works) {
  std::vector<ResultInterface> interfaces;
  std::vector<ResultAddress> addresses;
  std::vector<ResultRoute> routes;
  std::optional<json::Value> dns;
  for (const LaneWork& work : works) {
    for (ResultAddress address : work.result_addresses) {
      address.interface = interfaces.size();
      addresses.push_back(address);
    }
    routes.insert(routes.end(), work.result_routes.begin(), work.result_routes.end());
    if (work.dns) dns = work.dns;
    interfaces.push_back({.name = work.tun.name,
                          .sandbox = call.args.netns,
                          .mtu = work.tun.mtu,
                          .socket_path = work.plan ? work.plan->socket_path : std::string(),
                          .pci_id = work.plan ? work.plan->pci_id.value_or("") : std::string()});
  }
  const Version version = call.conf.version;
  if (!call.conf.prev_result) return json::dump(own_result(interfaces, addresses, routes, dns, version));
  PODLANE_TRY_ASSIGN(json::Value result, take_over(*call.conf.prev_result, version));
  for (const ResultInterface& interface : interfaces) append_interface(result, interface, version);
  return json::dump(result);
}

CniResult<std::string> add_interfaces(const Call& call) {
  if (call.conf.annotated() && (call.args.pod_namespace.empty() || call.args.pod_name.empty())) {
    return fail(CniCode::kInvalidEnvironment,
                "CNI_ARGS '" + call.args.args + "' must hold K8S_POD_NAMESPACE and K8S_POD_NAME for a pod with lanes");
  }
  PODLANE_TRY_ASSIGN(const UniqueFd netns, open_pod_netns(call));
  PODLANE_TRY_ASSIGN(const journal::AttachmentLock lock,
                     call.journal.lock(call.key(), call.deadline.left(kAttachTimeout)));
  PODLANE_TRY(clear_earlier_try(call, lock.fd()));

  Remains remains{.key = call.key(), .netns_path = call.args.netns, .ask_daemon = call.conf.annotated()};
  PODLANE_TRY_ASSIGN(std::string boot_id, journal::read_boot_id());
  remains.attachment = journal::AttachmentRecord{.key = call.key(),
                                                 .boot_id = std::move(boot_id),
                                                 .netns_path = call.args.netns,
                                                 .pod_namespace = call.args.pod_namespace,
                                                 .pod_name = call.args.pod_name,
                                                 .pod_uid = call.args.pod_uid,
                                                 .with_daemon = call.conf.annotated()};
  PODLANE_TRY(call.journal.write(*remains.attachment));
  ScopeGuard undo_all([&] {
    for (const Error& problem : undo(call, remains, Deadline(kDelTimeout), lock.fd())) {
      call.log.warn("undo of a failed ADD", {{"err", problem.message()}});
    }
    (void)call.journal.retire_lock(call.key(), lock);
  });

  std::vector<LaneWork> works;
  if (call.conf.annotated()) {
    PODLANE_TRY_ASSIGN(works, attach(call, remains, netns.get()));
  } else {
    PODLANE_TRY_ASSIGN(LaneWork work, work_of_plain_tun(call));
    works.push_back(std::move(work));
  }
  for (const LaneWork& work : works) remains.attachment->lanes.push_back(record_of(work));
  PODLANE_TRY(call.journal.write(*remains.attachment));
  PODLANE_TRY(ask_ipam(call, works, remains, lock.fd()));
  PODLANE_TRY(make_tuns(call, works, remains, netns.get()));
  PODLANE_TRY(open_veths(works, netns.get()));
  remains.attachment->state = journal::RecordState::kMade;
  PODLANE_TRY(call.journal.write(*remains.attachment));
  if (call.conf.annotated()) PODLANE_TRY(commit(call, works));
  PODLANE_TRY_ASSIGN(std::string result, result_of(call, works));
  undo_all.release();
  for (const LaneWork& work : works) {
    call.log.info("interface made", {{"container_id", call.args.container_id},
                                     {"ifname", work.tun.name},
                                     {"lane", work.plan ? work.plan->device : std::string("none")},
                                     {"pod", call.args.pod_namespace + "/" + call.args.pod_name}});
  }
  return result;
}

}  // namespace

CniResult<std::string> cmd_add(const Call& call) {
  const bool chained = call.conf.prev_result.has_value();
  const Select select = call.conf.select.value_or(chained ? Select::kAnnotated : Select::kAll);
  PODLANE_TRY(check_combination(call, chained, select));
  if (chained) {
    // A result that we cannot hand on must fail before anything is made.
    PODLANE_TRY_ASSIGN(const json::Value untouched, take_over(*call.conf.prev_result, call.conf.version));
    if (!call.conf.annotated() && select == Select::kAnnotated) return json::dump(untouched);
  }
  return add_interfaces(call);
}

}  // namespace podlane::cni
