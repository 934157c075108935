// What a node has of Onload: the recorded tree, and the same with pieces missing; and what a pool offers of it.
#include <gtest/gtest.h>

#include <functional>

#include "deviceplugin/inventory/onload_offer.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/unit/inventory/onload_tree.hpp"

namespace podlane::dp {
namespace {

using test::OnloadTree;

std::string scratch() {
  return "/tmp/" + test::random_name("pln");
}

PoolConfig pool_of(lane::Mode mode, std::string interface = {}) {
  return {.name = "accel",
          .kind = lane::Kind::kOnload,
          .lanes = 1,
          .default_mode = mode,
          .interface = std::move(interface)};
}

TEST(OnloadNode, RecordedTreeIsRead) {
  OnloadTree tree(scratch());
  if (!tree.has_nodes()) GTEST_SKIP() << "may make no device nodes";
  OnloadReader reader(tree.roots());
  const OnloadNode node = reader.read();
  EXPECT_EQ(node.why, "");
  EXPECT_EQ(node.version, "ef17681d 2026-07-22 master");
  EXPECT_EQ(node.interface_version, "94e6b7eccf68029c8c29f301197d3e9a");
  EXPECT_EQ(node.device_nodes, (std::vector<std::string>{"/dev/onload", "/dev/onload_epoll", "/dev/sfc_char"}));
  EXPECT_EQ(node.libraries, (std::vector<std::string>{"/usr/lib64/libonload.so", "/usr/lib64/libonload_ext.so"}));
  EXPECT_TRUE(node.warnings.empty());
  ASSERT_EQ(node.nics.size(), 2U);
  EXPECT_EQ(node.nics[0], (OnloadNic{.name = "eth0",
                                     .driver = "virtio_net",
                                     .accelerated = true,
                                     .transport = onload::Transport::kAfXdp,
                                     .can_af_xdp = true}));
  EXPECT_FALSE(node.nics[1].accelerated);
  EXPECT_FALSE(node.nics[1].can_af_xdp);
  EXPECT_EQ(reader.read(), node);
}

TEST(OnloadNode, WhatIsMissingIsNamed) {
  struct Case {
    const char* name;
    std::function<void(OnloadTree&)> change;
    const char* why;  // Empty: still usable.
    const char* warning;
  };
  const Case cases[] = {
      {"no module", [](OnloadTree& t) { t.remove("/sys/module/onload"); }, "module onload is not loaded", ""},
      {"going", [](OnloadTree& t) { t.write("/sys/module/onload/initstate", "going\n"); }, "'going', not live", ""},
      {"no sfc_resource", [](OnloadTree& t) { t.remove("/sys/module/sfc_resource"); }, "sfc_resource is not loaded",
       ""},
      {"no node", [](OnloadTree& t) { t.remove("/dev/onload"); }, "no device node /dev/onload", ""},
      {"no epoll node", [](OnloadTree& t) { t.remove("/dev/onload_epoll"); }, "no device node /dev/onload_epoll", ""},
      {"a file for a node",
       [](OnloadTree& t) {
         t.remove("/dev/onload");
         t.write("/dev/onload", "");
       },
       "no device node /dev/onload", ""},
      {"no sfc_char", [](OnloadTree& t) { t.remove("/dev/sfc_char"); }, "", ""},
      {"node for root only", [](OnloadTree& t) { t.set_mode("/dev/onload", 0600); }, "", "/dev/onload is not open"},
      {"no library", [](OnloadTree& t) { t.remove("/usr/lib64/libonload.so"); }, "libonload.so is in none of", ""},
      {"library of Debian's place",
       [](OnloadTree& t) {
         t.remove("/usr/lib64");
         t.write("/usr/lib/x86_64-linux-gnu/libonload.so", "94e6b7eccf68029c8c29f301197d3e9a");
       },
       "", ""},
      {"library of another build", [](OnloadTree& t) { t.write("/usr/lib64/libonload.so", "9.0.2"); }, "another build",
       ""},
      {"library that says its version only",
       [](OnloadTree& t) { t.write("/usr/lib64/libonload.so", "Onload ef17681d 2026"); }, "", ""},
      {"nothing registered", [](OnloadTree& t) { t.remove("/proc/driver/sfc_resource"); },
       "accelerates no NIC of this node; one of eth0 can be registered", ""},
      {"nothing to register",
       [](OnloadTree& t) {
         t.remove("/proc/driver/sfc_resource");
         t.remove("/sys/class/net/eth0");
       },
       "none has a driver with XDP", ""},
      {"Onload without AF_XDP",
       [](OnloadTree& t) {
         t.remove("/proc/driver/sfc_resource");
         t.remove("/sys/module/sfc_resource/afxdp");
       },
       "none has a driver with XDP", ""},
      {"no network at all", [](OnloadTree& t) { t.remove("/sys/class"); }, "accelerates no NIC", ""},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    OnloadTree tree(scratch());
    if (!tree.has_nodes()) GTEST_SKIP() << "may make no device nodes";
    one.change(tree);
    const OnloadNode node = OnloadReader(tree.roots()).read();
    EXPECT_EQ(node.why.empty(), std::string(one.why).empty()) << node.why;
    EXPECT_NE(node.why.find(one.why), std::string::npos) << node.why;
    const std::string warning = node.warnings.empty() ? "" : node.warnings.front();
    EXPECT_EQ(warning.empty(), std::string(one.warning).empty()) << warning;
    EXPECT_NE(warning.find(one.warning), std::string::npos) << warning;
  }
}

TEST(OnloadNode, NativeNics) {
  OnloadTree tree(scratch());
  if (!tree.has_nodes()) GTEST_SKIP() << "may make no device nodes";
  tree.add_nic("ens2f0", "sfc", 8);
  OnloadReader reader(tree.roots());
  const auto sfc = [&] {
    return reader.read().nics.at(0).name == "ens2f0" ? reader.read().nics[0] : reader.read().nics[1];
  };
  EXPECT_TRUE(sfc().accelerated);
  EXPECT_EQ(sfc().transport, onload::Transport::kNative);
  EXPECT_EQ(sfc().channels, 8U);
  tree.write("/sys/class/net/ens2f0/device/sfc_resource/enable", "0\n");
  EXPECT_FALSE(sfc().accelerated);
  // Without the driver's own link, it is a NIC like others: by AF_XDP, when it is registered.
  tree.write("/sys/module/sfc_resource/parameters/enable_driverlink", "0\n");
  tree.write("/proc/driver/sfc_resource/ens2f0/firewall_rules", "");
  EXPECT_TRUE(sfc().accelerated);
  EXPECT_EQ(sfc().transport, onload::Transport::kAfXdp);
}

OnloadNode node_of(std::vector<OnloadNic> nics) {
  return {.version = "9.2.1",
          .device_nodes = {"/dev/onload", "/dev/onload_epoll"},
          .libraries = {"/usr/lib64/libonload.so"},
          .nics = std::move(nics)};
}

const OnloadNic kNative{"ens2f0", "sfc", true, onload::Transport::kNative, true, 8};
const OnloadNic kAfXdp{"eth0", "virtio_net", true, onload::Transport::kAfXdp, true, 2};
const OnloadNic kIdle{"eth1", "ena", false, onload::Transport::kAfXdp, true, 4};
const OnloadNic kTap{"tap0", "", false, onload::Transport::kAfXdp, false, 1};

TEST(OnloadOffer, TakesTheColumnOfTheWayToTheNic) {
  struct Case {
    const char* name;
    std::vector<OnloadNic> nics;
    const char* interface;
    onload::Transport transport;
    std::uint32_t channels;
    const char* why;
  };
  const Case cases[] = {
      {"native", {kNative}, "", onload::Transport::kNative, 0, ""},
      {"AF_XDP", {kAfXdp}, "", onload::Transport::kAfXdp, 2, ""},
      {"both, none named", {kAfXdp, kNative}, "", onload::Transport::kAfXdp, 2, ""},
      {"both, in the other order", {kNative, kAfXdp}, "", onload::Transport::kAfXdp, 2, ""},
      {"both, native named", {kAfXdp, kNative}, "ens2f0", onload::Transport::kNative, 0, ""},
      {"not there", {kNative}, "eth9", onload::Transport::kNative, 0, "no interface 'eth9'"},
      {"not registered", {kNative, kIdle}, "eth1", onload::Transport::kNative, 0, "echo eth1 >"},
      {"cannot be", {kNative, kTap}, "tap0", onload::Transport::kNative, 0, "no XDP"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const OnloadOffer offer = offer_of(pool_of(lane::Mode::kInterrupt, one.interface), node_of(one.nics));
    EXPECT_NE(offer.why.find(one.why), std::string::npos) << offer.why;
    EXPECT_EQ(offer.why.empty(), std::string(one.why).empty()) << offer.why;
    EXPECT_EQ(offer.transport, one.transport);
    EXPECT_EQ(offer.channels, one.channels);
    EXPECT_EQ(*onload::find(offer.environment, "EF_INT_DRIVEN"),
              one.transport == onload::Transport::kNative ? "1" : "0");
  }
}

TEST(OnloadOffer, HasNoMoreDevicesThanChannels) {
  const OnloadOffer offer = offer_of(pool_of(lane::Mode::kSpinning), node_of({kAfXdp}));
  EXPECT_EQ(offer.why_unhealthy(0), "");
  EXPECT_EQ(offer.why_unhealthy(1), "");
  EXPECT_NE(offer.why_unhealthy(2).find("eth0 has 2 channels"), std::string::npos) << offer.why_unhealthy(2);
  EXPECT_EQ(offer_of(pool_of(lane::Mode::kSpinning), node_of({kNative})).why_unhealthy(100), "");
  EXPECT_EQ(OnloadOffer().why_unhealthy(0), "not looked at yet");
}

TEST(OnloadOffer, EnvironmentOfAContainer) {
  const auto value = [](const onload::Environment& environment, const char* name) {
    const std::string* const found = onload::find(environment, name);
    return found == nullptr ? std::string("-") : *found;
  };
  PoolConfig pool = pool_of(lane::Mode::kAdaptive);
  const OnloadOffer offer = offer_of(pool, node_of({kAfXdp}));
  const auto one = environment_of(offer, {1});
  EXPECT_EQ(value(one, "LD_PRELOAD"), "/usr/lib64/libonload.so");
  EXPECT_EQ(value(one, "EF_IRQ_CHANNEL"), "1");
  EXPECT_EQ(value(one, "EF_POLL_USEC"), "50");
  EXPECT_EQ(value(environment_of(offer, {0, 1}), "EF_IRQ_CHANNEL"), "-");  // One variable cannot name two.
  EXPECT_EQ(value(environment_of(offer_of(pool, node_of({kNative})), {1}), "EF_IRQ_CHANNEL"), "-");
  EXPECT_NE(describe(offer, pool.default_mode).find("AF_XDP by eth0: no interrupt wakes"), std::string::npos);
  pool.environment = {{"EF_IRQ_CHANNEL", "7"}, {"EF_INT_DRIVEN", "1"}};
  const OnloadOffer own = offer_of(pool, node_of({kAfXdp}));
  EXPECT_EQ(value(environment_of(own, {1}), "EF_IRQ_CHANNEL"), "7");
  ASSERT_EQ(own.warnings.size(), 1U);
  EXPECT_NE(own.warnings[0].find("46 ms"), std::string::npos);
  EXPECT_EQ(own.why, "");
  pool.environment = {{"EF_USE_HUGE_PAGES", "2"}};
  EXPECT_NE(offer_of(pool, node_of({kAfXdp})).why.find("V06"), std::string::npos);
  EXPECT_EQ(offer_of(pool, node_of({kNative})).why, "");
}

}  // namespace
}  // namespace podlane::dp
