#include "cni/spec/cni_args.hpp"

#include <gtest/gtest.h>

#include <map>

namespace podlane::cni {
namespace {

using Environment = std::map<std::string, std::string>;

const Environment kAdd{{"CNI_COMMAND", "ADD"}, {"CNI_CONTAINERID", "c1"}, {"CNI_NETNS", "/run/netns/a"},
                       {"CNI_IFNAME", "eth0"}, {"CNI_PATH", "/opt/cni/bin"}};

CniResult<CniArgs> read(Environment environment) {
  return read_cni_args([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return {};
    return found->second;
  });
}

Environment with(const std::string& key, const std::string& value) {
  Environment environment = kAdd;
  environment[key] = value;
  return environment;
}
Environment without(const std::string& key) {
  Environment environment = kAdd;
  environment.erase(key);
  return environment;
}

TEST(CniArgs, ReadsPodAndWhatAPoolsIpamMaySee) {
  const auto args = read(with("CNI_ARGS",
                              "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=engine-0;K8S_POD_UID=u-1;IP=10.0.0.9;"
                              "odd;K8S_POD_INFRA_CONTAINER_ID=c1"));
  ASSERT_TRUE(args.has_value()) << args.error().message;
  EXPECT_EQ(args->pod_namespace, "default");
  EXPECT_EQ(args->pod_name, "engine-0");
  EXPECT_EQ(args->pod_uid, "u-1");
  // IP is for the primary's IPAM plugin and would give the pod's address to the lane.
  EXPECT_EQ(args->kubernetes_args,
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=engine-0;K8S_POD_UID=u-1;"
            "K8S_POD_INFRA_CONTAINER_ID=c1");
}

TEST(CniArgs, EachVerbNeedsWhatTheSpecSays) {
  struct Row {
    const char* name;
    Environment environment;
    bool good;
    std::vector<const char*> words;
  };
  const auto verb = [](Environment environment, const std::string& command) {
    environment["CNI_COMMAND"] = command;
    return environment;
  };
  const Row rows[] = {
      {"ADD", kAdd, true, {}},
      {"CHECK", verb(kAdd, "CHECK"), true, {}},
      {"DEL without namespace", verb(without("CNI_NETNS"), "DEL"), true, {}},
      {"ADD without namespace", without("CNI_NETNS"), false, {"CNI_NETNS"}},
      {"CHECK without namespace", verb(without("CNI_NETNS"), "CHECK"), false, {"CNI_NETNS"}},
      {"ADD without container", without("CNI_CONTAINERID"), false, {"CNI_CONTAINERID"}},
      {"DEL without container", verb(without("CNI_CONTAINERID"), "DEL"), false, {"CNI_CONTAINERID"}},
      {"container with slash", with("CNI_CONTAINERID", "../c"), false, {"CNI_CONTAINERID", "../c", "alphanumeric"}},
      {"container begins with dot", with("CNI_CONTAINERID", ".c"), false, {"CNI_CONTAINERID"}},
      {"interface of 15", with("CNI_IFNAME", "abcdefghijklmno"), true, {}},
      {"interface of 16", with("CNI_IFNAME", "abcdefghijklmnop"), false, {"CNI_IFNAME", "abcdefghijklmnop", "15"}},
      {"interface ..", with("CNI_IFNAME", ".."), false, {"CNI_IFNAME"}},
      {"interface with colon", with("CNI_IFNAME", "a:b"), false, {"CNI_IFNAME", "a:b"}},
      {"interface with blank", with("CNI_IFNAME", "a b"), false, {"CNI_IFNAME"}},
      {"unknown verb", with("CNI_COMMAND", "UPDATE"), false, {"CNI_COMMAND", "UPDATE", "ADD, DEL"}},
      {"no verb", without("CNI_COMMAND"), false, {"CNI_COMMAND"}},
      {"GC needs no container", {{"CNI_COMMAND", "GC"}}, true, {}},
      {"STATUS needs nothing", {{"CNI_COMMAND", "STATUS"}}, true, {}},
      {"VERSION needs nothing", {{"CNI_COMMAND", "VERSION"}}, true, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto args = read(row.environment);
    ASSERT_EQ(args.has_value(), row.good);
    if (args) continue;
    EXPECT_EQ(args.error().code, 4) << args.error().message;
    for (const char* word : row.words) {
      EXPECT_NE(args.error().message.find(word), std::string::npos) << args.error().message;
    }
  }
}

TEST(CniArgs, NetnsOverrideIsReadAsGoReadsBooleans) {
  for (const auto& [text, expected] : std::map<std::string, bool>{
           {"1", true}, {"true", true}, {"TRUE", true}, {"True", true}, {"0", false}, {"", false}, {"false", false}}) {
    const auto args = read(with("CNI_NETNS_OVERRIDE", text));
    ASSERT_TRUE(args.has_value());
    EXPECT_EQ(args->netns_override, expected) << text;
  }
}

}  // namespace
}  // namespace podlane::cni
