// The node profile comes from an operator's ConfigMap: any bytes may stand in it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "nodeconfig/profile.hpp"

namespace {

using podlane::nodeconfig::CpuSet;
using podlane::nodeconfig::Takes;

// What expanding counts on without looking again.
bool sound(const podlane::nodeconfig::Wish& wish) {
  if (wish.knob == nullptr || wish.value.empty() || wish.value == "leave" || wish.place.empty()) return false;
  if (wish.knob->takes != Takes::kCpus) return true;
  if (wish.value == "housekeeping" || wish.value == "local" || wish.value == "off") return true;
  const auto cpus = CpuSet::parse_list(wish.value);
  return cpus && !cpus->empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile = podlane::nodeconfig::parse_profile({reinterpret_cast<const char*>(data), size});
  if (!profile) return profile.error().message().empty() ? (std::abort(), 0) : 0;
  for (const auto& wish : profile->node) {
    if (!sound(wish)) std::abort();
  }
  for (const auto& wish : profile->power) {
    if (!sound(wish)) std::abort();
  }
  for (const auto& rule : profile->nics) {
    for (const auto& wish : rule.wishes) {
      if (!sound(wish)) std::abort();
    }
  }
  for (const auto& wish : profile->huge_pages) {
    if (wish.size_kib == 0 || wish.count < 0) std::abort();
  }
  if (profile->lanes && profile->housekeeping && profile->lanes->meets(*profile->housekeeping)) std::abort();
  return 0;
}
