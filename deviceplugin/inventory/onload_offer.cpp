#include "deviceplugin/inventory/onload_offer.hpp"

#include <algorithm>

#include "lib/onload/validate.hpp"

namespace podlane::dp {

namespace {

const OnloadNic* find_nic(const OnloadNode& node, const std::string& name) {
  const auto found =
      std::find_if(node.nics.begin(), node.nics.end(), [&](const OnloadNic& nic) { return nic.name == name; });
  return found == node.nics.end() ? nullptr : &*found;
}

// Without an interface the pool serves whatever Onload accelerates. Where one of these is reached by AF_XDP, its column
// counts: on a native NIC it costs a timer, the other way round it would cost 46 ms.
const OnloadNic* nic_that_counts(const OnloadNode& node) {
  const OnloadNic* counts = nullptr;
  for (const OnloadNic& nic : node.nics) {
    if (!nic.accelerated) continue;
    if (counts == nullptr || nic.transport == onload::Transport::kAfXdp) counts = &nic;
  }
  return counts;
}

std::string why_not(const PoolConfig& pool, const OnloadNode& node) {
  if (!node.why.empty() || pool.interface.empty()) return node.why;
  const OnloadNic* const nic = find_nic(node, pool.interface);
  if (nic == nullptr) return "there is no interface '" + pool.interface + "'";
  if (nic->accelerated) return {};
  const std::string driver = nic->driver.empty() ? "none" : nic->driver;
  return "Onload does not accelerate " + nic->name + " (driver " + driver + ")" +
         (nic->can_af_xdp ? "; register it: echo " + nic->name + " > /sys/module/sfc_resource/afxdp/register"
                          : ", and its driver has no XDP that Onload could use");
}

void check(OnloadOffer& offer, lane::Mode mode) {
  for (const onload::Finding& finding : onload::validate(offer.environment, {mode, offer.transport})) {
    const std::string words = finding.message + " (" + finding.rule + ")";
    if (finding.severity == onload::Severity::kWarning) offer.warnings.push_back(words);
    else if (offer.why.empty()) offer.why = "the pool's environment is wrong on this node: " + words;
  }
}

}  // namespace

std::string OnloadOffer::why_unhealthy(std::uint32_t device) const {
  if (!why.empty()) return why;
  if (channels == 0 || device < channels) return {};
  return nic + " has " + std::to_string(channels) + " channel" + (channels == 1 ? "" : "s") +
         " and over AF_XDP each of Onload's stacks needs one: give it more (ethtool -L, then register it again), or "
         "the "
         "pool fewer lanes";
}

OnloadOffer offer_of(const PoolConfig& pool, const OnloadNode& node) {
  OnloadOffer offer{.why = why_not(pool, node), .warnings = node.warnings};
  const OnloadNic* const nic = pool.interface.empty() ? nic_that_counts(node) : find_nic(node, pool.interface);
  if (nic != nullptr && nic->accelerated) {
    offer.nic = nic->name;
    offer.transport = nic->transport;
    if (nic->transport == onload::Transport::kAfXdp) offer.channels = nic->channels;
  }
  offer.environment = onload::environment(pool.default_mode, offer.transport, pool.environment);
  offer.device_nodes = node.device_nodes;
  offer.libraries = node.libraries;
  check(offer, pool.default_mode);
  return offer;
}

onload::Environment environment_of(const OnloadOffer& offer, const std::vector<std::uint32_t>& devices) {
  onload::Environment environment = offer.environment;
  const bool is_chosen = onload::find(environment, "EF_IRQ_CHANNEL") != nullptr;
  if (offer.transport == onload::Transport::kAfXdp && devices.size() == 1 && !is_chosen) {
    environment.emplace_back("EF_IRQ_CHANNEL", std::to_string(devices.front()));
  }
  if (!offer.libraries.empty()) environment.emplace_back("LD_PRELOAD", offer.libraries.front());
  return environment;
}

std::string describe(const OnloadOffer& offer, lane::Mode mode) {
  std::string words(lane::to_string(mode));
  if (offer.transport == onload::Transport::kNative) return words + ", native";
  words += ", over AF_XDP by " + offer.nic;
  if (mode == lane::Mode::kSpinning) return words;
  return words +
         ": no interrupt wakes a sleeping thread there, Onload's timer does (EF_HELPER_USEC); spinning is faster";
}

}  // namespace podlane::dp
