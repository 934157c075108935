// Pools of kind onload: nothing is built for them, so all that there is to do is to look whether the node has Onload,
// to say so by the devices' health, and to answer Allocate. A look costs some reads of small files.
#include <algorithm>

#include "deviceplugin/lanes/onload_answer.hpp"
#include "deviceplugin/lanes/table.hpp"

namespace podlane::dp {

AllocateAnswer onload_answer(const OnloadOffer& offer, lane::Mode mode, const std::vector<std::uint32_t>& devices) {
  return {.environment = environment_of(offer, devices),
          .host_path = {},
          .container_path = {},
          .device_nodes = offer.device_nodes,
          .files = offer.libraries,
          .note = describe(offer, mode)};
}

void Table::look_at_onload() {
  // Set when the store was made, never added to: any thread may ask whether it is empty.
  if (store_.onload().empty()) return;
  const OnloadNode node = onload_reader_.read();
  std::vector<std::pair<std::string, OnloadOffer>> changed;
  in_state([&](LaneStore& store) {
    for (auto& [name, offer] : store.onload()) {
      OnloadOffer now = offer_of(*store.pool(name), node);
      if (now == offer) continue;
      offer = std::move(now);
      changed.emplace_back(name, offer);
      if (health_callback_) health_callback_(name);
    }
  });
  for (const auto& [name, offer] : changed) {
    for (const std::string& warning : offer.warnings) log_.warn("onload", {{"pool", name}, {"warning", warning}});
    if (!offer.why.empty()) {
      log_.error("the devices of an onload pool are unhealthy", {{"pool", name}, {"why", offer.why}});
      continue;
    }
    const PoolConfig& pool = *store_.pool(name);  // The configuration never changes.
    log_.info("onload found", {{"pool", name},
                               {"version", node.version},
                               {"library", offer.libraries.front()},
                               {"mode", describe(offer, pool.default_mode)}});
    if (offer.channels != 0 && pool.lanes > offer.channels) {
      log_.error("some devices of an onload pool are unhealthy",
                 {{"pool", name}, {"why", offer.why_unhealthy(offer.channels)}});
    }
  }
}

void Table::note_listed(const LaneRecord& record, const std::vector<PodDevices>& listing) {
  const auto entry = std::find_if(listing.begin(), listing.end(), [&](const PodDevices& one) {
    return std::find(one.device_ids.begin(), one.device_ids.end(), record.device) != one.device_ids.end();
  });
  in_state([&](LaneStore& store) {
    Lane* const lane = store.find(record.device);
    if (lane == nullptr || lane->record.directory != record.directory) return;
    lane::PodName pod;
    if (entry != listing.end()) pod = {.name_space = entry->name_space, .name = entry->pod, .uid = {}};
    if (lane->listed_pod.name == pod.name && lane->listed_pod.name_space == pod.name_space) return;
    lane->listed_pod = std::move(pod);
    lane->listed_container = entry == listing.end() ? std::string() : entry->container;
    lanes_changed();
  });
}

}  // namespace podlane::dp
