// Umem: how a lane's packet memory is cut into frames. A view: the memory is a memfd that the pod made and mapped
// (lib/lane/umem_memory.hpp) and must outlive it. Copied freely; who may touch a frame says frame_pool.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/result.hpp"

namespace podlane::xsk {

class Umem {
 public:
  static constexpr std::uint32_t kFramesMin = 64;

  // frame_size_bytes: 2048 or 4096, as AF_XDP's aligned chunks must be (xdp_umem_reg, net/xdp/xdp_umem.c).
  static Result<Umem> over(std::byte* memory, std::size_t bytes, std::uint32_t frames, std::uint32_t frame_size_bytes) {
    if (frame_size_bytes != 2048 && frame_size_bytes != 4096) {
      return fail(Errc::kInvalid, "umem: frameSize " + std::to_string(frame_size_bytes) + " must be 2048 or 4096");
    }
    if (frames < kFramesMin || bytes / frame_size_bytes < frames) {
      return fail(Errc::kInvalid, "umem: " + std::to_string(frames) + " frames must be at least " +
                                      std::to_string(kFramesMin) + " and fit into " + std::to_string(bytes) + " bytes");
    }
    Umem umem;
    umem.base_ = memory;
    umem.bytes_ = bytes;
    umem.frames_ = frames;
    umem.frame_size_bytes_ = frame_size_bytes;
    return umem;
  }

  Umem() = default;
  std::byte* at(std::uint64_t address) const { return base_ + address; }
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  std::uint32_t frames() const { return frames_; }
  std::uint32_t frame_size_bytes() const { return frame_size_bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t frames_ = 0;
  std::uint32_t frame_size_bytes_ = 0;
};

}  // namespace podlane::xsk
