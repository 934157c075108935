// UmemMemory: the memory of a UMEM as the pod makes it - a memfd, every page in place, sealed, mapped. So the pod's memory
// limit, huge-page limit and NUMA policy pay, not the daemon's. One owner; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/lane/handover_msg.hpp"

namespace podlane::lane {

// frames × frame size, rounded up to the (huge) page: the size that both sides of the hand-over must agree on.
std::size_t umem_bytes(const UmemShape& shape);

class UmemMemory {
 public:
  // Pages come from the calling thread's NUMA policy. The error says what is short: memory or huge pages.
  static Result<UmemMemory> create(const UmemShape& shape);

  UmemMemory() = default;
  UmemMemory(UmemMemory&& other) noexcept;
  UmemMemory& operator=(UmemMemory&& other) noexcept;
  UmemMemory(const UmemMemory&) = delete;
  UmemMemory& operator=(const UmemMemory&) = delete;
  ~UmemMemory();

  bool valid() const { return memory_ != nullptr; }
  std::byte* memory() const { return memory_; }
  std::size_t size() const { return size_; }  // Bytes mapped.
  int memfd() const { return memfd_.get(); }

 private:
  UniqueFd memfd_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace podlane::lane
