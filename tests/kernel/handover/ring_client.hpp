// The plainest possible user of a handed-over AF_XDP socket, written from the kernel's documentation alone, so that the
// tests do not depend on lib/xsk. Single thread; throws nothing, reports by bool.
#pragma once

#include <linux/if_xdp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "lib/lane/handover_client.hpp"

namespace podlane::test {

struct Ring {
  std::uint32_t* producer = nullptr;
  std::uint32_t* consumer = nullptr;
  void* descriptors = nullptr;
  std::uint32_t mask = 0;

  bool map(int fd, std::uint64_t page_offset, const xdp_ring_offset& at, std::uint32_t size, std::size_t entry) {
    void* base = ::mmap(nullptr, at.desc + size * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                        static_cast<off_t>(page_offset));
    if (base == MAP_FAILED) return false;
    auto* bytes = static_cast<std::byte*>(base);
    producer = reinterpret_cast<std::uint32_t*>(bytes + at.producer);
    consumer = reinterpret_cast<std::uint32_t*>(bytes + at.consumer);
    descriptors = bytes + at.desc;
    mask = size - 1;
    return true;
  }
  // Acquire pairs with the kernel's release of its index, and the other way round.
  static std::uint32_t load(std::uint32_t* index) { return std::atomic_ref(*index).load(std::memory_order_acquire); }
  static void store(std::uint32_t* index, std::uint32_t value) {
    std::atomic_ref(*index).store(value, std::memory_order_release);
  }
  std::uint32_t filled() const { return load(producer) - load(consumer); }
};

class RingClient {
 public:
  // Registers, sizes and binds an unbound socket first.
  bool open(lane::LaneGrant& grant) {
    const lane::XskDescription& xsk = *grant.description.xsk;
    fd_ = grant.xsk.get();
    memory_ = grant.umem.memory();
    if (grant.style == lane::HandoverStyle::kUnbound && !prepare(grant, xsk)) return false;
    xdp_mmap_offsets at{};
    socklen_t size = sizeof(at);
    if (::getsockopt(fd_, SOL_XDP, XDP_MMAP_OFFSETS, &at, &size) != 0) return false;
    const bool mapped = rx_.map(fd_, XDP_PGOFF_RX_RING, at.rx, xsk.rx_size, sizeof(xdp_desc)) &&
                        tx_.map(fd_, XDP_PGOFF_TX_RING, at.tx, xsk.tx_size, sizeof(xdp_desc)) &&
                        fill_.map(fd_, XDP_UMEM_PGOFF_FILL_RING, at.fr, xsk.fill_size, sizeof(std::uint64_t)) &&
                        completion_.map(fd_, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, xsk.completion_size,
                                        sizeof(std::uint64_t));
    if (!mapped) return false;
    for (std::uint32_t i = 0; i < xsk.umem.frames && i <= fill_.mask; ++i) give(i * xsk.umem.frame_size_bytes);
    return grant.style == lane::HandoverStyle::kFinished || bind(xsk);
  }

  // Sends each received frame back with its MAC addresses swapped; returns how many came.
  std::uint32_t echo() {
    const std::uint32_t count = rx_.filled();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t at = Ring::load(rx_.consumer);
      const xdp_desc frame = static_cast<xdp_desc*>(rx_.descriptors)[at & rx_.mask];
      Ring::store(rx_.consumer, at + 1);
      std::byte* bytes = memory_ + frame.addr;
      std::byte mac[6];
      std::memcpy(mac, bytes, 6);
      std::memcpy(bytes, bytes + 6, 6);
      std::memcpy(bytes + 6, mac, 6);
      const std::uint32_t to = Ring::load(tx_.producer);
      static_cast<xdp_desc*>(tx_.descriptors)[to & tx_.mask] = {.addr = frame.addr, .len = frame.len, .options = 0};
      Ring::store(tx_.producer, to + 1);
    }
    if (tx_.filled() > 0) ::sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    while (completion_.filled() > 0) {
      const std::uint32_t at = Ring::load(completion_.consumer);
      give(static_cast<std::uint64_t*>(completion_.descriptors)[at & completion_.mask]);
      Ring::store(completion_.consumer, at + 1);
    }
    return count;
  }

 private:
  void give(std::uint64_t address) {
    const std::uint32_t to = Ring::load(fill_.producer);
    static_cast<std::uint64_t*>(fill_.descriptors)[to & fill_.mask] = address;
    Ring::store(fill_.producer, to + 1);
  }

  bool prepare(const lane::LaneGrant& grant, const lane::XskDescription& xsk) {
    xdp_umem_reg request{};
    request.addr = reinterpret_cast<std::uintptr_t>(grant.umem.memory());
    request.len = std::uint64_t{xsk.umem.frames} * xsk.umem.frame_size_bytes;
    request.chunk_size = xsk.umem.frame_size_bytes;
    request.headroom = xsk.headroom_bytes;
    const auto set = [&](int option, const void* value, socklen_t size) {
      return ::setsockopt(fd_, SOL_XDP, option, value, size) == 0;
    };
    return set(XDP_UMEM_REG, &request, sizeof(request)) && set(XDP_UMEM_FILL_RING, &xsk.fill_size, 4) &&
           set(XDP_UMEM_COMPLETION_RING, &xsk.completion_size, 4) && set(XDP_RX_RING, &xsk.rx_size, 4) &&
           set(XDP_TX_RING, &xsk.tx_size, 4);
  }

  bool bind(const lane::XskDescription& xsk) {
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_ifindex = static_cast<std::uint32_t>(xsk.netdev_ifindex);
    address.sxdp_queue_id = xsk.queue;
    address.sxdp_flags = XDP_USE_NEED_WAKEUP | XDP_COPY;
    // The queue of a former owner is free some ms after its end.
    for (int tries = 0; tries < 1000; ++tries) {
      if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return true;
      if (errno != EBUSY) return false;
      ::poll(nullptr, 0, 2);
    }
    return false;
  }

  int fd_ = -1;
  std::byte* memory_ = nullptr;
  Ring rx_, tx_, fill_, completion_;
};

}  // namespace podlane::test
