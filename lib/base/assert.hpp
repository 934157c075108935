// PODLANE_ASSERT: for our own invariants only, never for what a peer, a file or the kernel may say. Always on.
#pragma once

namespace podlane {
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
}

#define PODLANE_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::podlane::assert_failed(#expression, __FILE__, __LINE__))
