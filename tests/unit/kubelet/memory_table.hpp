// A LaneTable in memory: what the kubelet side needs of it, without a kernel object.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::test {

class MemoryTable final : public dp::LaneTable {
 public:
  // Pools with their number of devices.
  explicit MemoryTable(const std::map<std::string, int>& pools) {
    for (const auto& [pool, count] : pools) {
      for (int i = 0; i < count; ++i) devices_[pool].push_back({.id = pool + "-" + std::to_string(i), .why = {}});
    }
  }

  std::vector<dp::DeviceState> devices(const std::string& pool) override {
    const std::lock_guard lock(mutex_);
    return devices_[pool];
  }
  void on_health_change(std::function<void(const std::string&)> callback) override { callback_ = std::move(callback); }

  Result<dp::AllocateAnswer> allocate(const std::string& pool, const std::vector<std::string>& ids) override {
    const std::lock_guard lock(mutex_);
    if (ids.empty()) return fail(Errc::kInvalid, "allocate " + pool + ": no device id");
    std::set<std::string> seen;
    for (const std::string& id : ids) {
      if (!known(pool, id)) return fail(Errc::kInvalid, "allocate: device '" + id + "' is not of pool " + pool);
      if (!seen.insert(id).second) return fail(Errc::kInvalid, "allocate: device '" + id + "' is named twice");
    }
    ++allocations;
    const std::string number = std::to_string(allocations);
    return dp::AllocateAnswer{.environment = {{"PODLANE_LANES_" + pool, "/run/podlane/lanes/" + pool}},
                              .host_path = "/run/podlane/lanes/random" + number,
                              .container_path = "/run/podlane/lanes/" + pool};
  }
  Result<std::vector<std::string>> prefer(const std::string&, const std::vector<std::string>& available,
                                          const std::vector<std::string>& must_include, std::size_t count) override {
    std::vector<std::string> out = must_include;
    std::vector<std::string> sorted = available;
    std::sort(sorted.begin(), sorted.end());
    for (const std::string& id : sorted) {
      if (out.size() < count && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    }
    return out;
  }
  Result<void> pre_start(const std::string& pool, const std::vector<std::string>& ids) override {
    const std::lock_guard lock(mutex_);
    ++pre_starts;
    for (const std::string& id : ids) {
      if (!known(pool, id)) return fail(Errc::kNotFound, "pre-start: device '" + id + "' is not of pool " + pool);
    }
    if (!refuse_pre_start.empty()) return fail(Errc::kBusy, refuse_pre_start);
    return {};
  }
  std::vector<dp::LaneReport> report() override { return {}; }
  dp::TableCounters counters() override { return {}; }

  void set_health(const std::string& pool, std::size_t index, bool healthy) {
    {
      const std::lock_guard lock(mutex_);
      devices_[pool][index].healthy = healthy;
    }
    callback_(pool);
  }

  int allocations = 0;
  int pre_starts = 0;
  std::string refuse_pre_start;

 private:
  bool known(const std::string& pool, const std::string& id) {
    const auto& all = devices_[pool];
    return std::any_of(all.begin(), all.end(), [&](const dp::DeviceState& device) { return device.id == id; });
  }

  std::mutex mutex_;
  std::map<std::string, std::vector<dp::DeviceState>> devices_;
  std::function<void(const std::string&)> callback_;
};

}  // namespace podlane::test
