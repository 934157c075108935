// TUN devices by ioctl alone, so that the relay and libpodlane may use this too. The namespace of a TUN descriptor is
// the one its /dev/net/tun was opened in. Kernel: drivers/net/tun.c. Any thread, one at a time per descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::net {

// A uid nobody runs as. An ownerless TUN can be taken by any uid that reaches the device node on kernels up to 6.11.
inline constexpr uid_t kNobodyRunsAs = 4294967294U;

struct TunOptions {
  std::string name;              // 1 to 15 bytes; must not exist.
  uid_t owner = kNobodyRunsAs;   // Never 0.
  bool multi_queue = false;
};

// Makes a persistent TUN (no packet information) without carrier in the calling thread's namespace; kExists when the
// name is taken. The descriptor may be closed: the device stays until it is deleted.
Result<UniqueFd> tun_create(const TunOptions& options);

// Attaches one queue to an existing TUN, without raising carrier. vnet_hdr: each packet carries a virtio_net_hdr of 10
// bytes. Needs the owner's uid or CAP_NET_ADMIN. Non-blocking descriptor. Kernels before IFF_NO_CARRIER (6.0): kUnsupported.
Result<UniqueFd> tun_attach(const std::string& name, bool multi_queue, bool vnet_hdr);

// What of `wanted` (TUN_F_* bits) the kernel took, trying less and less: USO, TSO, checksum, nothing.
Result<std::uint32_t> tun_set_offloads(int tun_fd, std::uint32_t wanted);
Result<void> tun_set_carrier(int tun_fd, bool on);

}  // namespace podlane::net
