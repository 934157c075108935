// NetConf: what is taken, and that what is wrong is named with key, value and what would be right.
#include "cni/spec/net_conf.hpp"

#include <gtest/gtest.h>

namespace podlane::cni {
namespace {

CniResult<NetConf> parse(const std::string& rest, Strictness strictness = Strictness::kStrict) {
  return parse_net_conf(R"({"cniVersion":"1.1.0","name":"base","type":"podlane")" + (rest.empty() ? "" : "," + rest) + "}",
                        strictness);
}

TEST(NetConf, DefaultsAreTheDocumentedOnes) {
  const auto conf = parse("");
  ASSERT_TRUE(conf.has_value()) << conf.error().message;
  EXPECT_EQ(conf->version, Version::k1_1_0);
  EXPECT_EQ(conf->name, "base");
  EXPECT_EQ(conf->tun.name, "lane0");
  EXPECT_FALSE(conf->tun.mtu.has_value());
  EXPECT_EQ(conf->tun.tx_queue_len, 1000U);
  EXPECT_EQ(conf->tun.queues, 1U);
  EXPECT_FALSE(conf->tun.owner.has_value());
  EXPECT_FALSE(conf->select.has_value());
  EXPECT_EQ(conf->run_dir, "/run/podlane");
  EXPECT_EQ(conf->state_dir, "/var/lib/podlane");
  EXPECT_EQ(conf->socket, "/run/podlane/control.sock");
  EXPECT_EQ(conf->log_level, LogLevel::kInfo);
  EXPECT_FALSE(conf->status_from_daemon);
  EXPECT_FALSE(conf->annotated());
  EXPECT_FALSE(conf->valid_attachments.has_value());
}

TEST(NetConf, TakesEveryKey) {
  const auto conf = parse(R"("tun":{"name":"vpn7","mtu":1380,"txQueueLen":55,"queues":4,"offloads":["checksum","tso"],
      "addresses":["10.8.0.2/24","fd00:8::2/64"],"routes":[{"dst":"10.0.0.0/8","gw":"10.8.0.1"},{"dst":"fd00::/8"}],
      "owner":1234},"select":"all","runDir":"/r","stateDir":"/s","logFile":"/l","logLevel":"debug",
      "statusPolicy":"daemon","ipam":{"type":"host-local"},"prevResult":{"cniVersion":"1.1.0"},"dns":{},"args":{},
      "runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"podlane.io/lanes":"feed","podlane.io/status":"x",
      "example.com/a":"b","xpodlane.io/lanes":"no"}},"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}])");
  ASSERT_TRUE(conf.has_value()) << conf.error().message;
  EXPECT_EQ(conf->tun.name, "vpn7");
  EXPECT_EQ(conf->tun.mtu, 1380U);
  EXPECT_EQ(conf->tun.tx_queue_len, 55U);
  EXPECT_EQ(conf->tun.queues, 4U);
  EXPECT_TRUE(conf->tun.offloads.checksum && conf->tun.offloads.tso && !conf->tun.offloads.uso);
  ASSERT_EQ(conf->tun.addresses.size(), 2U);
  EXPECT_EQ(conf->tun.addresses[1].to_string(), "fd00:8::2/64");
  ASSERT_EQ(conf->tun.routes.size(), 2U);
  EXPECT_EQ(conf->tun.routes[0].gateway->to_string(), "10.8.0.1");
  EXPECT_FALSE(conf->tun.routes[1].gateway.has_value());
  EXPECT_EQ(conf->tun.owner, 1234U);
  EXPECT_EQ(conf->select, Select::kAll);
  EXPECT_EQ(conf->socket, "/r/control.sock");
  EXPECT_EQ(conf->state_dir, "/s");
  EXPECT_EQ(conf->log_file, "/l");
  EXPECT_EQ(conf->log_level, LogLevel::kDebug);
  EXPECT_TRUE(conf->status_from_daemon);
  EXPECT_EQ(conf->ipam_type, "host-local");
  EXPECT_TRUE(conf->prev_result.has_value());
  EXPECT_EQ(conf->annotations,
            (std::vector<std::pair<std::string, std::string>>{{"podlane.io/lanes", "feed"}}));
  EXPECT_EQ(conf->valid_attachments, (std::vector<AttachmentName>{{"c1", "eth0"}}));
  EXPECT_TRUE(conf->whole.contains("dns"));
}

struct GoodRow {
  const char* name;
  const char* rest;
};

TEST(NetConf, TakesBothEndsOfEachRange) {
  const GoodRow rows[] = {{"mtu low", R"("tun":{"mtu":68})"},
                          {"mtu high", R"("tun":{"mtu":65535})"},
                          {"queue length low", R"("tun":{"txQueueLen":1})"},
                          {"queue length high", R"("tun":{"txQueueLen":1000000})"},
                          {"queues low", R"("tun":{"queues":1})"},
                          {"queues high", R"("tun":{"queues":256})"},
                          {"owner low", R"("tun":{"owner":1})"},
                          {"owner high", R"("tun":{"owner":4294967294})"},
                          {"name of 15", R"("tun":{"name":"lane56789012345"})"},
                          {"no offloads", R"("tun":{"offloads":[]})"},
                          {"no ipam", R"("ipam":{})"},
                          {"no tun", R"("tun":{})"},
                          {"unknown key outside tun", R"("vendor":{"a":1})"}};
  for (const GoodRow& row : rows) {
    SCOPED_TRACE(row.name);
    const auto conf = parse(row.rest);
    EXPECT_TRUE(conf.has_value()) << conf.error().message;
  }
}

struct BadRow {
  const char* name;
  const char* rest;
  int code;
  std::vector<const char*> words;  // Key, value, what would be right.
};

const BadRow kBadRows[] = {
    {"mtu below", R"("tun":{"mtu":67})", 7, {"tun.mtu", "67", "68"}},
    {"mtu above", R"("tun":{"mtu":65536})", 7, {"tun.mtu", "65536", "65535"}},
    {"mtu a string", R"("tun":{"mtu":"1400"})", 7, {"tun.mtu", "1400"}},
    {"mtu a fraction", R"("tun":{"mtu":1400.5})", 7, {"tun.mtu"}},
    {"queue length below", R"("tun":{"txQueueLen":0})", 7, {"tun.txQueueLen", "0", "1"}},
    {"queue length above", R"("tun":{"txQueueLen":1000001})", 7, {"tun.txQueueLen", "1000001", "1000000"}},
    {"queues below", R"("tun":{"queues":0})", 7, {"tun.queues", "0"}},
    {"queues above", R"("tun":{"queues":257})", 7, {"tun.queues", "257", "256"}},
    {"owner root", R"("tun":{"owner":0})", 7, {"tun.owner", "0", "1"}},
    {"owner nobody's", R"("tun":{"owner":4294967295})", 7, {"tun.owner", "4294967295", "4294967294"}},
    {"name too long", R"("tun":{"name":"lane567890123456"})", 7, {"tun.name", "lane567890123456", "15"}},
    {"name with slash", R"("tun":{"name":"a/b"})", 7, {"tun.name", "a/b"}},
    {"name empty", R"("tun":{"name":""})", 7, {"tun.name"}},
    {"offload unknown", R"("tun":{"offloads":["gro"]})", 7, {"tun.offloads", "gro", "checksum, tso, uso"}},
    {"tso alone", R"("tun":{"offloads":["tso"]})", 7, {"tun.offloads", "checksum"}},
    {"address bare", R"("tun":{"addresses":["10.8.0.2"]})", 7, {"tun.addresses", "10.8.0.2"}},
    {"address nonsense", R"("tun":{"addresses":["10.8.0.256/24"]})", 7, {"tun.addresses", "10.8.0.256", "10.9.0.5"}},
    {"route host bits", R"("tun":{"routes":[{"dst":"10.0.0.1/8"}]})", 7, {"dst", "10.0.0.1/8", "10.0.0.0/8"}},
    {"route families", R"("tun":{"routes":[{"dst":"10.0.0.0/8","gw":"fd00::1"}]})", 7, {"gw", "fd00::1", "10.0.0.0/8"}},
    {"route unknown key", R"("tun":{"routes":[{"dst":"10.0.0.0/8","via":"10.8.0.1"}]})", 7, {"via"}},
    {"unknown key", R"("tun":{"mut":1400})", 2, {"mut"}},
    {"tun not an object", R"("tun":[])", 7, {"tun"}},
    {"select", R"("select":"every")", 7, {"select", "every", "annotated", "all"}},
    {"socket relative", R"("socket":"control.sock")", 7, {"socket", "control.sock", "absolute"}},
    {"log level", R"("logLevel":"loud")", 7, {"logLevel", "loud", "debug"}},
    {"status policy", R"("statusPolicy":"maybe")", 7, {"statusPolicy", "maybe", "daemon"}},
    {"ipam without type", R"("ipam":{"ranges":[]})", 7, {"ipam.type"}},
    {"ipam path", R"("ipam":{"type":"../evil"})", 7, {"ipam.type", "../evil", "file name"}},
    {"annotation not text", R"("runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"podlane.io/lanes":1}})", 7,
     {"podlane.io/lanes"}},
    {"prevResult", R"("prevResult":"none")", 7, {"prevResult"}},
    {"attachments", R"("cni.dev/valid-attachments":[{"containerID":"c1"}])", 7, {"ifname"}},
};

TEST(NetConf, NamesKeyValueAndWhatWouldBeRight) {
  for (const BadRow& row : kBadRows) {
    SCOPED_TRACE(row.name);
    const auto conf = parse(row.rest);
    ASSERT_FALSE(conf.has_value());
    EXPECT_EQ(conf.error().code, row.code) << conf.error().message;
    for (const char* word : row.words) {
      EXPECT_NE(conf.error().message.find(word), std::string::npos) << conf.error().message << " lacks " << word;
    }
  }
}

TEST(NetConf, DelAndGcTakeTheDefaultForWhatWasBrokenSinceAdd) {
  for (const BadRow& row : kBadRows) {
    SCOPED_TRACE(row.name);
    const auto conf = parse(row.rest, Strictness::kTolerant);
    ASSERT_TRUE(conf.has_value()) << conf.error().message;
    EXPECT_EQ(conf->name, "base");
    EXPECT_FALSE(conf->socket.empty());
  }
}

TEST(NetConf, VersionsAndIdentity) {
  struct Row {
    const char* name;
    const char* text;
    int code;  // 0: good
  };
  const Row rows[] = {
      {"0.3.1", R"({"cniVersion":"0.3.1","name":"a","type":"podlane"})", 0},
      {"0.4.0", R"({"cniVersion":"0.4.0","name":"a","type":"podlane"})", 0},
      {"1.0.0", R"({"cniVersion":"1.0.0","name":"a","type":"podlane"})", 0},
      {"1.1.0", R"({"cniVersion":"1.1.0","name":"a","type":"podlane"})", 0},
      {"0.3.0", R"({"cniVersion":"0.3.0","name":"a","type":"podlane"})", 1},
      {"1.2.0", R"({"cniVersion":"1.2.0","name":"a","type":"podlane"})", 1},
      {"no version", R"({"name":"a","type":"podlane"})", 1},
      {"version a number", R"({"cniVersion":1,"name":"a","type":"podlane"})", 7},
      {"no name", R"({"cniVersion":"1.1.0","type":"podlane"})", 7},
      {"name with slash", R"({"cniVersion":"1.1.0","name":"../a","type":"podlane"})", 7},
      {"no JSON", R"({"cniVersion":)", 6},
      {"empty", "", 6},
      {"a list", "[]", 6},
      {"a key twice is no crash", R"({"cniVersion":"1.1.0","name":"a","name":"a"})", -1},
  };
  for (const Row& row : rows) {
    for (const Strictness strictness : {Strictness::kStrict, Strictness::kTolerant}) {
      SCOPED_TRACE(row.name);
      const auto conf = parse_net_conf(row.text, strictness);
      if (row.code >= 0) {
        EXPECT_EQ(conf ? 0 : conf.error().code, row.code);
      }
    }
  }
}

}  // namespace
}  // namespace podlane::cni
