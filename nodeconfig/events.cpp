#include "nodeconfig/events.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <cstring>

namespace podlane::nodeconfig {

namespace {

constexpr std::uint32_t kFileEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE;
constexpr std::uint32_t kUeventGroup = 1;  // The kernel's own; 2 is udev's.

UniqueFd open_netlink(int protocol, std::uint32_t groups) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (fd.valid() && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
  return fd;
}

// True when anything came. ENOBUFS: something was lost, which is a reason to look as well.
bool drain_socket(int fd) {
  bool any = false;
  char buffer[8192];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ENOBUFS) return any;
    any = true;
    if (n == 0) return any;
  }
}

}  // namespace

Result<Events> Events::open(std::vector<WatchedFile> files) {
  UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return fail_errno("inotify_init1");
  UniqueFd links = open_netlink(NETLINK_ROUTE, RTMGRP_LINK);
  if (!links.valid()) return fail_errno("open rtnetlink");
  // Uevents of devices come to the first network namespace only; elsewhere there is just nothing to hear.
  Events events(std::move(files), std::move(inotify), std::move(links),
                open_netlink(NETLINK_KOBJECT_UEVENT, kUeventGroup));
  events.watches_.assign(events.files_.size(), -1);
  events.watch_again();
  return events;
}

void Events::watch_again() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    watches_[i] = ::inotify_add_watch(inotify_.get(), files_[i].directory.c_str(), kFileEvents | IN_ONLYDIR);
  }
}

bool Events::drain_inotify() {
  bool wanted = false;
  alignas(inotify_event) std::array<char, 8192> buffer;
  for (;;) {
    const ssize_t n = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return wanted;
    for (const char* at = buffer.data(); at < buffer.data() + n;) {
      inotify_event event;
      std::memcpy(&event, at, sizeof(event));
      const std::string_view name = event.len == 0 ? "" : at + sizeof(event);
      for (std::size_t i = 0; i < files_.size(); ++i) {
        if (watches_[i] == event.wd && (files_[i].name.empty() || files_[i].name == name)) wanted = true;
      }
      if ((event.mask & IN_Q_OVERFLOW) != 0) wanted = true;
      at += sizeof(event) + event.len;
    }
  }
}

Result<Events::Woken> Events::wait(int signal_fd, int timeout_ms) {
  std::array<pollfd, 4> fds = {pollfd{signal_fd, POLLIN, 0},
                               {inotify_.get(), POLLIN, 0},
                               {links_.get(), POLLIN, 0},
                               {devices_.get(), POLLIN, 0}};  // A descriptor of -1 is passed over.
  const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) return fail_errno("poll");
  if (ready <= 0) return Woken::kTimeout;
  if (fds[0].revents != 0) {
    signalfd_siginfo info{};
    if (::read(signal_fd, &info, sizeof(info)) != sizeof(info)) return fail_errno("read signalfd");
    return info.ssi_signo == SIGHUP ? Woken::kHangup : Woken::kStop;
  }
  bool wanted = fds[1].revents != 0 && drain_inotify();
  if (fds[2].revents != 0 && drain_socket(links_.get())) wanted = true;
  if (fds[3].revents != 0 && drain_socket(devices_.get())) wanted = true;
  return wanted ? Woken::kEvent : Woken::kTimeout;
}

}  // namespace podlane::nodeconfig
