#include "cni/plugin/lane_work.hpp"

#include <algorithm>

#include "lib/net/tun.hpp"

namespace podlane::cni {

namespace {

using net::Family;
using net::IpAddress;
using net::IpPrefix;

std::string pool_of(const LaneWork& work) {
  return work.plan ? work.plan->pool : std::string();
}

// "lane0" → "lane0", "lane1", …; a name without a number comes first itself, then with 1, 2, ….
std::string counted_name(const std::string& first, std::size_t n) {
  if (n == 0) return first;
  const std::size_t digits = first.find_last_not_of("0123456789") + 1;
  // Nine digits always fit; an interface name that is all digits has at most fifteen.
  const std::string number = first.substr(std::max(digits, first.size() > 9 ? first.size() - 9 : 0));
  const std::string stem = first.substr(0, first.size() - number.size());
  return stem + std::to_string((number.empty() ? 0 : std::stoul(number)) + n);
}

// host-local 1.1 and other IPAM plugins of its time know versions up to 1.0.0, and 1.1.0 changed nothing in what an
// IPAM plugin answers. GC and STATUS, which are new there, are sent as 1.1.0 (cmd_gc.cpp).
constexpr std::string_view kPoolIpamVersion = "1.0.0";

journal::IpamCall pool_ipam_call(const Call& call, const LaneWork& work, const json::Value& ipam) {
  json::Value config{{"cniVersion", kPoolIpamVersion}, {"name", "podlane-" + pool_of(work)}, {"type", "podlane"}};
  config["ipam"] = ipam;
  if (!work.fixed_addresses.empty()) {
    json::Value addresses = json::Value::array();
    for (const IpPrefix& address : work.fixed_addresses) addresses.push_back(address.to_string());
    config["runtimeConfig"] = {{"ips", std::move(addresses)}};
  }
  const auto type = ipam.find("type");
  return {.plugin = type != ipam.end() && type->is_string() ? type->get<std::string>() : std::string(),
          .cni_path = call.args.path,
          .container_id = call.args.container_id,
          .netns_path = call.args.netns,
          .ifname = work.tun.name,
          .args = call.args.kubernetes_args,
          .config = std::move(config)};
}

CniResult<void> read_plan(LaneWork& work, const lane::LanePlan& plan) {
  for (const std::string& text : plan.fixed_addresses) {
    const auto prefix = net::parse_ip_prefix(text);
    if (!prefix) return fail(CniCode::kProtocol, "device plugin: fixedAddresses: " + prefix.error().message());
    work.fixed_addresses.push_back(*prefix);
  }
  for (const std::string& text : plan.subnets) {
    const auto prefix = net::parse_ip_prefix(text);
    if (!prefix) return fail(CniCode::kProtocol, "device plugin: subnets: " + prefix.error().message());
    work.subnets.push_back(prefix->network());
  }
  for (const std::string& text : plan.gateways) {
    const auto address = net::parse_ip(text);
    if (!address) return fail(CniCode::kProtocol, "device plugin: gateways: " + address.error().message());
    work.gateways.push_back(*address);
  }
  return {};
}

TunPlan tun_of(const Call& call, std::string name) {
  const TunConf& conf = call.conf.tun;
  return {.name = std::move(name),
          .alias = alias_of(call.args.container_id),
          .mtu = conf.mtu.value_or(1500),
          .tx_queue_len = conf.tx_queue_len,
          .multi_queue = conf.queues > 1,
          .offloads = conf.offloads};
}

void add_route(TunPlan& tun, const IpPrefix& destination, const std::optional<IpAddress>& gateway) {
  if (std::ranges::any_of(tun.routes, [&](const TunRoute& route) { return route.destination == destination; })) return;
  tun.routes.push_back({.destination = destination, .gateway = gateway});
}

// A lane's own table: its subnets, then everything else through the gateway of each family.
void put_lane_routes(LaneWork& work) {
  TunPlan& tun = work.tun;
  for (const ResultAddress& address : work.result_addresses) {
    const Family family = address.address.family();
    add_route(tun, address.address.network(), {});
    for (const IpPrefix& subnet : work.subnets) {
      if (subnet.family() == family) add_route(tun, subnet, {});
    }
    std::optional<IpAddress> gateway = address.gateway;
    for (const IpAddress& of_pool : work.gateways) {
      if (of_pool.family == family) gateway = of_pool;  // The pool's word counts more than the IPAM plugin's.
    }
    if (gateway) add_route(tun, {IpAddress{family, {}}, 0}, gateway);
  }
  for (const ResultRoute& route : work.result_routes) add_route(tun, route.destination, route.gateway);
}

CniResult<void> check_addresses(const LaneWork& work) {
  for (const ResultAddress& address : work.result_addresses) {
    if (work.subnets.empty()) break;
    if (std::ranges::none_of(work.subnets, [&](const IpPrefix& s) { return s.contains(address.address.address); })) {
      return fail(CniCode::kRefused, "address " + address.address.to_string() + " of " + work.tun.name +
                                         " is outside the subnets of pool " + pool_of(work));
    }
  }
  for (const IpPrefix& fixed : work.fixed_addresses) {
    if (std::ranges::none_of(work.result_addresses,
                             [&](const ResultAddress& got) { return got.address.address == fixed.address; })) {
      return fail(CniCode::kRefused, "IPAM plugin " + (work.ipam ? work.ipam->plugin : std::string("?")) +
                                         " did not give the fixed address " + fixed.to_string() +
                                         ": it must honour the capability 'ips'");
    }
  }
  return {};
}

void finish_addresses(LaneWork& work) {
  for (const ResultAddress& address : work.result_addresses) work.tun.addresses.push_back(address.address);
  if (work.plan) {
    put_lane_routes(work);
    return;
  }
  for (const ResultRoute& route : work.result_routes) add_route(work.tun, route.destination, route.gateway);
}

}  // namespace

journal::IpamCall own_ipam_call(const Call& call) {
  return {.plugin = call.conf.ipam_type.value_or(""),
          .cni_path = call.args.path,
          .container_id = call.args.container_id,
          .netns_path = call.args.netns,
          .ifname = call.args.ifname,
          .args = call.args.args,
          .config = call.conf.whole};
}

CniResult<std::vector<LaneWork>> work_of_plans(const Call& call, std::vector<lane::LanePlan> plans) {
  const bool chained = call.conf.prev_result.has_value();
  std::vector<LaneWork> works;
  for (lane::LanePlan& plan : plans) {
    const std::size_t n = works.size();
    std::string name = counted_name(call.conf.tun.name, n);
    if (!chained && n == 0) name = call.args.ifname;
    if (!is_interface_name(name)) {
      return fail(CniCode::kInvalidConfig, "tun.name '" + call.conf.tun.name + "' is too long to count up to lane " +
                                               std::to_string(n) + ": '" + name + "' must have at most 15 bytes");
    }
    LaneWork work{.tun = tun_of(call, name), .queues = call.conf.tun.queues};
    PODLANE_TRY(read_plan(work, plan));
    work.tun.owner = net::kNobodyRunsAs;
    work.tun.mtu = std::min(plan.mtu, call.conf.tun.mtu.value_or(plan.mtu));
    work.plan = std::move(plan);
    if (!chained && n == 0 && call.conf.ipam_type) {
      work.ipam = own_ipam_call(call);
    } else if (work.plan->ipam) {
      work.ipam = pool_ipam_call(call, work, *work.plan->ipam);
    } else if (work.fixed_addresses.empty()) {
      return fail(CniCode::kRefused, "pool " + work.plan->pool + " has no 'ipam': lane " + name +
                                         " needs a fixed address, annotation podlane.io/addresses." + work.plan->pool);
    }
    works.push_back(std::move(work));
  }
  return works;
}

CniResult<LaneWork> work_of_plain_tun(const Call& call) {
  const TunConf& conf = call.conf.tun;
  if (!conf.owner) {
    return fail(CniCode::kInvalidConfig,
                "tun.owner is missing; it must be the uid (1 to 4294967294) that may open the plain TUN of a pod "
                "without lanes");
  }
  const bool chained = call.conf.prev_result.has_value();
  LaneWork work{.tun = tun_of(call, chained ? conf.name : call.args.ifname), .queues = conf.queues};
  work.tun.owner = *conf.owner;
  work.tun.own_table = false;
  work.tun.addresses = conf.addresses;
  work.tun.routes = conf.routes;
  for (const IpPrefix& address : conf.addresses) work.result_addresses.push_back({.address = address});
  for (const TunRoute& route : conf.routes) work.result_routes.push_back({route.destination, route.gateway});
  if (call.conf.ipam_type) work.ipam = own_ipam_call(call);
  return work;
}

CniResult<void> take_ipam_result(LaneWork& work, std::string_view text) {
  auto result = parse_ipam_result(text);
  if (!result) return fail(CniCode::kIpam, "IPAM plugin " + work.ipam->plugin + ": " + result.error().message());
  // A plain TUN keeps NetConf's own addresses beside the IPAM plugin's; those are in the plan already.
  LaneWork got{.tun = work.tun,
               .queues = work.queues,
               .plan = work.plan,
               .ipam = work.ipam,
               .fixed_addresses = work.fixed_addresses,
               .subnets = work.subnets,
               .gateways = work.gateways};
  got.result_addresses = result->addresses;
  got.result_routes = result->routes;
  PODLANE_TRY(check_addresses(got));
  finish_addresses(got);
  got.result_addresses.insert(got.result_addresses.begin(), work.result_addresses.begin(), work.result_addresses.end());
  got.result_routes.insert(got.result_routes.begin(), work.result_routes.begin(), work.result_routes.end());
  got.dns = std::move(result->dns);
  work = std::move(got);
  return {};
}

CniResult<void> take_fixed_addresses(LaneWork& work) {
  if (!work.plan) return {};
  for (const IpPrefix& address : work.fixed_addresses) work.result_addresses.push_back({.address = address});
  PODLANE_TRY(check_addresses(work));
  finish_addresses(work);
  return {};
}

journal::LaneRecord record_of(const LaneWork& work) {
  journal::LaneRecord record{.pool = pool_of(work),
                             .device = work.plan ? work.plan->device : std::string(),
                             .ifname = work.tun.name,
                             .ifindex = work.made.ifindex,
                             .table = work.made.table,
                             .mtu = work.tun.mtu,
                             .queues = work.queues,
                             .owner = work.tun.owner};
  for (const IpPrefix& address : work.tun.addresses) record.addresses.push_back(address.to_string());
  return record;
}

}  // namespace podlane::cni
