// What podlane takes for granted about TUN devices and unix sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "lib/net/netns.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::test {
namespace {

bool make_tun(const std::string& name, bool persistent) {
  const UniqueFd tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return tun.valid() && ::ioctl(tun.get(), TUNSETIFF, &request) == 0 &&
         (!persistent || ::ioctl(tun.get(), TUNSETPERSIST, 1) == 0);
}

// Design 5.2: the CNI binary makes the TUN and ends; the relay attaches later.
TEST(Promise, APersistentTunOutlivesItsMaker) {
  ScratchNetns netns("plpt");
  netns.inside([&] {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(make_tun("kept0", true) && make_tun("gone0", false) ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  });
  const std::string links = netns.ip("link show");
  EXPECT_NE(links.find("kept0"), std::string::npos);
  EXPECT_EQ(links.find("gone0"), std::string::npos) << "without TUNSETPERSIST it goes with its last descriptor";
}

// Design 5.3: who connects to a hand-over socket is read from the kernel, by the namespace of the accepted socket.
TEST(Promise, AnAcceptedUnixSocketHasTheClientsNamespace) {
  ScratchNetns netns("plpc");
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/tmp/" + random_name("pltest");
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  UniqueFd client;
  netns.inside([&] {
    client.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  });
  const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ::unlink(path.c_str());
  ASSERT_TRUE(accepted.valid());
  const auto cookie = net::netns_cookie_of_socket(accepted.get());
  ASSERT_TRUE(cookie);
  EXPECT_EQ(*cookie, *net::netns_cookie(netns.fd()));
  EXPECT_NE(*cookie, *net::netns_cookie_of_socket(listener.get()));
}

}  // namespace
}  // namespace podlane::test
