// The kubelet's state as files say it, and what is advised: kubelet drop-in and boot arguments.
#include "nodeconfig/advice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

constexpr const char* kStatePath = "/var/lib/kubelet/cpu_manager_state";

Pass looked(Node& node, const std::string& json) {
  auto pass = look(node.tree(), profile_of(json), node.run_dir(), {});
  if (!pass) throw std::runtime_error(pass.error().message());
  return std::move(*pass);
}

// Arguments as /proc has them: each ends with a zero byte, the last one here with the literal's own.
template <std::size_t size>
std::string arguments(const char (&text)[size]) {
  return std::string(text, size);
}

Facts facts_of(Node& node) {
  return *read_facts(node.tree());
}

// What kubelet 1.36.2 wrote on a node of two CPUs.
TEST(KubeletState, AsKubelet136WritesIt) {
  KubeletState state;
  ASSERT_TRUE(parse_cpu_manager_state(R"({"policyName":"static","defaultCpuSet":"0-1","checksum":1636926438})", state));
  EXPECT_EQ(state.cpu_policy, "static");
  EXPECT_TRUE(state.exclusive.empty());
  ASSERT_TRUE(parse_cpu_manager_state(
      R"({"policyName":"static","defaultCpuSet":"0","entries":{"cb153af0-1835-46a4-9009-76d55ad72d45":{"engine":"1"}},"checksum":3843682498})",
      state));
  ASSERT_EQ(state.exclusive.size(), 1U);
  EXPECT_EQ(state.exclusive[0].container, "engine");
  EXPECT_EQ(state.exclusive_cpus().list(), "1");
  EXPECT_EQ(state.shared.list(), "0");
}

TEST(KubeletState, ABadStateFileIsAProblemInWordsAndNoState) {
  for (const auto& [text, part] : {std::pair{R"({"policyName":"static","entries":{"a":{"c":"1-x"}}})", "entries.a.c"},
                                   {R"({"policyName":7})", "policyName"},
                                   {R"({"policyName":"static","entries":{"a":"1"}})", "entries.a"},
                                   {"", "JSON"}}) {
    Node node;
    node.put(kStatePath, text);
    const KubeletState state = facts_of(node).kubelet;
    EXPECT_EQ(state.cpu_policy, "") << text;
    ASSERT_EQ(state.problems.size(), 1U);
    EXPECT_NE(state.problems[0].find(part), std::string::npos) << state.problems[0];
    EXPECT_NE(state.problems[0].find(kStatePath), std::string::npos);
  }
}

TEST(KubeletState, NamesCpusThatAreGivenOutTwice) {
  Node node;
  node.put(kStatePath, R"({"policyName":"static","defaultCpuSet":"0-2","entries":{"a":{"c":"2-3"}},"checksum":1})");
  const KubeletState state = facts_of(node).kubelet;
  ASSERT_EQ(state.problems.size(), 1U);
  EXPECT_NE(state.problems[0].find("CPUs 2 are exclusive to a pod and in the shared pool"), std::string::npos)
      << state.problems[0];
}

TEST(KubeletState, ConfigurationInYamlAndJson) {
  const auto yaml = parse_kubelet_configuration(
      "apiVersion: kubelet.config.k8s.io/v1beta1\n# cpuManagerPolicy: none\nauthentication:\n  cpuManagerPolicy: "
      "wrong\n"
      "cpuManagerPolicy: static # the lanes need it\ncpuManagerPolicyOptions:\n  full-pcpus-only: \"true\"\n"
      "  strict-cpu-reservation: 'true'\nreservedSystemCPUs: \"0,1\"\nclusterDNS:\n- 10.96.0.10\n");
  const std::map<std::string, std::string> expected = {{"cpuManagerPolicy", "static"},
                                                       {"cpuManagerPolicyOptions.full-pcpus-only", "true"},
                                                       {"cpuManagerPolicyOptions.strict-cpu-reservation", "true"},
                                                       {"reservedSystemCPUs", "0,1"}};
  EXPECT_EQ(yaml, expected);
  EXPECT_EQ(parse_kubelet_configuration(R"({"cpuManagerPolicy": "static", "clusterDNS": [], "reservedSystemCPUs": "0,1",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "strict-cpu-reservation": "true"}})"),
            expected);
  EXPECT_TRUE(parse_kubelet_configuration("cpuManagerPolicy:\n\t: x\n:\n  a: b").empty());
}

TEST(KubeletState, DropInsWinInOrderAndFlagsOverAll) {
  Node node;
  node.run_process(
      9, "kubelet",
      arguments("/usr/bin/kubelet\0--config=/etc/k/config.yaml\0--config-dir\0/etc/k/conf.d\0--reserved-cpus=3"));
  node.put("/etc/k/config.yaml", "cpuManagerPolicy: none\ntopologyManagerPolicy: none\nreservedSystemCPUs: \"0\"");
  node.put("/etc/k/conf.d/90-podlane.conf", "cpuManagerPolicy: static");
  node.put("/etc/k/conf.d/10-first.conf", "cpuManagerPolicy: none\ntopologyManagerPolicy: restricted");
  node.put("/etc/k/conf.d/99-no.yaml", "cpuManagerPolicy: none");
  const KubeletState state = facts_of(node).kubelet;
  EXPECT_EQ(state.configured.at("cpuManagerPolicy").value, "static");
  EXPECT_EQ(state.configured.at("cpuManagerPolicy").source, "/etc/k/conf.d/90-podlane.conf");
  EXPECT_EQ(state.configured.at("topologyManagerPolicy").value, "restricted");
  EXPECT_EQ(state.configured.at("reservedSystemCPUs").source, "command line");
  EXPECT_EQ(state.reserved().list(), "3");
}

TEST(KubeletAdvice, RendersDropInAndStepsInTheOrderThatWorks) {
  Node node;
  node.run_process(9, "kubelet", arguments("/usr/bin/kubelet\0--config-dir=/etc/k/conf.d"));
  node.put("/var/lib/kubelet/config.yaml", "cpuManagerPolicy: none");
  node.put(kStatePath, R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})");
  const Pass pass =
      looked(node, R"({"cpus": {"lanes": "2-3", "housekeeping": "0-1"}, "kubelet": {"cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}})");
  ASSERT_EQ(pass.advice.size(), 1U);
  const Advice& advice = pass.advice[0];
  EXPECT_EQ(advice.label, "kubelet-restart-required");
  EXPECT_EQ(advice.file_path, "/etc/k/conf.d/90-podlane.conf");
  EXPECT_EQ(advice.file,
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: \"static\"\n"
            "reservedSystemCPUs: \"0-1\"\ntopologyManagerPolicy: \"single-numa-node\"\ncpuManagerPolicyOptions:\n"
            "  full-pcpus-only: \"true\"\n");
  EXPECT_EQ(advice.missing.at(0), "cpuManagerPolicy \"static\" (now \"none\", /var/lib/kubelet/config.yaml)");
  const auto at = [&](const char* words) {
    return std::find_if(advice.steps.begin(), advice.steps.end(),
                        [&](const std::string& step) { return step.find(words) != step.npos; });
  };
  EXPECT_LT(at("kubectl drain"), at("stop kubelet"));
  EXPECT_LT(at("stop kubelet"), at(kStatePath));
  EXPECT_LT(at(kStatePath), at("start kubelet"));
  EXPECT_LT(at("start kubelet"), advice.steps.end());
  // What was advised, done: nothing is missing but the restart, and then nothing.
  node.put("/etc/k/conf.d/90-podlane.conf", advice.file);
  const std::string profile =
      R"({"cpus": {"lanes": "2-3", "housekeeping": "0-1"}, "kubelet": {"cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}})";
  const Advice waiting = looked(node, profile).advice.at(0);
  EXPECT_EQ(waiting.label, "kubelet-restart-required");
  EXPECT_TRUE(waiting.file.empty());
  EXPECT_NE(waiting.missing.at(0).find("\"none\" is in force"), std::string::npos) << waiting.missing.at(0);
  node.put(kStatePath, R"({"policyName":"static","defaultCpuSet":"0-3","checksum":1})");
  EXPECT_EQ(looked(node, profile).advice.at(0).label, "");
}

TEST(KubeletAdvice, NamesPairsThatTheKubeletRefuses) {
  Node node;
  const Pass pass = looked(node, R"({"kubelet": {"cpuManagerPolicy": "static", "cpuManagerPolicyOptions":
    {"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"}}})");
  EXPECT_NE(pass.advice.at(0).words.find("full-pcpus-only and distribute-cpus-across-cores"), std::string::npos);
  EXPECT_TRUE(pass.advice[0].file.empty());
}

TEST(FirmwareAdvice, NamesTheCardsThatHaveAnotherVariant) {
  Node node({.nics = {NicShape{.name = "sf0", .pci = "0000:3b:00.0", .driver = "sfc", .irq_prefix = "sf0-"},
                      NicShape{.name = "sf1", .pci = "0000:3b:00.1", .driver = "sfc", .irq_prefix = "sf1-"}}});
  node.put("/ethtool/sf0/driver/firmware-version", "8.0.0.1015 rx1 tx1");
  node.put("/ethtool/sf1/driver/firmware-version", "8.0.0.1015 rx0 tx0");
  const Advice advice = looked(node, R"({"boot": {"firmware": "ultra-low-latency"}})").advice.at(0);
  EXPECT_EQ(advice.label, "reboot-required");
  EXPECT_EQ(advice.missing, std::vector<std::string>{"ultra-low-latency on sf1 (now 8.0.0.1015 rx0 tx0)"});
  EXPECT_EQ(advice.steps.at(0), "sfboot --adapter=sf1 firmware-variant=ultra-low-latency");
  node.put("/ethtool/sf1/driver/firmware-version", "8.0.0.1015 rx1 tx1");
  EXPECT_EQ(looked(node, R"({"boot": {"firmware": "ultra-low-latency"}})").advice.at(0).label, "");
  Node other;
  EXPECT_EQ(looked(other, R"({"boot": {"firmware": "ultra-low-latency"}})").advice.at(0).label, "");
}

TEST(BootAdvice, ComparesArgumentsAndNotText) {
  Node node;
  node.put("/proc/cmdline", "ro isolcpus=managed_irq,2,3 nohz_full=2-3 quiet");
  const Pass pass =
      looked(node, R"({"boot": {"args": ["isolcpus=2-3,managed_irq", "nohz_full=2,3", "skew_tick=1", "nosmt"]}})");
  const Advice& advice = pass.advice.at(0);
  EXPECT_EQ(advice.label, "reboot-required");
  EXPECT_EQ(advice.missing, (std::vector<std::string>{"skew_tick=1", "nosmt"}));
  for (const char* tool :
       {"grubby --update-kernel=ALL --args=\"skew_tick=1 nosmt\"", "update-grub",
        "rpm-ostree kargs --append-if-missing=skew_tick=1 --append-if-missing=nosmt", "systemd-boot"}) {
    EXPECT_TRUE(std::any_of(advice.steps.begin(), advice.steps.end(), [&](const std::string& step) {
      return step.find(tool) != step.npos;
    })) << tool;
  }
  node.put("/proc/cmdline", "isolcpus=managed_irq,2,3 nohz_full=2-3 skew_tick=1 nosmt");
  EXPECT_EQ(looked(node, R"({"boot": {"args": ["skew_tick=1", "nosmt"]}})").advice.at(0).label, "");
}

}  // namespace
}  // namespace podlane::nodeconfig::test
