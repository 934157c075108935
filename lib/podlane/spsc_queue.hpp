// SpscQueue: a bounded queue between exactly one producing and one consuming thread. No lock, no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace podlane {

template <typename T, std::size_t kCapacity>
class SpscQueue {
  static_assert(kCapacity != 0 && (kCapacity & (kCapacity - 1)) == 0, "a power of two");

 public:
  // Producer. false: full.
  bool push(const T& value) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    // Pairs with pop()'s release of tail_: the place was read before it is written again.
    if (head - tail_.load(std::memory_order_acquire) == kCapacity) return false;
    items_[head % kCapacity] = value;
    head_.store(head + 1, std::memory_order_release);  // Pairs with pop()'s acquire of head_.
    return true;
  }
  // Consumer. false: empty.
  bool pop(T& value) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;  // Pairs with push()'s release of head_.
    value = items_[tail % kCapacity];
    tail_.store(tail + 1, std::memory_order_release);  // Pairs with push()'s acquire of tail_.
    return true;
  }

 private:
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::array<T, kCapacity> items_{};
};

}  // namespace podlane
