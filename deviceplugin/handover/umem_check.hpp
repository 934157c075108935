// What a client's UMEM descriptor must be before the daemon registers it with the kernel. Nothing inside the memory is
// ever read: the pod may write there at any time. Any thread; does not block.
#pragma once

#include "lib/base/result.hpp"
#include "lib/lane/handover_msg.hpp"

namespace podlane::dp {

// Any descriptor may be asked about: no file system or driver gets to answer.
bool is_memfd(int fd);

// kInvalid in words for the client: not a memfd, seals, size, page size, not writable, pages missing.
Result<void> check_umem(int memfd, const lane::UmemShape& shape);

}  // namespace podlane::dp
