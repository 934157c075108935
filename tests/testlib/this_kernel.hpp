// What differs between the kernels that the suites run on (tests/vm). A test that cannot show a thing on an older kernel
// shows what happens there instead, and says so with differs(): each scenario lists these, no more and no less.
#pragma once

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstdio>
#include <string>

namespace podlane::test {

// Finished sockets: rings can be mapped after bind since Linux 6.4 (net/xdp/xsk.c, xsk_mmap).
inline bool finished_sockets() {
  utsname names{};
  unsigned major = 0, minor = 0;
  if (::uname(&names) != 0 || std::sscanf(names.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 4);
}

inline void differs(const std::string& what) { ::testing::Test::RecordProperty("differs", what); }

}  // namespace podlane::test
