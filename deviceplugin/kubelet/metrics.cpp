#include "deviceplugin/kubelet/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>

namespace podlane::dp {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Kernel counters that count lost frames (bpf/abi/lane_abi.h); the others count frames that went on or were answered.
constexpr std::array<std::string_view, 4> kDropNames = {"rx_no_socket", "rx_wrong_queue", "tx_bad_source",
                                                        "tx_same_node_queue"};
// An owner's counters come from a pod: bounded in number and in letters, so that a pod cannot grow or break the page.
constexpr std::size_t kMaxOwnerCounters = 64;
constexpr std::size_t kMaxOwnerNameLength = 64;

MetricFamily family(std::string name, std::string help, MetricType type) {
  return {.name = std::move(name), .help = std::move(help), .type = type, .metric = {}};
}

void add(MetricFamily& to, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  metric.gauge.value = value;
  to.metric.push_back(std::move(metric));
}

bool is_counter_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOwnerNameLength && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Labels lane_labels(const LaneReport& lane) {
  return {{"pool", lane.pool}, {"device", lane.device}, {"namespace", lane.pod_namespace}, {"pod", lane.pod}};
}

void add_pools(const MetricsInput& input, std::vector<MetricFamily>& out) {
  MetricFamily registered =
      family("podlane_kubelet_registered", "1 while the kubelet has accepted the pool and reads its devices.",
             MetricType::Gauge);
  for (const PoolStatus& pool : input.pools) add(registered, {{"pool", pool.pool}}, pool.registered ? 1 : 0);
  out.push_back(std::move(registered));
  struct Column {
    const char* name;
    const char* help;
    std::uint64_t PoolStatus::*value;
  };
  static constexpr Column kColumns[] = {
      {"podlane_kubelet_registrations_total", "Registrations the kubelet accepted.", &PoolStatus::registrations_total},
      {"podlane_kubelet_registration_errors_total", "Registrations that failed.",
       &PoolStatus::registration_errors_total},
      {"podlane_kubelet_streams_total", "ListAndWatch streams the kubelet opened.", &PoolStatus::streams_total},
      {"podlane_allocations_total", "Container requests that Allocate answered.", &PoolStatus::allocations_total},
      {"podlane_allocation_errors_total", "Container requests that Allocate refused.",
       &PoolStatus::allocation_errors_total},
      {"podlane_pre_starts_total", "PreStartContainer calls.", &PoolStatus::pre_starts_total},
      {"podlane_pre_start_errors_total", "PreStartContainer calls that were refused.",
       &PoolStatus::pre_start_errors_total}};
  for (const Column& column : kColumns) {
    MetricFamily one = family(column.name, column.help, MetricType::Counter);
    for (const PoolStatus& pool : input.pools) {
      add(one, {{"pool", pool.pool}}, static_cast<double>(pool.*column.value));
    }
    out.push_back(std::move(one));
  }
}

void add_devices(const MetricsInput& input, std::vector<MetricFamily>& out) {
  MetricFamily devices = family("podlane_devices", "Devices told to the kubelet, by health.", MetricType::Gauge);
  for (const auto& [pool, states] : input.devices) {
    const auto healthy = std::count_if(states.begin(), states.end(), [](const DeviceState& s) { return s.healthy; });
    add(devices, {{"pool", pool}, {"health", "healthy"}}, static_cast<double>(healthy));
    add(devices, {{"pool", pool}, {"health", "unhealthy"}},
        static_cast<double>(states.size()) - static_cast<double>(healthy));
  }
  out.push_back(std::move(devices));
}

void add_lanes(const MetricsInput& input, std::vector<MetricFamily>& out) {
  MetricFamily by_state = family("podlane_lanes", "Lanes by pool and state.", MetricType::Gauge);
  MetricFamily info = family("podlane_lane_info", "1 for each lane that a pod holds; what it is and what is in force.",
                             MetricType::Gauge);
  MetricFamily frames = family("podlane_lane_kernel_frames_total",
                               "Frames the kernel's programs carried or answered for the lane.", MetricType::Counter);
  MetricFamily drops = family("podlane_lane_kernel_drops_total",
                              "Frames the kernel's programs dropped for the lane, by reason.", MetricType::Counter);
  MetricFamily owner = family("podlane_lane_owner_total", "Counters that the lane's owner in the pod last reported.",
                              MetricType::Counter);
  std::map<std::pair<std::string, std::string>, std::size_t> states;
  for (const LaneReport& lane : input.lanes) {
    ++states[{lane.pool, lane.state}];
    if (lane.pod.empty()) continue;
    Labels labels = lane_labels(lane);
    labels.insert(labels.end(), {{"container", lane.container},
                                 {"kind", lane.kind},
                                 {"netdev", lane.netdev},
                                 {"queue", std::to_string(lane.queue)},
                                 {"interface", lane.ifname},
                                 {"path", lane.path},
                                 {"mode", lane.mode},
                                 {"zero_copy", lane.zero_copy ? "true" : "false"},
                                 {"xdp", lane.native_xdp ? "native" : "generic"},
                                 {"busy_poll", lane.busy_poll ? "true" : "false"}});
    add(info, std::move(labels), 1);
    for (const auto& [name, value] : lane.kernel_counters) {
      const bool drop = std::find(kDropNames.begin(), kDropNames.end(), name) != kDropNames.end();
      Labels of_one = lane_labels(lane);
      of_one.push_back({drop ? "reason" : "counter", name});
      add(drop ? drops : frames, std::move(of_one), static_cast<double>(value));
    }
    std::size_t taken = 0;
    for (const auto& [name, value] : lane.owner_counters) {
      if (!is_counter_name(name) || ++taken > kMaxOwnerCounters) continue;
      Labels of_one = lane_labels(lane);
      of_one.push_back({"counter", name});
      add(owner, std::move(of_one), static_cast<double>(value));
    }
  }
  for (const auto& [key, count] : states) {
    add(by_state, {{"pool", key.first}, {"state", key.second}}, static_cast<double>(count));
  }
  for (MetricFamily* one : {&by_state, &info, &frames, &drops, &owner}) out.push_back(std::move(*one));
}

void add_table(const TableCounters& table, std::vector<MetricFamily>& out) {
  const auto single = [&](const char* name, const char* help, std::uint64_t value) {
    MetricFamily one = family(name, help, MetricType::Counter);
    add(one, {}, static_cast<double>(value));
    out.push_back(std::move(one));
  };
  single("podlane_handovers_total", "Lanes handed over to a container.", table.handovers_total);
  single("podlane_attaches_total", "Pods attached by the CNI plugin's ADD.", table.attaches_total);
  single("podlane_detaches_total", "Pods detached by DEL or GC.", table.detaches_total);
  single("podlane_reconciled_total", "Leftovers that reconciling removed.", table.reconciled_total);
  MetricFamily refusals =
      family("podlane_handover_refusals_total", "Hand-overs refused, by the protocol's code.", MetricType::Counter);
  for (const auto& [code, count] : table.handover_refusals_total) {
    add(refusals, {{"code", code}}, static_cast<double>(count));
  }
  out.push_back(std::move(refusals));
}

}  // namespace

std::string render_metrics(const MetricsInput& input) {
  std::vector<MetricFamily> families;
  MetricFamily build = family("podlane_build_info", "1; the version that runs.", MetricType::Gauge);
  add(build, {{"version", PODLANE_VERSION}}, 1);
  families.push_back(std::move(build));
  add_pools(input, families);
  add_devices(input, families);
  add_lanes(input, families);
  add_table(input.table, families);
  // A family without a member would show as help text alone.
  std::erase_if(families, [](const MetricFamily& one) { return one.metric.empty(); });
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace podlane::dp
