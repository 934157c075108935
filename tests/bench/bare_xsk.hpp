// A bare AF_XDP socket by system calls alone: the yardstick that libpodlane and the relay are measured against. As little
// code as a ring loop can have: one UMEM, half of it for receiving, no libraries, no statistics. Needs root.
#pragma once

#include <linux/if_xdp.h>

#include <cstdint>
#include <string>

#include "lib/base/unique_fd.hpp"

namespace podlane::bench {

// One ring as mapped; `producer` and `consumer` are shared with the kernel.
struct BareRing {
  std::uint32_t* producer = nullptr;
  std::uint32_t* consumer = nullptr;
  void* entries = nullptr;
  std::uint32_t mask = 0;
};

class BareXsk {
 public:
  static constexpr std::uint32_t kFrames = 4096, kFrameBytes = 2048, kRingSize = 2048;

  // Socket in copy mode on queue 0 of the device in this thread's namespace, with a two-line XDP program of its own,
  // attached natively; both go when the object does. Throws std::runtime_error.
  explicit BareXsk(const std::string& device);

  // The next received frame, or nullptr. The frame stays valid until release_received().
  std::uint8_t* receive(std::uint32_t* length) {
    const std::uint32_t at = *rx_.consumer;
    // Pairs with the kernel's store-release of the RX producer (net/xdp/xsk_queue.h).
    if (__atomic_load_n(rx_.producer, __ATOMIC_ACQUIRE) == at) return nullptr;
    const xdp_desc& descriptor = static_cast<xdp_desc*>(rx_.entries)[at & rx_.mask];
    received_ = descriptor.addr;
    *length = descriptor.len;
    return umem_ + descriptor.addr;
  }
  void release_received() {
    static_cast<std::uint64_t*>(fill_.entries)[*fill_.producer & fill_.mask] = received_;
    __atomic_store_n(fill_.producer, *fill_.producer + 1, __ATOMIC_RELEASE);
    __atomic_store_n(rx_.consumer, *rx_.consumer + 1, __ATOMIC_RELEASE);
  }
  // One frame for sending at a time: its place in the UMEM, then how long it is. Kicks, because copy mode sends nothing
  // without (net/xdp/xsk.c, xsk_sendmsg).
  std::uint8_t* transmit_frame() { return umem_ + std::uint64_t{kFrames / 2} * kFrameBytes; }
  void transmit(std::uint32_t length);
  int fd() const { return socket_.get(); }

 private:
  void map_rings();
  void attach(const std::string& device);

  UniqueFd socket_, map_, program_, link_;
  std::uint8_t* umem_ = nullptr;
  BareRing rx_, tx_, fill_, completion_;
  std::uint64_t received_ = 0;
};

}  // namespace podlane::bench
