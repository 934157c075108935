// An AF_XDP socket by system calls alone, so that tests do not lean on the code they test. One thread. Made in the
// namespace of the calling thread.
#pragma once

#include <linux/if_xdp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/unique_fd.hpp"

namespace podlane::test {

class RawXsk {
 public:
  RawXsk();  // The socket, nothing else.
  ~RawXsk();
  RawXsk(const RawXsk&) = delete;
  RawXsk& operator=(const RawXsk&) = delete;

  void register_memory();
  void size_rings();
  bool map_rings();                                          // false: refused, errno says why.
  int bind(int ifindex, std::uint32_t queue);                // errno, 0 when bound. Copy mode.
  void fill();                                               // Gives half of the frames to the kernel.
  void set_up(int ifindex, std::uint32_t queue);             // All of the above; throws.
  std::vector<std::string> receive();                        // What is there now.
  void send(const std::string& frame);                       // Throws when the kernel refuses the kick.
  int fd() const { return socket_.get(); }
  void close();  // With its rings: a mapping of them keeps the socket alive like a descriptor.

 private:
  struct Ring {
    std::uint32_t* producer = nullptr;
    std::uint32_t* consumer = nullptr;
    void* descriptors = nullptr;
    void* mapping = nullptr;
    std::size_t bytes = 0;
  };
  bool map(Ring& ring, const xdp_ring_offset& offset, std::size_t descriptor_bytes, std::uint64_t page_offset);

  UniqueFd socket_;
  char* memory_ = nullptr;
  Ring rx_, tx_, fill_, completion_;
  std::uint32_t next_tx_frame_ = 0;
};

}  // namespace podlane::test
