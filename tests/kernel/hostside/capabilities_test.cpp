// The daemon runs with a named list of capabilities: everything here must work with just those.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "deviceplugin/lanes/neighbors.hpp"
#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

void keep_only(std::initializer_list<int> capabilities) {
  for (int i = 0; i <= 63; ++i) {
    if (std::ranges::count(capabilities, i) == 0) ::prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2]{};
  for (const int capability : capabilities) {
    data[capability / 32].effective |= 1U << (capability % 32);
    data[capability / 32].permitted |= 1U << (capability % 32);
  }
  if (::syscall(SYS_capset, &header, data) != 0) throw std::runtime_error("capset");
}

// Runs work in a child with these capabilities; its words on failure.
std::string with_capabilities(std::initializer_list<int> capabilities, const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string failure;
    try {
      keep_only(capabilities);
      work();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    (void)!::write(ends[1], failure.data(), failure.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string words(4096, '\0');
  const ssize_t n = ::read(ends[0], words.data(), words.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 && n >= 0 ? words.substr(0, static_cast<std::size_t>(n)) : "status " + std::to_string(status);
}

TEST(Capabilities, OfTheDaemonAreEnoughForTheHostSide) {
  Node node;
  ScratchNetns pod("plhp");
  const std::string failure =
      with_capabilities({CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN, CAP_IPC_LOCK}, [&] {
        bpf::Steering steering = node.open_steering();
        must(steering.attach_nic(node.nic()));
        const auto lane = must(dp::make_veth_lane(pod.fd(), random_name("plv"), "lane0v", "feed-1", LaneSlot(1)));
        must(steering.attach_veth_host_end(lane.host_end, {.slot = 1, .nic_ifindex = 1, .nic_mac = {}, .pad = {}}));
        must(steering.attach_veth_pod_end(pod.fd(), lane.pod_end, LaneSlot(1)));
        must(steering.attach_veth_pod_end(pod.fd(), lane.pod_end, LaneSlot(1)));
        must(dp::announce(node.nic(), node.nic_mac(), {"10.9.0.5/24", "fd00:9::5/64"}));
        if (!must(dp::probe_taken(node.nic(), node.nic_mac(), "10.9.0.99/24", std::chrono::milliseconds(300)))) {
          throw std::runtime_error("the probe heard nothing");
        }
        must(dp::join_solicited_node(node.nic(), "fd00:9::5"));
        const auto neighbors = must(dp::Neighbors::start([](IfIndex, const lane::Neighbor&) {}));
        neighbors->watch(node.nic(), "10.9.0.99", "10.9.0.5");
        if (!eventually(std::chrono::seconds(3),
                        [&] { return neighbors->current(node.nic(), "10.9.0.99").mac.has_value(); })) {
          throw std::runtime_error("no neighbour");
        }
        must(dp::delete_link(lane.host_end));
        must(steering.remove_all());
      });
  EXPECT_EQ(failure, "");
}

}  // namespace
}  // namespace podlane::test
