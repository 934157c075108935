#include "lib/xsk/xsk_socket.hpp"

#include <linux/if_xdp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>

namespace podlane::xsk {

namespace {

constexpr std::chrono::milliseconds kRebindWait{2000};
constexpr std::uint32_t kMinimumSendFrames = 64;  // A GSO packet of 64 KiB is about 46 frames.

Result<void> set_ring_size(int socket, int option, std::uint32_t size, const char* name) {
  if (::setsockopt(socket, SOL_XDP, option, &size, sizeof(size)) != 0) {
    return fail_errno("set ring size", std::string(name) + " " + std::to_string(size));
  }
  return {};
}

// The pool of a queue is freed some ms after its last socket has closed; until then bind says EBUSY.
Result<void> bind_with_patience(int socket, const sockaddr_xdp& address) {
  const auto end = std::chrono::steady_clock::now() + kRebindWait;
  while (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EBUSY || std::chrono::steady_clock::now() >= end) {
      return fail_errno("bind AF_XDP", "ifindex " + std::to_string(address.sxdp_ifindex) + " queue " +
                                           std::to_string(address.sxdp_queue_id));
    }
    ::poll(nullptr, 0, 5);
  }
  return {};
}

}  // namespace

XskSocket::XskSocket(UniqueFd socket, const Umem& umem)
    : socket_(std::move(socket)),
      pool_(umem.frames(), umem.frame_size_bytes()),
      frame_size_bytes_(umem.frame_size_bytes()) {}

Result<XskSocket> XskSocket::adopt(UniqueFd socket, const Umem& umem, const RingSizes& sizes) {
  XskSocket xsk(std::move(socket), umem);
  PODLANE_TRY(xsk.map_rings(sizes));
  return xsk;
}

Result<XskSocket> XskSocket::set_up(UniqueFd socket, const Umem& umem, const RingSizes& sizes, const Binding& binding) {
  XskSocket xsk(std::move(socket), umem);
  const int fd = xsk.fd();
  xdp_umem_reg reg{};
  reg.addr = reinterpret_cast<std::uint64_t>(umem.base());
  reg.len = umem.bytes();
  reg.chunk_size = umem.frame_size_bytes();
  reg.headroom = binding.headroom_bytes;
  if (::setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) != 0) {
    return fail_errno("XDP_UMEM_REG", std::to_string(umem.bytes()) + " bytes: is the memlock limit as large?");
  }
  PODLANE_TRY(set_ring_size(fd, XDP_UMEM_FILL_RING, sizes.fill, "fill"));
  PODLANE_TRY(set_ring_size(fd, XDP_UMEM_COMPLETION_RING, sizes.completion, "completion"));
  PODLANE_TRY(set_ring_size(fd, XDP_RX_RING, sizes.rx, "rx"));
  PODLANE_TRY(set_ring_size(fd, XDP_TX_RING, sizes.tx, "tx"));
  // Kernels before 6.4 map rings only before bind.
  PODLANE_TRY(xsk.map_rings(sizes));
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_flags = static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (binding.zero_copy ? XDP_ZEROCOPY : XDP_COPY));
  address.sxdp_ifindex = static_cast<std::uint32_t>(binding.device.value);
  address.sxdp_queue_id = binding.queue.value;
  PODLANE_TRY(bind_with_patience(fd, address));
  xsk.zero_copy_ = binding.zero_copy;
  return xsk;
}

Result<void> XskSocket::map_rings(const RingSizes& sizes) {
  for (const std::uint32_t size : {sizes.rx, sizes.tx, sizes.fill, sizes.completion}) {
    if (!std::has_single_bit(size)) {
      return fail(Errc::kInvalid, "ring size " + std::to_string(size) + " must be a power of two");
    }
  }
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof(offsets);
  if (::getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0) return fail_errno("XDP_MMAP_OFFSETS");
  if (length != sizeof(offsets)) {
    return fail(Errc::kUnsupported, "XDP_MMAP_OFFSETS: this kernel has no ring flags (Linux 5.4 does)");
  }
  PODLANE_TRY_ASSIGN(fill_, FillRing::map(fd(), XDP_UMEM_PGOFF_FILL_RING, offsets.fr, sizes.fill, "fill"));
  PODLANE_TRY_ASSIGN(completion_, CompletionRing::map(fd(), XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr,
                                                      sizes.completion, "completion"));
  PODLANE_TRY_ASSIGN(rx_, RxRing::map(fd(), XDP_PGOFF_RX_RING, offsets.rx, sizes.rx, "rx"));
  PODLANE_TRY_ASSIGN(tx_, TxRing::map(fd(), XDP_PGOFF_TX_RING, offsets.tx, sizes.tx, "tx"));

  xdp_options options{};
  length = sizeof(options);
  if (::getsockopt(fd(), SOL_XDP, XDP_OPTIONS, &options, &length) == 0) {
    zero_copy_ = (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
  }
  // Half of the frames receive at most; what is left over, less one batch in hand, may be in sending.
  const std::uint32_t frames = pool_.frames();
  receive_target_ = std::min({sizes.fill, sizes.rx, frames / 2});
  send_limit_ = std::min({sizes.tx, sizes.completion, frames - receive_target_ - std::min(frames / 8, kKickBatch)});
  if (send_limit_ < std::min(kMinimumSendFrames, frames / 4)) {
    return fail(Errc::kInvalid, "rings leave " + std::to_string(send_limit_) + " frames for sending: too few");
  }
  return {};
}

std::uint32_t XskSocket::refill() {
  const std::uint32_t held = pool_.count(Place::kReceiving);
  if (held >= receive_target_) return 0;
  std::uint32_t count = std::min(receive_target_ - held, pool_.free_count());
  count = std::min(count, fill_.free_slots(count));
  if (count == 0) return 0;
  const std::uint32_t at = fill_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t address = 0;
    pool_.take(address);
    pool_.move(address, Place::kReserved, Place::kReceiving);
    fill_.entry(at + i) = address;
  }
  fill_.submit(count);
  if (zero_copy_ && fill_.needs_wakeup()) wake_receive();
  return count;
}

std::uint32_t XskSocket::receive(std::span<FrameSpan> frames) {
  std::uint32_t at = 0;
  const std::uint32_t count = rx_.peek(static_cast<std::uint32_t>(frames.size()), at);
  if (count == 0) return 0;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const xdp_desc& descriptor = rx_.entry(at + i);
    if (!pool_.move(descriptor.addr, Place::kReceiving, Place::kReceived)) [[unlikely]] {
      ++foreign_receives_;
      continue;
    }
    frames[kept++] = {descriptor.addr, descriptor.len};
  }
  rx_.release(count);
  return kept;
}

std::uint32_t XskSocket::send_room() {
  const std::uint32_t sending = pool_.count(Place::kSending);
  if (sending >= send_limit_) return 0;
  const std::uint32_t room = std::min(send_limit_ - sending, pool_.free_count());
  return std::min(room, tx_.free_slots(room));
}

bool XskSocket::take(std::uint64_t& address) { return pool_.take(address); }

std::uint32_t XskSocket::send(std::span<const FrameSpan> frames) {
  const std::uint32_t wanted = static_cast<std::uint32_t>(frames.size());
  const std::uint32_t room = std::min(wanted, tx_.free_slots(wanted));
  std::uint32_t sent = 0;
  for (std::uint32_t i = 0; i < room; ++i) {
    // Moved first: a frame that is named twice, or is not the caller's, takes no slot.
    if (!pool_.move_from_hand(frames[i].address, Place::kSending)) [[unlikely]] continue;
    tx_.entry(tx_.reserve(1)) = {frames[i].address, frames[i].length, 0};
    ++sent;
  }
  if (sent == 0) return 0;
  tx_.submit(sent);
  return sent;
}

std::uint32_t XskSocket::reclaim() {
  std::uint32_t at = 0;
  std::uint32_t freed = 0;
  for (;;) {
    const std::uint32_t count = completion_.peek(completion_.size(), at);
    if (count == 0) return freed;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (pool_.move(completion_.entry(at + i), Place::kSending, Place::kFree)) {
        ++freed;
      } else {
        ++foreign_completions_;
      }
    }
    completion_.release(count);
  }
}

KickOutcome XskSocket::kick() {
  if (zero_copy_ && !tx_.needs_wakeup()) return KickOutcome::kSent;
  ++kicks_;
  if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return KickOutcome::kSent;
  switch (errno) {
    case ENXIO:
    case EBADF: return KickOutcome::kGone;
    case ENETDOWN: return KickOutcome::kDown;
    default: return KickOutcome::kLater;  // EAGAIN: more than a batch; EBUSY, ENOBUFS, ENOMEM: for now.
  }
}

void XskSocket::wake_receive() {
  ++kicks_;
  [[maybe_unused]] const ssize_t ignored = ::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

}  // namespace podlane::xsk
