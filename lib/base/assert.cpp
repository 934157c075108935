#include "lib/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace podlane {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace podlane
