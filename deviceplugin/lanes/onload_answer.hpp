// What Allocate answers for devices of a pool of kind onload. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "deviceplugin/inventory/onload_offer.hpp"
#include "deviceplugin/lanes/lane_table.hpp"

namespace podlane::dp {

// The devices by their numbers; all of them are healthy.
AllocateAnswer onload_answer(const OnloadOffer& offer, lane::Mode mode, const std::vector<std::uint32_t>& devices);

}  // namespace podlane::dp
