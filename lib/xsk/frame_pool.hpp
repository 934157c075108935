// FramePool: who holds each frame of a UMEM. Every frame has one place: free, with the kernel for receiving (fill or RX
// ring), in hand (this program's: received, or reserved for sending), or with the kernel for sending (TX or completion
// ring). Owner: the lane's port; one thread. No allocation after construction.
//
// The place of a frame is checked at each move. So an address that comes back twice, or from nowhere (kernels complete
// descriptors that they refused, too), or that an application frees twice, is refused instead of being handed out again.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/assert.hpp"

namespace podlane::xsk {

enum class Place : std::uint8_t { kFree, kReceiving, kReceived, kReserved, kSending };
inline constexpr std::size_t kPlaces = 5;

class FramePool {
 public:
  FramePool() = default;
  // frame_size_bytes is a power of two (umem.hpp).
  FramePool(std::uint32_t frames, std::uint32_t frame_size_bytes)
      : shift_(static_cast<unsigned>(std::countr_zero(frame_size_bytes))), places_(frames, Place::kFree) {
    PODLANE_ASSERT(std::has_single_bit(frame_size_bytes));
    free_.reserve(frames);
    // Last in, first out, for cache heat; the first frame of the UMEM comes out first.
    for (std::uint32_t i = frames; i > 0; --i) free_.push_back(i - 1);
    count_[static_cast<unsigned>(Place::kFree)] = frames;
  }

  std::uint32_t free_count() const { return count(Place::kFree); }
  std::uint32_t count(Place place) const { return count_[static_cast<unsigned>(place)]; }
  std::uint32_t frames() const { return static_cast<std::uint32_t>(places_.size()); }

  // Start of the frame that address lies in.
  std::uint64_t start_of(std::uint64_t address) const { return address >> shift_ << shift_; }

  // free -> reserved. false: none is free.
  bool take(std::uint64_t& address) {
    if (free_.empty()) return false;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    set(index, Place::kFree, Place::kReserved);
    address = std::uint64_t{index} << shift_;
    return true;
  }

  // Where the frame is that address lies in; kFree also for an address outside of the UMEM.
  Place place_of(std::uint64_t address) const {
    const std::uint64_t index = address >> shift_;
    return index < places_.size() ? places_[index] : Place::kFree;
  }
  bool is_in_hand(std::uint64_t address) const {
    const Place place = place_of(address);
    return place == Place::kReceived || place == Place::kReserved;
  }

  // false when the frame that address lies in is not at `from`, or there is no such frame; nothing changes then.
  bool move(std::uint64_t address, Place from, Place to) {
    const std::uint64_t index = address >> shift_;
    if (index >= places_.size() || places_[index] != from) [[unlikely]] return false;
    set(static_cast<std::uint32_t>(index), from, to);
    if (to == Place::kFree) free_.push_back(static_cast<std::uint32_t>(index));
    return true;
  }
  // in hand -> to.
  bool move_from_hand(std::uint64_t address, Place to) { return is_in_hand(address) && move(address, place_of(address), to); }

  // The debug check: counts the frames place by place from the ground. True when nothing is lost or doubled.
  bool adds_up() const {
    std::array<std::uint32_t, kPlaces> seen{};
    for (const Place place : places_) ++seen[static_cast<unsigned>(place)];
    return seen == count_ && free_.size() == seen[static_cast<unsigned>(Place::kFree)];
  }

 private:
  void set(std::uint32_t index, Place from, Place to) {
    places_[index] = to;
    --count_[static_cast<unsigned>(from)];
    ++count_[static_cast<unsigned>(to)];
  }

  unsigned shift_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<Place> places_;
  std::array<std::uint32_t, kPlaces> count_{};
};

}  // namespace podlane::xsk
