#include "bpf/loader/pinned_maps.hpp"

#include <bpf/bpf.h>
#include <stdio.h>
#include <unistd.h>

#include "bpf/abi/lane_abi.h"

namespace podlane::bpf {

namespace {

struct Shape {
  const char* name;
  bpf_map_type type;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
  std::uint32_t entries;
  bool frozen;  // Its contents cannot be read back or made again: never re-made.
};

// The same shapes as bpf/prog/maps.bpf.h; a program whose idea of a map differs does not load. Index = MapId.
constexpr std::array<Shape, kMapCount> kShapes = {{
    {"xsks", BPF_MAP_TYPE_XSKMAP, 4, 4, LANE_SLOTS, true},
    {"lane_by_addr", BPF_MAP_TYPE_HASH, sizeof(lane_key), sizeof(lane_entry), LANE_ADDRESSES, false},
    {"lane_counters", BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(lane_counters), LANE_SLOTS, false},
    {"nic_counters", BPF_MAP_TYPE_PERCPU_HASH, 4, sizeof(nic_counters), LANE_NICS, false},
    {"nic_macs", BPF_MAP_TYPE_HASH, 4, sizeof(nic_mac), LANE_NICS, false},
    {"veth_slots", BPF_MAP_TYPE_HASH, 4, sizeof(veth_entry), LANE_SLOTS, false},
}};

std::string difference(const Shape& shape, int fd) {
  bpf_map_info info{};
  __u32 length = sizeof(info);
  if (::bpf_obj_get_info_by_fd(fd, &info, &length) != 0) return "it is not a map";
  std::string text;
  const auto compare = [&text](const char* what, std::uint32_t found, std::uint32_t right) {
    if (found == right) return;
    text += (text.empty() ? "" : ", ") + std::string(what) + " is " + std::to_string(found) + ", must be " +
            std::to_string(right);
  };
  compare("type", info.type, shape.type);
  compare("key size", info.key_size, shape.key_bytes);
  compare("value size", info.value_size, shape.value_bytes);
  compare("number of entries", info.max_entries, shape.entries);
  compare("flags", info.map_flags, 0);
  return text;
}

// Pinned under another name first: the right name never stands for nothing, also when this process dies here.
Result<UniqueFd> make_and_pin(const Shape& shape, const std::string& path) {
  UniqueFd fd(::bpf_map_create(shape.type, shape.name, shape.key_bytes, shape.value_bytes, shape.entries, nullptr));
  if (!fd.valid()) return fail_errno("create BPF map", shape.name);
  const std::string fresh = path + "-new";  // No dot: bpffs keeps dots for itself (kernel/bpf/inode.c, bpf_lookup).
  ::unlink(fresh.c_str());
  if (::bpf_obj_pin(fd.get(), fresh.c_str()) != 0) return fail_errno("pin BPF map", fresh);
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    auto error = fail_errno("rename BPF pin", path);
    ::unlink(fresh.c_str());
    return error;
  }
  return fd;
}

Result<UniqueFd> open_or_make(const Shape& shape, const std::string& path) {
  UniqueFd fd(::bpf_obj_get(path.c_str()));
  if (!fd.valid() && errno != ENOENT) return fail_errno("open pinned BPF map", path);
  if (!fd.valid()) return make_and_pin(shape, path);
  const std::string differs = difference(shape, fd.get());
  if (differs.empty()) return fd;
  if (shape.frozen) {
    return fail(Errc::kExists, path + ": this pinned map has another shape: " + differs +
                                   ". Sockets of running pods stand in it; drain the node, then remove the file");
  }
  return make_and_pin(shape, path);
}

}  // namespace

Result<PinnedMaps> PinnedMaps::open(const std::string& directory) {
  PinnedMaps maps;
  for (std::size_t i = 0; i < kMapCount; ++i) {
    PODLANE_TRY_ASSIGN(maps.fds_[i], open_or_make(kShapes[i], directory + "/" + kShapes[i].name));
  }
  return maps;
}

int PinnedMaps::fd_by_name(std::string_view name) const {
  for (std::size_t i = 0; i < kMapCount; ++i) {
    if (name == kShapes[i].name) return fds_[i].get();
  }
  return -1;
}

Result<void> PinnedMaps::unpin_all(const std::string& directory) {
  for (const Shape& shape : kShapes) {
    const std::string path = directory + "/" + shape.name;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unpin BPF map", path);
  }
  return {};
}

}  // namespace podlane::bpf
