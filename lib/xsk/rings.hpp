// The four rings of an AF_XDP socket over the memory that the kernel shares. Owner: XskSocket; one thread per socket.
//
// Producer rings (fill, TX): reserve, write, submit. Consumer rings (completion, RX): peek, read, release. The index
// work is that of libxdp's inline accessors. Their memory order and its partners, all in net/xdp/xsk_queue.h:
//   submit   release store of `producer`   pairs with the kernel's acquire load in __xskq_cons_peek
//   reserve  acquire load of `consumer`    pairs with the kernel's release store in __xskq_cons_release
//   peek     acquire load of `producer`    pairs with the kernel's release store in __xskq_prod_submit
//   release  release store of `consumer`   pairs with the kernel's acquire load in xskq_prod_nb_free
#pragma once

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <xdp/xsk.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/result.hpp"

namespace podlane::xsk {

// One mapping of ring memory.
class RingMemory {
 public:
  static Result<RingMemory> map(int socket, std::uint64_t page_offset, std::size_t bytes, const char* name) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket, static_cast<off_t>(page_offset));
    if (memory == MAP_FAILED) return fail_errno("mmap ring", name);
    RingMemory ring;
    ring.base_ = static_cast<char*>(memory);
    ring.bytes_ = bytes;
    return ring;
  }
  RingMemory() = default;
  RingMemory(RingMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  RingMemory& operator=(RingMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~RingMemory() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  char* base() const { return base_; }

 private:
  char* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Fill and TX ring. Entry: std::uint64_t for fill, xdp_desc for TX.
template <typename Entry>
class ProducerRing {
 public:
  static Result<ProducerRing> map(int socket, std::uint64_t page_offset, const xdp_ring_offset& offsets,
                                  std::uint32_t size, const char* name) {
    ProducerRing ring;
    PODLANE_TRY_ASSIGN(ring.memory_, RingMemory::map(socket, page_offset, offsets.desc + size * sizeof(Entry), name));
    char* base = ring.memory_.base();
    ring.ring_.size = size;
    ring.ring_.mask = size - 1;
    ring.ring_.producer = reinterpret_cast<std::uint32_t*>(base + offsets.producer);
    ring.ring_.consumer = reinterpret_cast<std::uint32_t*>(base + offsets.consumer);
    ring.ring_.flags = reinterpret_cast<std::uint32_t*>(base + offsets.flags);
    ring.ring_.ring = base + offsets.desc;
    ring.ring_.cached_prod = *ring.ring_.producer;
    ring.ring_.cached_cons = *ring.ring_.consumer + size;
    return ring;
  }

  std::uint32_t size() const { return ring_.size; }
  std::uint32_t free_slots(std::uint32_t wanted) { return xsk_prod_nb_free(&ring_, wanted); }
  // All or nothing; the caller has asked free_slots().
  std::uint32_t reserve(std::uint32_t count) {
    std::uint32_t at = 0;
    const std::uint32_t got = xsk_ring_prod__reserve(&ring_, count, &at);
    PODLANE_ASSERT(got == count);
    return at;
  }
  Entry& entry(std::uint32_t at) { return static_cast<Entry*>(ring_.ring)[at & ring_.mask]; }
  void submit(std::uint32_t count) { xsk_ring_prod__submit(&ring_, count); }

  // Entries that the kernel has not taken yet. Acquire: see `reserve` above.
  std::uint32_t not_taken() const {
    return ring_.cached_prod - __atomic_load_n(ring_.consumer, __ATOMIC_ACQUIRE);
  }
  // After a submit. The fence orders our store of `producer` before this load of `flags`; it pairs with the kernel's
  // setting the flag before it looks at `producer` once more. Without it a wake-up can be lost.
  bool needs_wakeup() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return xsk_ring_prod__needs_wakeup(&ring_) != 0;
  }

 private:
  RingMemory memory_;
  xsk_ring_prod ring_{};
};

// Completion and RX ring. Entry: std::uint64_t for completion, xdp_desc for RX.
template <typename Entry>
class ConsumerRing {
 public:
  static Result<ConsumerRing> map(int socket, std::uint64_t page_offset, const xdp_ring_offset& offsets,
                                  std::uint32_t size, const char* name) {
    ConsumerRing ring;
    PODLANE_TRY_ASSIGN(ring.memory_, RingMemory::map(socket, page_offset, offsets.desc + size * sizeof(Entry), name));
    char* base = ring.memory_.base();
    ring.ring_.size = size;
    ring.ring_.mask = size - 1;
    ring.ring_.producer = reinterpret_cast<std::uint32_t*>(base + offsets.producer);
    ring.ring_.consumer = reinterpret_cast<std::uint32_t*>(base + offsets.consumer);
    ring.ring_.flags = reinterpret_cast<std::uint32_t*>(base + offsets.flags);
    ring.ring_.ring = base + offsets.desc;
    ring.ring_.cached_prod = *ring.ring_.producer;
    ring.ring_.cached_cons = *ring.ring_.consumer;
    return ring;
  }

  std::uint32_t size() const { return ring_.size; }
  // How many of at most `count` are there; the first stands at `at`.
  std::uint32_t peek(std::uint32_t count, std::uint32_t& at) { return xsk_ring_cons__peek(&ring_, count, &at); }
  const Entry& entry(std::uint32_t at) const { return static_cast<const Entry*>(ring_.ring)[at & ring_.mask]; }
  void release(std::uint32_t count) { xsk_ring_cons__release(&ring_, count); }

 private:
  RingMemory memory_;
  xsk_ring_cons ring_{};
};

using FillRing = ProducerRing<std::uint64_t>;
using TxRing = ProducerRing<xdp_desc>;
using RxRing = ConsumerRing<xdp_desc>;
using CompletionRing = ConsumerRing<std::uint64_t>;

}  // namespace podlane::xsk
