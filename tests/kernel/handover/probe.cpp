// handover-probe NETNS SOCKET: enters the namespace, becomes uid 65534 without capabilities and with no new privileges,
// asks for the lane, prints one line of what it got, and echoes frames until its standard input ends. A line "dead" at
// the end of the session, "resumed" when it is back.
#include <fcntl.h>
#include <grp.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "lib/base/file.hpp"
#include "lib/lane/handover_session.hpp"
#include "tests/kernel/handover/ring_client.hpp"

namespace {

int give_up(const char* what) {
  std::printf("failed %s: %s\n", what, std::strerror(errno));
  return 1;
}

bool has_no_capability() {
  const auto status = podlane::read_file("/proc/self/status");
  return status && status->find("CapEff:\t0000000000000000") != std::string::npos &&
         status->find("NoNewPrivs:\t1") != std::string::npos;
}

bool is_attached(const podlane::UniqueFd& tun, const std::string& ifname) {
  ifreq request{};
  return ::ioctl(tun.get(), TUNGETIFF, &request) == 0 && ifname == request.ifr_name;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace podlane;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc != 3) return 2;
  const UniqueFd netns(::open(argv[1], O_RDONLY | O_CLOEXEC));
  if (::setns(netns.get(), CLONE_NEWNET) != 0) return give_up("setns");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 ||
      ::setuid(65534) != 0 || !has_no_capability()) {
    return give_up("giving up privileges");
  }
  auto grant = lane::request_lane({.socket_path = argv[2], .client = "handover-probe"},
                                  std::chrono::steady_clock::now() + std::chrono::seconds(8));
  if (!grant) {
    std::printf("failed %s\n", grant.error().message().c_str());
    return 1;
  }
  for (const UniqueFd& tun : grant->tuns) {
    if (!is_attached(tun, grant->description.ifname)) return give_up("TUNGETIFF");
  }
  test::RingClient rings;
  const bool has_rings = grant->xsk.valid();
  if (has_rings && !rings.open(*grant)) return give_up("rings");
  lane::Session session(std::move(grant->session), argv[2], "handover-probe");
  std::printf("granted %s\n", lane::encode(grant->description).c_str());
  for (int turn = 0;; ++turn) {
    if (has_rings) rings.echo();
    pollfd entries[] = {{.fd = 0, .events = POLLIN, .revents = 0},
                        {.fd = has_rings ? grant->xsk.get() : -1, .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, 1);
    if ((entries[0].revents & POLLHUP) != 0) return 0;
    const lane::SessionEvents events = session.tick();
    if (events.lost) std::printf("dead\n");
    if (events.resumed) std::printf("resumed\n");
  }
}
