// The daemon's metrics in Prometheus' text format; names and labels in docs/metrics.md. Any thread.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/kubelet/kubelet_counters.hpp"
#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::dp {

struct MetricsInput {
  std::vector<PoolStatus> pools;
  std::vector<std::pair<std::string, std::vector<DeviceState>>> devices;  // By pool.
  std::vector<LaneReport> lanes;
  TableCounters table;
};

std::string render_metrics(const MetricsInput& input);

}  // namespace podlane::dp
