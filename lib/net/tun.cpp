#include "lib/net/tun.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cstring>

#include "lib/base/scope_guard.hpp"

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#endif
#ifndef TUN_F_USO6
#define TUN_F_USO6 0x40
#endif
#ifndef IFF_NO_CARRIER
#define IFF_NO_CARRIER 0x0040
#endif

namespace podlane::net {

namespace {

Result<UniqueFd> tun_open(const std::string& name, short flags) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    return fail(Errc::kInvalid, "TUN name '" + name + "' must have 1 to 15 bytes");
  }
  UniqueFd fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return fail_errno("open", "/dev/net/tun");
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), name.size());
  request.ifr_flags = flags;
  if (::ioctl(fd.get(), TUNSETIFF, &request) != 0) return fail_errno("TUNSETIFF", name);
  return fd;
}

short flags_of(bool multi_queue, bool vnet_hdr) {
  int flags = IFF_TUN | IFF_NO_PI | IFF_NO_CARRIER;
  if (multi_queue) flags |= IFF_MULTI_QUEUE;
  if (vnet_hdr) flags |= IFF_VNET_HDR;
  return static_cast<short>(flags);
}

}  // namespace

Result<UniqueFd> tun_create(const TunOptions& options) {
  if (options.owner == 0) return fail(Errc::kInvalid, "TUN " + options.name + ": owner 0 would be root");
  // TUNSETIFF attaches when the name is a TUN already; TUN_EXCL asks for EBUSY instead (include/uapi/linux/if_tun.h).
  PODLANE_TRY_ASSIGN(UniqueFd fd, [&]() -> Result<UniqueFd> {
    auto made = tun_open(options.name, static_cast<short>(flags_of(options.multi_queue, true) | IFF_TUN_EXCL));
    if (!made && (made.error().errno_value() == EBUSY || made.error().errno_value() == EEXIST ||
                  (made.error().errno_value() == EINVAL && ::if_nametoindex(options.name.c_str()) != 0))) {
      return fail(Errc::kExists, "interface " + options.name + " exists already");
    }
    return made;
  }());
  // From here on the device goes with the descriptor unless it is made persistent, which is the last step.
  if (::ioctl(fd.get(), TUNSETOWNER, static_cast<unsigned long>(options.owner)) != 0) {
    return fail_errno("TUNSETOWNER", options.name);
  }
  if (::ioctl(fd.get(), TUNSETPERSIST, 1UL) != 0) return fail_errno("TUNSETPERSIST", options.name);
  return fd;
}

Result<UniqueFd> tun_attach(const std::string& name, bool multi_queue, bool vnet_hdr) {
  if (::if_nametoindex(name.c_str()) == 0) return fail(Errc::kNotFound, "no interface " + name + " to attach to");
  return tun_open(name, flags_of(multi_queue, vnet_hdr));
}

Result<std::uint32_t> tun_set_offloads(int tun_fd, std::uint32_t wanted) {
  const std::uint32_t all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN | TUN_F_USO4 | TUN_F_USO6;
  for (const std::uint32_t drop : {0U, static_cast<std::uint32_t>(TUN_F_USO4 | TUN_F_USO6),
                                   all & ~static_cast<std::uint32_t>(TUN_F_CSUM), all}) {
    const std::uint32_t offloads = wanted & ~drop;
    if (::ioctl(tun_fd, TUNSETOFFLOAD, static_cast<unsigned long>(offloads)) == 0) return offloads;
    if (errno != EINVAL) return fail_errno("TUNSETOFFLOAD");
  }
  return fail_errno("TUNSETOFFLOAD");
}

Result<void> tun_set_carrier(int tun_fd, bool on) {
  int value = on ? 1 : 0;
  if (::ioctl(tun_fd, TUNSETCARRIER, &value) != 0) return fail_errno("TUNSETCARRIER");
  return {};
}

}  // namespace podlane::net
