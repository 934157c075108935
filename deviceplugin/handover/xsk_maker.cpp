#include "deviceplugin/handover/xsk_maker.hpp"

#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <bit>
#include <string>
#include <utility>

#include "lib/base/scope_guard.hpp"
#include "lib/lane/umem_memory.hpp"
#include "lib/net/ethtool.hpp"

namespace podlane::dp {

namespace {

constexpr std::uint32_t kDefaultRingSize = 2048;
constexpr int kBusyPollMicroseconds = 20;  // What a busy-polling system call may spend; Documentation/networking/napi.rst.
constexpr int kBusyPollBudget = 64;        // Packets; one NAPI poll's worth.

std::string name_of(const lane::XskDescription& xsk) { return xsk.netdev + " queue " + std::to_string(xsk.queue); }

Result<void> set_option(int socket, int level, int option, const void* value, socklen_t size, std::string_view what) {
  if (::setsockopt(socket, level, option, value, size) != 0) return fail_errno("setsockopt", what);
  return {};
}

// False where the kernel does not have them (before 5.11) or does not let us: then rings are spun without.
bool set_busy_poll(int socket) {
  const int on = 1, microseconds = kBusyPollMicroseconds, budget = kBusyPollBudget;
  return ::setsockopt(socket, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) == 0 &&
         ::setsockopt(socket, SOL_SOCKET, SO_BUSY_POLL, &microseconds, sizeof(microseconds)) == 0 &&
         ::setsockopt(socket, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget)) == 0;
}

// Kernels from 6.14 know the NAPI id at bind, earlier ones from the first frame on: they are reported as without.
bool has_napi_id(int socket) {
  unsigned id = 0;
  socklen_t size = sizeof(id);
  return ::getsockopt(socket, SOL_SOCKET, SO_INCOMING_NAPI_ID, &id, &size) == 0 && id != 0;
}

void fill_sizes(lane::XskDescription& xsk) {
  if (xsk.rx_size == 0) xsk.rx_size = kDefaultRingSize;
  if (xsk.tx_size == 0) xsk.tx_size = kDefaultRingSize;
  // Room for every frame, so that the owner can always give back what it holds.
  if (xsk.fill_size == 0) xsk.fill_size = std::bit_ceil(xsk.umem.frames);
  if (xsk.completion_size == 0) xsk.completion_size = xsk.tx_size;
}

// The pages stay pinned when the mapping goes: the socket's memory does not depend on this process.
Result<void> register_umem(int socket, int memfd, const lane::XskDescription& xsk) {
  const std::size_t size = lane::umem_bytes(xsk.umem);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (memory == MAP_FAILED) return fail_errno("mmap of the UMEM");
  const ScopeGuard unmap([&] { ::munmap(memory, size); });
  xdp_umem_reg request{};
  request.addr = reinterpret_cast<std::uintptr_t>(memory);
  request.len = std::uint64_t{xsk.umem.frames} * xsk.umem.frame_size_bytes;
  request.chunk_size = xsk.umem.frame_size_bytes;
  request.headroom = xsk.headroom_bytes;
  return set_option(socket, SOL_XDP, XDP_UMEM_REG, &request, sizeof(request), "XDP_UMEM_REG");
}

Result<void> size_rings(int socket, const lane::XskDescription& xsk) {
  const std::pair<int, std::uint32_t> rings[] = {{XDP_UMEM_FILL_RING, xsk.fill_size},
                                                 {XDP_UMEM_COMPLETION_RING, xsk.completion_size},
                                                 {XDP_RX_RING, xsk.rx_size},
                                                 {XDP_TX_RING, xsk.tx_size}};
  for (const auto& [ring, size] : rings) {
    PODLANE_TRY(set_option(socket, SOL_XDP, ring, &size, sizeof(size), "ring of " + std::to_string(size)));
  }
  return {};
}

Error bind_error(int error, const XskPlan& plan) {
  Error failure = Error::from_errno(error, "bind AF_XDP", name_of(plan.xsk));
  switch (error) {
    case EBUSY: return std::move(failure).as(Errc::kBusy).with("another owner holds the lane's queue");
    case ENODEV:
    case ENXIO:
    case ENETDOWN: return std::move(failure).as(Errc::kGone);
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
      if (plan.zero_copy == ZeroCopy::kRequire) {
        return std::move(failure).as(Errc::kUnsupported).with("zeroCopy is 'require', and the device cannot do it");
      }
      return failure;
    default: return std::move(failure).as(Errc::kIo);  // EINVAL is our request's fault, not the client's.
  }
}

Result<void> bind_to(int socket, const XskPlan& plan) {
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_ifindex = static_cast<std::uint32_t>(plan.xsk.netdev_ifindex);
  address.sxdp_queue_id = plan.xsk.queue;
  address.sxdp_flags = XDP_USE_NEED_WAKEUP;
  // With neither flag the kernel tries zero-copy and falls back (net/xdp/xsk_buff_pool.c, xp_assign_dev).
  if (plan.zero_copy == ZeroCopy::kRequire) address.sxdp_flags |= XDP_ZEROCOPY;
  if (plan.zero_copy == ZeroCopy::kOff) address.sxdp_flags |= XDP_COPY;
  const auto deadline = std::chrono::steady_clock::now() + kBindPatience;
  while (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    if (error != EBUSY || std::chrono::steady_clock::now() >= deadline) {
      return std::unexpected(bind_error(error, plan));
    }
    ::poll(nullptr, 0, 2);
  }
  return {};
}

// In zero-copy mode virtio_net drops what XDP_TX sends back: the frame that net/core/xdp.c, xdp_convert_zc_to_xdp_frame, makes
// has no headroom, and virtnet_xdp_xmit needs some for the device's header. So nobody would hear lane_steer's answers to ARP
// and neighbour solicitations. Seen on 7.2 (tests/vm/scenarios/zero-copy.json).
bool loses_answers_by_zero_copy(const std::string& netdev) {
  const auto driver = net::driver_name(netdev);
  return driver && *driver == "virtio_net";
}

Result<bool> zero_copy_in_force(int socket) {
  xdp_options options{};
  socklen_t size = sizeof(options);
  if (::getsockopt(socket, SOL_XDP, XDP_OPTIONS, &options, &size) != 0) return fail_errno("getsockopt XDP_OPTIONS");
  return (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

}  // namespace

Result<XskMade> make_unbound_xsk(const XskPlan& plan) {
  XskMade made{.xsk = plan.xsk};
  fill_sizes(made.xsk);
  char name[IF_NAMESIZE] = {};
  if (::if_indextoname(static_cast<unsigned>(plan.xsk.netdev_ifindex), name) == nullptr) {
    return fail(Errc::kGone, "the lane's device " + plan.xsk.netdev + " (index " +
                                 std::to_string(plan.xsk.netdev_ifindex) + ") is not there any more");
  }
  made.xsk.netdev = name;  // It may have been renamed.
  made.socket.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!made.socket.valid()) return fail_errno("socket AF_XDP");
  // The client can bind to nothing else (net/xdp/xsk.c, xsk_bind).
  PODLANE_TRY(set_option(made.socket.get(), SOL_SOCKET, SO_BINDTOIFINDEX, &plan.xsk.netdev_ifindex,
                         sizeof(plan.xsk.netdev_ifindex), "SO_BINDTOIFINDEX"));
  made.busy_poll_set = plan.busy_poll && set_busy_poll(made.socket.get());
  return made;
}

Result<XskMade> make_finished_xsk(const XskPlan& plan, int memfd) {
  PODLANE_TRY_ASSIGN(XskMade made, make_unbound_xsk(plan));
  const int socket = made.socket.get();
  PODLANE_TRY(register_umem(socket, memfd, made.xsk));
  PODLANE_TRY(size_rings(socket, made.xsk));
  const bool copies = plan.zero_copy == ZeroCopy::kPrefer && loses_answers_by_zero_copy(made.xsk.netdev);
  PODLANE_TRY(bind_to(socket, {.xsk = made.xsk, .zero_copy = copies ? ZeroCopy::kOff : plan.zero_copy}));
  PODLANE_TRY_ASSIGN(made.zero_copy, zero_copy_in_force(socket));
  made.busy_poll = made.busy_poll_set && has_napi_id(socket);
  return made;
}

}  // namespace podlane::dp
