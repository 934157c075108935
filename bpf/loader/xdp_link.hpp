// The pinned BPF link of lane_steer on a NIC: make, adopt, swap, take away. Device names and numbers are those of the
// calling thread's network namespace. Used by Steering only; one thread.
#pragma once

#include <string>
#include <vector>

#include "bpf/loader/steering.hpp"

namespace podlane::bpf {

Result<NicAttachment> attach_pinned_link(const std::string& directory, IfIndex nic, int program_fd);
Result<void> detach_pinned_link(const std::string& directory, IfIndex nic);
// Live links by their pins. remove_stale: takes away pins whose device is gone or has become another one.
std::vector<IfIndex> pinned_links(const std::string& directory, bool remove_stale);

// XDP on a veth's pod end, by netlink and native: it lives and dies with the veth. Replaces a program of the same name;
// a foreign one is kExists.
Result<void> attach_by_netlink(IfIndex device, int program_fd, const char* own_name);

}  // namespace podlane::bpf
