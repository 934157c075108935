// The owner of a lane in a pod: opens it by libpodlane and moves everything between rings and TUN until it is killed.
//   lane-pump NETNS DIRECTORY [mtu]     out: "open DEVICE XDP [MTU]" or "error …"
#include <fcntl.h>
#include <sched.h>

#include <cstdio>

#include "lib/podlane/podlane.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const int netns = ::open(argv[1], O_RDONLY | O_CLOEXEC);
  if (netns < 0 || ::setns(netns, CLONE_NEWNET) != 0) return 3;
  podlane_lane* lane = nullptr;
  char error[512] = "";
  podlane_options options = PODLANE_OPTIONS_INIT;
  options.deadline_ms = 5000;
  options.mode = PODLANE_MODE_INTERRUPT;
  if (const int code = podlane_open(argv[2], &options, &lane, error, sizeof(error)); code != 0) {
    std::printf("error %d %s\n", code, error);
    return 1;
  }
  const podlane_info* const info = podlane_describe(lane);
  std::printf("open %s %s", info->device, info->native_xdp != 0 ? "native" : "generic");
  if (argc == 4) std::printf(" %u", info->mtu);
  std::printf("\n");
  std::fflush(stdout);
  for (;;) {
    podlane_frame frames[32];
    const int count = podlane_rx_burst(lane, frames, 32);
    if (count > 0) podlane_pass_to_tun(lane, frames, static_cast<unsigned>(count));
    if (podlane_pump_tun(lane, 32) == PODLANE_EGONE) return 4;
    if (count == 0 && podlane_wait(lane, 50000) == PODLANE_EGONE) return 4;
  }
}
