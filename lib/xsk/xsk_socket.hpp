// XskSocket: an AF_XDP socket with its rings and the account of its frames. One owner thread; no allocation after it is
// made. The memory of the Umem must outlive it.
//
// How it works. Each frame has one place (frame_pool.hpp).
//   refill()      free -> receiving, until the kernel holds receive_target() frames
//   receive()     receiving -> received, in hand
//   take()        free -> reserved, in hand, for sending: within send_room(), so that sending never starves receiving
//   send()        in hand -> sending; nothing goes out in copy mode before kick()
//   reclaim()     sending -> free, as far as the kernel has completed; never waits
//   give_back()   in hand -> free
// Left out: multi-buffer frames (XDP_USE_SG) and shared UMEMs.
#pragma once

#include <cstdint>
#include <span>

#include "lib/base/result.hpp"
#include "lib/base/strong.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/xsk/frame_pool.hpp"
#include "lib/xsk/rings.hpp"
#include "lib/xsk/umem.hpp"

namespace podlane::xsk {

inline constexpr std::uint32_t kKickBatch = 32;  // Most that one copy-mode kick sends (TX_BATCH_SIZE, net/xdp/xsk.c).

struct RingSizes {  // Descriptors; powers of two.
  std::uint32_t rx = 0, tx = 0, fill = 0, completion = 0;
};

struct FrameSpan {  // Bytes of a packet within the UMEM.
  std::uint64_t address = 0;
  std::uint32_t length = 0;
};

enum class KickOutcome {
  kSent,   // The kernel has taken all there was.
  kLater,  // It took a part or nothing for now (ring or memory full): kick again.
  kDown,   // The device is not up (ENETDOWN).
  kGone,   // The socket is no longer bound to a device (ENXIO).
};

class XskSocket {
 public:
  // A finished socket: bound, with a UMEM and rings of these sizes. Mapping the rings of a bound socket: Linux 6.4.
  static Result<XskSocket> adopt(UniqueFd socket, const Umem& umem, const RingSizes& sizes);

  struct Binding {
    IfIndex device;
    QueueId queue;
    std::uint32_t headroom_bytes = 0;
    bool zero_copy = false;
  };
  // An unbound socket: registers the memory (this process's memlock limit pays), sizes the rings, maps them, binds.
  // Waits up to 2 s for a queue that was closed a moment ago to become free.
  static Result<XskSocket> set_up(UniqueFd socket, const Umem& umem, const RingSizes& sizes, const Binding& binding);

  int fd() const { return socket_.get(); }
  bool zero_copy() const { return zero_copy_; }  // As the kernel says (XDP_OPTIONS).
  const FramePool& pool() const { return pool_; }
  std::uint32_t frame_size_bytes() const { return frame_size_bytes_; }

  std::uint32_t receive_target() const { return receive_target_; }
  std::uint32_t refill();  // Number given to the kernel.
  std::uint32_t receive(std::span<FrameSpan> frames);
  std::uint32_t send_room();  // How many frames may be taken and sent now.
  bool take(std::uint64_t& address);
  // All of `frames` must be in hand, and at most send_room() many; those that are not are left out. Number put on the ring.
  std::uint32_t send(std::span<const FrameSpan> frames);
  std::uint32_t reclaim();
  bool give_back(std::uint64_t address) { return pool_.move_from_hand(address, Place::kFree); }

  std::uint32_t send_limit() const { return send_limit_; }
  std::uint32_t not_taken() const { return tx_.not_taken(); }  // Sent, and not yet taken by the kernel.
  // One system call where the mode needs one. Counts are of this socket since it was made.
  KickOutcome kick();
  // Zero copy: wakes the driver when it waits for receive frames.
  void wake_receive();

  std::uint64_t kicks() const { return kicks_; }
  std::uint64_t foreign_completions() const { return foreign_completions_; }  // Addresses that were not being sent.
  std::uint64_t foreign_receives() const { return foreign_receives_; }

 private:
  XskSocket(UniqueFd socket, const Umem& umem);
  Result<void> map_rings(const RingSizes& sizes);

  UniqueFd socket_;
  FramePool pool_;
  FillRing fill_;
  CompletionRing completion_;
  RxRing rx_;
  TxRing tx_;
  std::uint32_t frame_size_bytes_ = 0;
  std::uint32_t receive_target_ = 0;
  std::uint32_t send_limit_ = 0;
  bool zero_copy_ = false;
  std::uint64_t kicks_ = 0, foreign_completions_ = 0, foreign_receives_ = 0;
};

}  // namespace podlane::xsk
