// The loader's own promises: adoption, foreign programs, pins, shapes of maps.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/kernel/hostside/node.hpp"

namespace podlane::test {
namespace {

std::uint32_t program_on(IfIndex device) {
  __u32 id = 0;
  ::bpf_xdp_query_id(device.value, 0, &id);
  return id;
}

UniqueFd pass_program(const char* name) {
  const bpf_insn code[] = {{.code = 0xb7, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
                           {.code = 0x95, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  return UniqueFd(::bpf_prog_load(BPF_PROG_TYPE_XDP, name, "GPL", code, 2, nullptr));
}

TEST(Steering, LivesOnAfterItsProcessAndIsAdopted) {
  Node node;
  RawXsk socket;
  socket.set_up(node.nic().value, 0);
  const pid_t child = ::fork();
  if (child == 0) {  // A daemon's life that ends without a word.
    bpf::Steering steering = node.open_steering();
    const bool ok = steering.attach_nic(node.nic()) && steering.set_socket(LaneSlot(3), socket.fd()) &&
                    steering.set_lane(node.nic(), ip("10.9.0.5"),
                                      {.slot = 3, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0});
    ::_exit(ok ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(node.send_from_far("10.9.0.5", "orphan"));
  EXPECT_EQ(collect(socket, "orphan").size(), 1U);

  // The next life takes over while frames come: none may be lost.
  const std::uint32_t before = program_on(node.nic());
  constexpr std::size_t kFrames = 200;
  std::thread sender([&] {
    for (std::size_t i = 0; i < kFrames; ++i) {
      node.send_from_far("10.9.0.5", "steady");
      pass_time(std::chrono::microseconds(500));
    }
  });
  bpf::Steering steering = node.open_steering();
  const auto attachment = steering.attach_nic(node.nic());
  const auto frames = collect(socket, "steady", kFrames);
  sender.join();
  ASSERT_TRUE(attachment) << attachment.error().message();
  EXPECT_TRUE(attachment->adopted);
  EXPECT_EQ(attachment->mode, bpf::AttachMode::kNative);
  EXPECT_NE(program_on(node.nic()), before) << "the program was replaced";
  EXPECT_EQ(frames.size(), kFrames);
  EXPECT_EQ(steering.attached_nics(), std::vector<IfIndex>{node.nic()});
  EXPECT_EQ(steering.lanes()->size(), 1U) << "what the earlier life steered can be read";
  ASSERT_TRUE(steering.remove_all());
}

TEST(Steering, RefusesAForeignProgramAndNamesIt) {
  Node node;
  const UniqueFd foreign = pass_program("somebody");
  ASSERT_TRUE(foreign.valid());
  for (const __u32 mode : {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE}) {
    ASSERT_EQ(::bpf_xdp_attach(node.nic().value, foreign.get(), mode, nullptr), 0);
    const std::uint32_t id = program_on(node.nic());
    bpf::Steering steering = node.open_steering();
    const auto attached = steering.attach_nic(node.nic());
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().code(), Errc::kExists);
    EXPECT_NE(attached.error().message().find("program " + std::to_string(id) + " \"somebody\""), std::string::npos)
        << attached.error().message();
    EXPECT_NE(attached.error().message().find("nic0"), std::string::npos);
    EXPECT_EQ(program_on(node.nic()), id);
    ASSERT_EQ(::bpf_xdp_detach(node.nic().value, mode, nullptr), 0);
    ASSERT_TRUE(steering.remove_all());
  }
}

TEST(Steering, AttachesGenericallyWhereTheDriverHasNoXdp) {
  Node node;
  node.host().ip("link add br0 type bridge");
  const IfIndex bridge(static_cast<int>(::if_nametoindex("br0")));
  bpf::Steering steering = node.open_steering();
  const auto attached = steering.attach_nic(bridge);
  ASSERT_TRUE(attached) << attached.error().message();
  EXPECT_EQ(attached->mode, bpf::AttachMode::kGeneric);
  const auto again = steering.attach_nic(bridge);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->adopted);
  EXPECT_EQ(again->mode, bpf::AttachMode::kGeneric);
  ASSERT_TRUE(steering.remove_all());
}

TEST(Steering, LeavesNothingAfterDetachAndRemoveAll) {
  Node node;
  bpf::Steering steering = node.open_steering();
  ASSERT_TRUE(steering.attach_nic(node.nic()));
  EXPECT_NE(program_on(node.nic()), 0U);
  ASSERT_TRUE(steering.detach_nic(node.nic()));
  ASSERT_TRUE(steering.detach_nic(node.nic())) << "detaching twice is success";
  EXPECT_EQ(program_on(node.nic()), 0U);
  EXPECT_TRUE(steering.attached_nics().empty());
  ASSERT_TRUE(steering.attach_nic(node.nic()));
  ASSERT_TRUE(steering.remove_all());
  EXPECT_EQ(program_on(node.nic()), 0U);
  EXPECT_FALSE(std::filesystem::exists(node.bpffs()));
}

TEST(Steering, RemovesPinsOfDevicesThatAreGone) {
  Node node;
  node.host().ip("link add gone0 type veth peer name gone1");
  const IfIndex gone = must(dp::nic_facts("gone0", "/sys")).index;
  bpf::Steering steering = node.open_steering();
  ASSERT_TRUE(steering.attach_nic(gone));
  const std::string pin = node.bpffs() + "/nic-" + std::to_string(gone.value);
  ASSERT_TRUE(std::filesystem::exists(pin));
  node.host().ip("link del gone0");
  EXPECT_TRUE(steering.attached_nics().empty());
  bpf::Steering next = node.open_steering();
  EXPECT_FALSE(std::filesystem::exists(pin));
  ASSERT_TRUE(next.remove_all());
}

TEST(Steering, TakesItsProgramOffADeviceThatWasMovedAway) {
  Node node;
  node.host().ip("link add moved0 type veth peer name moved1");
  const IfIndex moved = must(dp::nic_facts("moved0", "/sys")).index;
  bpf::Steering steering = node.open_steering();
  ASSERT_TRUE(steering.attach_nic(moved));
  node.host().ip("link set moved0 netns " + node.far().name());
  bpf::Steering next = node.open_steering();
  EXPECT_TRUE(next.attached_nics().empty());
  node.far().inside([&] { EXPECT_EQ(program_on(must(dp::nic_facts("moved0", "/sys")).index), 0U); });
  ASSERT_TRUE(next.remove_all());
}

TEST(Steering, RefusesXsksOfAnotherShapeAndRemakesSideMaps) {
  Node node;
  ASSERT_EQ(::mkdir(node.bpffs().c_str(), 0700), 0);
  const std::string xsks = node.bpffs() + "/xsks", lanes = node.bpffs() + "/lane_by_addr";
  const UniqueFd small(::bpf_map_create(BPF_MAP_TYPE_XSKMAP, "xsks", 4, 4, 64, nullptr));
  const UniqueFd old(::bpf_map_create(BPF_MAP_TYPE_HASH, "lane_by_addr", 16, 16, 64, nullptr));
  ASSERT_EQ(::bpf_obj_pin(small.get(), xsks.c_str()), 0);
  ASSERT_EQ(::bpf_obj_pin(old.get(), lanes.c_str()), 0);
  const auto refused = bpf::Steering::open(node.bpffs());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kExists);
  EXPECT_NE(refused.error().message().find(xsks), std::string::npos) << refused.error().message();
  EXPECT_NE(refused.error().message().find("number of entries is 64, must be 4096"), std::string::npos)
      << refused.error().message();
  ASSERT_EQ(::unlink(xsks.c_str()), 0);
  auto steering = bpf::Steering::open(node.bpffs());
  ASSERT_TRUE(steering) << steering.error().message();
  EXPECT_TRUE(steering->set_lane(node.nic(), ip("10.9.0.5"), {.slot = 1, .kind = LANE_KIND_QUEUE, .rx_queue = 0, .veth_ifindex = 0}));
  ASSERT_TRUE(steering->remove_all());
}

TEST(Steering, SaysInWordsWhatIsWrongWithItsDirectory) {
  const auto plain = bpf::Steering::open(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().code(), Errc::kInvalid);
  EXPECT_NE(plain.error().message().find("bpf file system"), std::string::npos);
  EXPECT_FALSE(bpf::Steering::open("/nowhere/at/all"));
}

}  // namespace
}  // namespace podlane::test
