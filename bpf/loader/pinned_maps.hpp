// PinnedMaps: the node's maps under one bpffs directory, made or adopted. Used by Steering only; one thread.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::bpf {

enum class MapId { kXsks, kLaneByAddr, kLaneCounters, kNicCounters, kNicMacs, kVethSlots };
inline constexpr std::size_t kMapCount = 6;

class PinnedMaps {
 public:
  // directory must exist on a bpf file system. xsks of another shape: kExists, naming the path and what differs. A side
  // map of another shape is re-made empty: programs that are attached keep the old one until they are replaced.
  static Result<PinnedMaps> open(const std::string& directory);

  int fd(MapId map) const { return fds_[static_cast<std::size_t>(map)].get(); }
  int fd_by_name(std::string_view name) const;  // -1: not one of ours.
  static Result<void> unpin_all(const std::string& directory);

 private:
  std::array<UniqueFd, kMapCount> fds_;
};

}  // namespace podlane::bpf
