#include "lib/lane/handover_msg.hpp"

#include <gtest/gtest.h>

namespace podlane::lane {
namespace {

LaneDescription description() {
  LaneDescription lane;
  lane.pool = "feed";
  lane.index = 3;
  lane.device = "feed-3";
  lane.kind = Kind::kQueue;
  lane.path = Path::kRelay;
  lane.mode = Mode::kSpinning;
  lane.ifname = "lane0";
  lane.ifindex = 7;
  lane.mtu = 1500;
  lane.mac = "02:00:00:00:00:01";
  lane.addresses = {"10.9.0.5/24", "fd00::5/64"};
  lane.gateways = {"10.9.0.1"};
  lane.subnets = {"10.9.0.0/24"};
  lane.neighbors = {{"10.9.0.1", "02:00:00:00:00:fe"}, {"10.9.0.7", std::nullopt}};
  lane.xsk = XskDescription{.netdev = "ens1f0", .netdev_ifindex = 4, .queue = 5, .rx_size = 2048, .tx_size = 1024,
                            .fill_size = 4096, .completion_size = 512,
                            .umem = {.frames = 4096, .frame_size_bytes = 2048, .huge_pages = HugePages::k2Mi},
                            .headroom_bytes = 64};
  lane.in_force = {.zero_copy = true, .native_xdp = true, .busy_poll = true};
  lane.fds = {"xsk", "tun", "tun"};
  return lane;
}

TEST(HandoverMessage, EachTypeSurvivesTheWire) {
  LaneDescription tun = description();
  tun.kind = Kind::kTun;
  tun.path.reset();
  tun.mac.clear();
  tun.xsk.reset();
  tun.in_force = {};
  const HandoverMessage messages[] = {
      Hello{.client = "relay \"1\"", .vnet_hdr = false, .resume = true},
      Offer{.kind = Kind::kQueue, .style = HandoverStyle::kUnbound, .umem = UmemShape{4096, 4096, HugePages::k1Gi}},
      Offer{.kind = Kind::kTun},
      UmemMessage{},
      Ready{},
      description(),
      tun,
      Ack{},
      Resumed{},
      Resolve{.ip = "fd00::1"},
      NeighborUpdate{.neighbor = {"10.9.0.1", "02:00:00:00:00:fe"}},
      NeighborUpdate{.neighbor = {"10.9.0.1", std::nullopt}},
      Stats{.counters = {{"rx_frames", 18446744073709551615ULL}, {"drops", 0}}},
      HandoverRefusal{.code = "busy", .message = "another client"},
  };
  for (const HandoverMessage& message : messages) {
    const std::string text = encode(message);
    SCOPED_TRACE(text);
    const auto decoded = decode_handover(text);
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(encode(*decoded), text);
  }
}

TEST(HandoverMessage, DescriptionKeepsEveryField) {
  const auto decoded = decode_handover(encode(description()));
  ASSERT_TRUE(decoded);
  const auto& lane = std::get<LaneDescription>(*decoded);
  EXPECT_EQ(lane.xsk->completion_size, 512U);
  EXPECT_EQ(lane.xsk->umem.huge_pages, HugePages::k2Mi);
  EXPECT_EQ(lane.xsk->headroom_bytes, 64U);
  EXPECT_TRUE(lane.in_force.zero_copy && lane.in_force.native_xdp && lane.in_force.busy_poll);
  EXPECT_EQ(lane.mode, Mode::kSpinning);
  EXPECT_EQ(lane.neighbors[1].mac, std::nullopt);
  EXPECT_EQ(lane.fds.size(), 3U);
}

TEST(HandoverMessage, UnknownKeysAreLeftAlone) {
  EXPECT_TRUE(decode_handover(R"({"type":"ack","later":{"a":[1]}})"));
}

TEST(HandoverMessage, HelloOfAnotherVersionIsReadForItsNumber) {
  const auto decoded = decode_handover(R"({"type":"hello","version":9,"client":[],"resume":"?"})");
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Hello>(*decoded).version, 9);
}

TEST(HandoverMessage, WrongValuesAreNamed) {
  struct Case {
    const char* name;
    std::string text;
    const char* says;
  };
  std::string many = R"({"type":"stats","counters":{)";
  for (int i = 0; i < 65; ++i) many += (i ? ",\"c" : "\"c") + std::to_string(i) + "\":1";
  const Case cases[] = {
      {"empty", "", "JSON expected"},
      {"no type", "{}", "type is missing"},
      {"type of number", R"({"type":1})", "type 1 must be"},
      {"unknown type", R"({"type":"take"})", "'take'"},
      {"negative version", R"({"type":"hello","version":-1})", "version -1"},
      {"huge version", R"({"type":"hello","version":99999999999999999999})", "version"},
      {"resume of text", R"({"type":"hello","version":1,"resume":"yes"})", "resume 'yes' must be true or false"},
      {"long client", R"({"type":"hello","version":1,"client":")" + std::string(129, 'c') + "\"}", "at most 128 bytes"},
      {"no umem", R"({"type":"offer","version":1,"kind":"queue"})", "umem must be there"},
      {"umem for tun", R"({"type":"offer","version":1,"kind":"tun","umem":{"frames":1,"frameSize":2048}})", "umem must"},
      {"no frames", R"({"type":"offer","version":1,"kind":"veth","umem":{"frames":0,"frameSize":2048}})", "umem.frames 0"},
      {"small frames", R"({"type":"offer","version":1,"kind":"veth","umem":{"frames":1,"frameSize":1024}})",
       "umem.frameSize 1024"},
      {"bad kind", R"({"type":"offer","version":1,"kind":"fast"})", "fast"},
      {"bad style", R"({"type":"offer","version":1,"kind":"tun","handover":"half"})", "handover 'half'"},
      {"resolve nothing", R"({"type":"resolve"})", "ip is missing"},
      {"resolve a name", R"({"type":"resolve","ip":"host"})", "ip 'host' must be an IPv4 or IPv6 address"},
      {"resolve a prefix", R"({"type":"resolve","ip":"10.0.0.0/8"})", "ip '10.0.0.0/8'"},
      {"resolve past a NUL", R"({"type":"resolve","ip":"10.0.0.1\u0000x"})", "ip"},
      {"short mac", R"({"type":"neighbor","ip":"10.0.0.1","mac":"02:00"})", "mac '02:00'"},
      {"mac of letters", R"({"type":"neighbor","ip":"10.0.0.1","mac":"zz:00:00:00:00:01"})", "mac"},
      {"no counters", R"({"type":"stats"})", "counters is missing"},
      {"counters of list", R"({"type":"stats","counters":[1]})", "counters"},
      {"bad counter name", R"({"type":"stats","counters":{"a b":1}})", "a b"},
      {"counter of text", R"({"type":"stats","counters":{"a":"1"}})", "counters.a"},
      {"negative counter", R"({"type":"stats","counters":{"a":-1}})", "counters.a"},
      {"fraction", R"({"type":"stats","counters":{"a":1.5}})", "counters.a"},
      {"many counters", many + "}}", "at most 64"},
      {"too long", R"({"type":"ack","x":")" + std::string(kHandoverMessageMaxBytes, 'x') + "\"}", "longer than"},
      {"too deep", R"({"type":"ack","x":[[[[[[[[[]]]]]]]]]})", "nested deeper"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto decoded = decode_handover(c.text);
    ASSERT_FALSE(decoded);
    EXPECT_NE(decoded.error().message().find(c.says), std::string::npos) << decoded.error().message();
  }
}

TEST(HandoverMessage, RingSizesArePowersOfTwo) {
  LaneDescription lane = description();
  lane.xsk->fill_size = 3000;
  const auto decoded = decode_handover(encode(lane));
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().message().find("xsk.fillSize '3000' must be a power of two"), std::string::npos)
      << decoded.error().message();
}

}  // namespace
}  // namespace podlane::lane
