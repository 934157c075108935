// Loading: each function opens a skeleton, gives it the node's maps, loads it, and keeps nothing but the program's
// descriptor. On failure the end of the verifier's log is in the Error. Used by Steering only; one thread.
#pragma once

#include <cstdint>
#include <string>

#include "bpf/loader/pinned_maps.hpp"
#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::bpf {

Result<UniqueFd> load_lane_steer(const PinnedMaps& maps);
Result<UniqueFd> load_veth_host(const PinnedMaps& maps);
Result<UniqueFd> load_veth_pod(const PinnedMaps& maps);

Result<std::uint32_t> program_id(int program_fd);
// "program 12 \"name\"", or without the name when the kernel does not tell.
std::string describe_program(std::uint32_t id);
std::string program_name(std::uint32_t id);  // Empty: gone, or not told.

}  // namespace podlane::bpf
