// lane-rig: stands one lane up (lane_rig.hpp), prints "POD-NETNS PEER-NETNS LANE-DIRECTORY", and keeps it until its input
// ends. For measuring by hand and for tests/bench; a stand-in for CNI plugin and device plugin.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/kernel/relay/lane_rig.hpp"

int main(int argc, char** argv) {
  podlane::test::RigOptions options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--spinning") == 0) options.mode = podlane::lane::Mode::kSpinning;
    if (std::strcmp(argv[i], "--generic") == 0) options.generic_xdp = true;
  }
  podlane::test::LaneRig rig(options);
  std::printf("%s %s %s\n", rig.pod.name().c_str(), rig.peer.name().c_str(), rig.directory().c_str());
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
