// What podlane takes from the kernel for granted about AF_XDP sockets and XSKMAPs. Each test names the promise and where
// the design leans on it; one that fails tells that the design must change on this kernel.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "tests/promises/raw_xsk.hpp"
#include "tests/promises/wire.hpp"
#include "tests/testlib/this_kernel.hpp"

namespace podlane::test {

UniqueFd load_redirect(int xskmap, std::uint32_t key, std::uint32_t fallback) {
  const bpf_insn code[] = {
      {.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .off = 0, .imm = xskmap},
      {.code = 0, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .src_reg = 0, .off = 0, .imm = static_cast<__s32>(key)},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .src_reg = 0, .off = 0, .imm = static_cast<__s32>(fallback)},
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_redirect_map},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  UniqueFd program(::bpf_prog_load(BPF_PROG_TYPE_XDP, "promise", "GPL", code, sizeof(code) / sizeof(code[0]), nullptr));
  if (!program.valid()) throw std::runtime_error("load");
  return program;
}

UniqueFd attach(int program, int ifindex) {
  LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_DRV_MODE);
  UniqueFd link(::bpf_link_create(program, ifindex, BPF_XDP, &options));
  if (!link.valid()) throw std::runtime_error("attach");
  return link;
}

UniqueFd make_xskmap(std::uint32_t entries) {
  UniqueFd map(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "promise", 4, 4, entries, nullptr));
  if (!map.valid()) throw std::runtime_error("map");
  return map;
}

PromiseWire::PromiseWire() {
  // The far end has one queue for sending: all its frames come in on queue 0 of two.
  near.ip("link add near0 numrxqueues 2 numtxqueues 1 type veth peer name far0 numrxqueues 1 numtxqueues 1 netns " +
          far.name());
  near.ip("link set near0 up");
  far.ip("link set far0 up");
  far.ip("addr add 10.7.0.2/24 brd + dev far0");
  near.ip("addr add 10.7.0.1/24 brd + dev near0");
  near.inside([&] { near_ifindex = static_cast<int>(::if_nametoindex("near0")); });
}

void PromiseWire::send_from_far(const std::string& text) const {
  far.inside([&] {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(4001);
    ::inet_pton(AF_INET, "10.7.0.255", &to.sin_addr);
    if (::sendto(socket.get(), text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)) < 0) {
      throw std::runtime_error("sendto");
    }
  });
}

namespace {

using std::chrono::seconds;

bool put(int map, std::uint32_t slot, int socket, std::uint64_t flags = BPF_ANY) {
  return ::bpf_map_update_elem(map, &slot, &socket, flags) == 0;
}

bool slot_is_empty(int map, std::uint32_t slot) {
  // An entry cannot be read back; only an empty slot takes BPF_NOEXIST. Undone at once.
  RawXsk probe;
  probe.register_memory();
  probe.size_rings();
  if (!put(map, slot, probe.fd(), BPF_NOEXIST)) return false;
  ::bpf_map_delete_elem(map, &slot);
  return true;
}

std::size_t heard(RawXsk& socket, const std::string& text) {
  std::size_t count = 0;
  for (const std::string& frame : socket.receive()) count += frame.find(text) != std::string::npos;
  return count;
}

// Design 5.3: finished sockets. Linux 6.4.
TEST(Promise, RingsCanBeMappedAfterBind) {
  PromiseWire wire;
  wire.near.inside([&] {
    RawXsk socket;
    socket.register_memory();
    socket.size_rings();
    ASSERT_EQ(socket.bind(wire.near_ifindex, 0), 0);
    if (!finished_sockets()) differs("without finished sockets");
    EXPECT_EQ(socket.map_rings(), finished_sockets());
  });
}

// Design 7: handover "unbound". The owner binds later.
TEST(Promise, AnXskmapTakesAnUnboundSocket) {
  PromiseWire wire;
  const UniqueFd map = make_xskmap(8);
  wire.near.inside([&] {
    RawXsk socket;
    socket.register_memory();
    socket.size_rings();
    EXPECT_TRUE(put(map.get(), 3, socket.fd()));
    ASSERT_TRUE(socket.map_rings());
    socket.fill();
    ASSERT_EQ(socket.bind(wire.near_ifindex, 0), 0);
    const UniqueFd program = load_redirect(map.get(), 3, XDP_DROP);
    const UniqueFd link = attach(program.get(), wire.near_ifindex);
    wire.send_from_far("late binder");
    EXPECT_TRUE(eventually(seconds(2), [&] { return heard(socket, "late binder") == 1; }));
  });
}

// Design 5.3: the pod is the only owner; nobody has to clean the map after its death.
TEST(Promise, ASlotEmptiesWhenTheLastDescriptorOfItsSocketCloses) {
  PromiseWire wire;
  const UniqueFd map = make_xskmap(8);
  wire.near.inside([&] {
    RawXsk first;
    first.set_up(wire.near_ifindex, 0);
    ASSERT_TRUE(put(map.get(), 5, first.fd()));
    UniqueFd copy(::fcntl(first.fd(), F_DUPFD_CLOEXEC, 0));
    first.close();
    EXPECT_FALSE(slot_is_empty(map.get(), 5)) << "a copy of the descriptor keeps it";
    copy.reset();
    EXPECT_TRUE(eventually(seconds(2), [&] { return slot_is_empty(map.get(), 5); }));

    RawXsk second;
    second.register_memory();
    second.size_rings();
    // Before bind, which every kernel can.
    void* ring = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, second.fd(), XDP_PGOFF_RX_RING);
    ASSERT_NE(ring, MAP_FAILED);
    ASSERT_TRUE(eventually(seconds(2), [&] { return second.bind(wire.near_ifindex, 0) == 0; }));
    ASSERT_TRUE(put(map.get(), 5, second.fd()));
    second.close();
    EXPECT_FALSE(slot_is_empty(map.get(), 5)) << "a mapping of a ring keeps it, too";
    ASSERT_EQ(::munmap(ring, 4096), 0);
    EXPECT_TRUE(eventually(seconds(2), [&] { return slot_is_empty(map.get(), 5); }));
  });
}

// Design 6: a frame for a lane without a socket is dropped by the flags' verdict, in one call.
TEST(Promise, AnEmptySlotGivesTheFallbackVerdict) {
  PromiseWire wire;
  const UniqueFd map = make_xskmap(8);
  wire.near.inside([&] {
    for (const std::uint32_t fallback : {XDP_DROP, XDP_PASS}) {
      const UniqueFd program = load_redirect(map.get(), 2, fallback);
      const std::string packet(64, 'p');
      LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = packet.data(), .data_size_in = 64, .repeat = 1);
      ASSERT_EQ(::bpf_prog_test_run_opts(program.get(), &run), 0);
      EXPECT_EQ(run.retval, fallback);
    }
  });
}

// Design 6: why lane_steer compares the queue. The verdict says redirected, the frame is lost, the fallback not taken.
TEST(Promise, ARedirectToASocketOfAnotherQueueLosesTheFrame) {
  PromiseWire wire;
  const UniqueFd map = make_xskmap(8);
  wire.near.inside([&] {
    RawXsk socket;
    socket.set_up(wire.near_ifindex, 1);
    ASSERT_TRUE(put(map.get(), 1, socket.fd()));
    const UniqueFd ear(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_port = htons(4001);
    ASSERT_EQ(::bind(ear.get(), reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
    const auto kernel_hears = [&] {
      char text[64];
      return ::recv(ear.get(), text, sizeof(text), 0) > 0;
    };
    {
      const UniqueFd program = load_redirect(map.get(), 1, XDP_PASS);
      const UniqueFd link = attach(program.get(), wire.near_ifindex);
      for (int i = 0; i < 20; ++i) wire.send_from_far("lost");
    }
    // With an empty slot the same frames are passed: the control.
    const UniqueFd program = load_redirect(map.get(), 2, XDP_PASS);
    const UniqueFd link = attach(program.get(), wire.near_ifindex);
    wire.send_from_far("control");
    char text[64] = {};
    ssize_t n = -1;
    ASSERT_TRUE(eventually(seconds(2), [&] { return (n = ::recv(ear.get(), text, sizeof(text), 0)) > 0; }));
    EXPECT_EQ(std::string(text, static_cast<std::size_t>(n)), "control") << "no lost frame came before it";
    EXPECT_FALSE(kernel_hears());
    EXPECT_EQ(heard(socket, "lost"), 0U);
  });
}

// Design 7: sockets of veth and device lanes are made inside the pod's namespace, after the device has come there.
TEST(Promise, AMoveOfTheDeviceKillsItsSocket) {
  PromiseWire wire;
  ScratchNetns other("plpo");
  wire.near.inside([&] {
    RawXsk socket;
    socket.set_up(wire.near_ifindex, 0);
    wire.near.ip("link set near0 netns " + other.name());
    int error = 0;
    socklen_t length = sizeof(error);
    ASSERT_EQ(::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length), 0);
    EXPECT_EQ(error, ENETDOWN);
    EXPECT_LT(::sendto(socket.fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0), 0);
    EXPECT_EQ(errno, ENXIO);
  });
}

TEST(Promise, ASocketBindsOnlyToADeviceOfItsOwnNamespace) {
  PromiseWire wire;
  int elsewhere = 0;
  wire.far.ip("link add only0 index 4242 type veth peer name only1");
  wire.far.inside([&] { elsewhere = static_cast<int>(::if_nametoindex("only0")); });
  wire.near.inside([&] {
    RawXsk socket;
    socket.register_memory();
    socket.size_rings();
    EXPECT_EQ(socket.bind(elsewhere, 0), ENODEV);
  });
}

// Design 5: restart table, first row.
TEST(Promise, APinnedLinkSurvivesItsProcess) {
  PromiseWire wire;
  const std::string pin = "/sys/fs/bpf/" + random_name("pltest");
  wire.near.inside([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      const UniqueFd map = make_xskmap(8);
      const UniqueFd program = load_redirect(map.get(), 0, XDP_PASS);
      const UniqueFd link = attach(program.get(), wire.near_ifindex);
      ::_exit(::bpf_obj_pin(link.get(), pin.c_str()) == 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    const auto attached = [&] {
      __u32 id = 0;
      return ::bpf_xdp_query_id(wire.near_ifindex, 0, &id) == 0 && id != 0;
    };
    EXPECT_TRUE(attached());
    ASSERT_EQ(::unlink(pin.c_str()), 0);
    EXPECT_TRUE(eventually(seconds(2), [&] { return !attached(); })) << "the last reference takes it off";
  });
}

}  // namespace
}  // namespace podlane::test
