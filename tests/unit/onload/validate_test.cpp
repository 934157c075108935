// The validator: each rule with a case that breaks it and its neighbour that does not.
#include "lib/onload/validate.hpp"

#include <gtest/gtest.h>

#include "lib/onload/option_table.hpp"

namespace podlane::onload {
namespace {

using lane::Mode;

TEST(OptionTable, HasEachNameOnce) {
  std::vector<std::string_view> names;
  for (const Option& option : options()) {
    EXPECT_EQ(find_option(option.name), &option) << option.name << " twice";
    EXPECT_LE(option.low, option.high) << option.name;
  }
  EXPECT_EQ(find_option("EF_IRQ_MODERATION"), nullptr);
}

TEST(OptionTable, NearestName) {
  for (const auto& [typo, meant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"EF_POLL_USECS", "EF_POLL_USEC"},
           {"EF_POL_USEC", "EF_POLL_USEC"},
           {"EF_INT_DRIVNE", "EF_INT_DRIVEN"},
           {"EF_EPOLL_SPINS", "EF_EPOLL_SPIN"},
           {"EF_TCP_RECIEVE_SPIN", ""},
           {"EF_POLL_FAST_LOOP", ""},  // The nearest one is retired: not to be proposed.
           {"EF_", ""}}) {
    EXPECT_EQ(nearest_option(typo), meant) << typo;
  }
}

TEST(OptionTable, NumbersAreReadStrictly) {
  struct Row {
    const char* text;
    std::optional<std::int64_t> number;
  };
  for (const Row& row : {Row{"0", 0}, Row{"-1", -1}, Row{"0x10", 16}, Row{"4294967295", 4294967295}, Row{"", {}},
                         Row{"-", {}}, Row{"--1", {}}, Row{"0x", {}}, Row{"0x-1", {}}, Row{"1 ", {}}, Row{" 1", {}},
                         Row{"1us", {}}, Row{"1e3", {}}, Row{"+1", {}}, Row{"99999999999999999999", {}}}) {
    EXPECT_EQ(parse_number(row.text), row.number) << "'" << row.text << "'";
  }
}

struct Case {
  const char* name;
  Environment environment;
  Circumstances circumstances;
  const char* rule;  // Empty: nothing is found.
  Severity severity;
  std::vector<std::string> message_names;
};

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const std::vector<Finding> findings = validate(one.environment, one.circumstances);
    if (std::string(one.rule).empty()) {
      for (const Finding& finding : findings) ADD_FAILURE() << finding.rule << " " << finding.message;
      continue;
    }
    EXPECT_EQ(findings.size(), 1U);
    if (findings.empty()) continue;
    const Finding& finding = findings.front();
    EXPECT_EQ(finding.rule, one.rule);
    EXPECT_EQ(finding.severity, one.severity);
    for (const std::string& part : one.message_names) {
      EXPECT_NE(finding.message.find(part), std::string::npos) << part << " is not in: " << finding.message;
    }
  }
}

constexpr Severity kE = Severity::kError, kW = Severity::kWarning;

TEST(Validate, NamesAndValues) {
  check({
      {"empty", {}, {}, "", kE, {}},
      {"not Onload's", {{"PATH", "/bin"}, {"LD_PRELOAD", "x"}}, {}, "", kE, {}},
      {"typo", {{"EF_POLL_USECS", "1"}}, {}, "V01", kE, {"EF_POLL_USECS=1", "EF_POLL_USEC?"}},
      {"far from any", {{"EF_COLOUR", "red"}}, {}, "V01", kE, {"EF_COLOUR", "docs/onload.md"}},
      {"moderation", {{"EF_IRQ_MODERATION", "60"}}, {}, "V01", kE, {"EF_IRQ_MODERATION", "ethtool -C"}},
      {"of older releases", {{"EF_TCP_OFFLOAD", "1"}}, {}, "V01", kW, {"EF_TCP_OFFLOAD", "older"}},
      {"flag 1", {{"EF_TCP", "1"}}, {}, "", kE, {}},
      {"flag 2", {{"EF_TCP", "2"}}, {}, "V02", kE, {"EF_TCP=2", "0 to 1"}},
      {"flag a word", {{"EF_TCP", "yes"}}, {}, "V02", kE, {"EF_TCP=yes", "0 to 1"}},
      {"flag empty", {{"EF_TCP", ""}}, {}, "V02", kE, {"EF_TCP=", "0 to 1"}},
      {"lowest", {{"EF_MAX_PACKETS", "1024"}}, {}, "", kE, {}},
      {"below", {{"EF_MAX_PACKETS", "1023"}}, {}, "V02", kE, {"1023", "1024"}},
      {"for ever", {{"EF_POLL_USEC", "-1"}}, {}, "", kE, {}},
      {"less than for ever", {{"EF_POLL_USEC", "-2"}}, {}, "V02", kE, {"-2", "-1"}},
      {"word", {{"EF_CTPIO_MODE", "ct"}}, {}, "", kE, {}},
      {"no word", {{"EF_CTPIO_MODE", "fast"}}, {}, "V02", kE, {"EF_CTPIO_MODE=fast", "sf, sf-np, ct"}},
      {"part of a word", {{"EF_CTPIO_MODE", "sf sf-np"}}, {}, "V02", kE, {"sf, sf-np, ct"}},
      {"text", {{"EF_NAME", "desk 1"}}, {}, "", kE, {}},
      {"line break", {{"EF_NAME", "a\nb"}}, {}, "V02", kE, {"printable"}},
      {"255 bytes", {{"EF_NAME", std::string(255, 'x')}}, {}, "", kE, {}},
      {"256 bytes", {{"EF_NAME", std::string(256, 'x')}}, {}, "V02", kE, {"255"}},
  });
}

TEST(Validate, Combinations) {
  check({
      {"time without spin", {{"EF_SPIN_USEC", "50"}}, {}, "V03", kE, {"EF_SPIN_USEC=50", "EF_POLL_USEC"}},
      {"time with a spin", {{"EF_SPIN_USEC", "50"}, {"EF_UDP_RECV_SPIN", "1"}}, {}, "", kE, {}},
      {"meta option", {{"EF_POLL_USEC", "50"}}, {}, "", kE, {}},
      {"kernel epoll",
       {{"EF_POLL_USEC", "50"}, {"EF_UL_EPOLL", "0"}},
       {},
       "V04",
       kE,
       {"EF_UL_EPOLL=0", "EF_INT_DRIVEN"}},
      {"kernel epoll by interrupts",
       {{"EF_POLL_USEC", "50"}, {"EF_UL_EPOLL", "0"}, {"EF_INT_DRIVEN", "1"}},
       {},
       "",
       kE,
       {}},
      {"kernel epoll by default", {{"EF_UL_EPOLL", "0"}}, {}, "", kE, {}},
      {"interrupt that spins",
       {{"EF_UDP_RECV_SPIN", "1"}},
       {.mode = Mode::kInterrupt},
       "V05",
       kE,
       {"EF_UDP_RECV_SPIN=1"}},
      {"interrupt that buzzes", {{"EF_BUZZ_USEC", "10"}}, {.mode = Mode::kInterrupt}, "V05", kE, {"EF_BUZZ_USEC=10"}},
      {"interrupt by zeros", {{"EF_POLL_USEC", "0"}, {"EF_EPOLL_SPIN", "0"}}, {.mode = Mode::kInterrupt}, "", kE, {}},
      {"huge pages over AF_XDP",
       {{"EF_USE_HUGE_PAGES", "2"}, {"EF_INT_DRIVEN", "0"}},
       {.transport = Transport::kAfXdp},
       "V06",
       kE,
       {"EF_USE_HUGE_PAGES=2", "AF_XDP"}},
      {"huge pages", {{"EF_USE_HUGE_PAGES", "2"}}, {.transport = Transport::kNative}, "", kE, {}},
      {"huge pages shared", {{"EF_USE_HUGE_PAGES", "2"}, {"EF_SHARE_WITH", "-1"}}, {}, "V06", kE, {"EF_SHARE_WITH"}},
      {"nap without epoll 3",
       {{"EF_SLEEP_SPIN_USEC", "50"}},
       {},
       "V07",
       kW,
       {"EF_SLEEP_SPIN_USEC=50", "EF_UL_EPOLL=3"}},
      {"nap", {{"EF_SLEEP_SPIN_USEC", "50"}, {"EF_UL_EPOLL", "3"}}, {}, "", kE, {}},
      {"adaptive for ever",
       {{"EF_POLL_USEC", "-1"}},
       {.mode = Mode::kAdaptive},
       "V08",
       kE,
       {"EF_POLL_USEC=-1", "spinning"}},
      {"spinning for ever", {{"EF_POLL_USEC", "-1"}}, {.mode = Mode::kSpinning}, "", kE, {}},
      {"times differ", {{"EF_POLL_USEC", "50"}, {"EF_SPIN_USEC", "20"}}, {}, "V09", kW, {"EF_SPIN_USEC=20", "50"}},
      {"cancelled", {{"EF_POLL_USEC", "50"}, {"EF_SPIN_USEC", "0"}}, {}, "V09", kW, {"nothing spins"}},
      {"environment ignored", {{"EF_LOAD_ENV", "0"}}, {}, "P02", kE, {"EF_LOAD_ENV=0", "ignore"}},
      {"physical buffers", {{"EF_PACKET_BUFFER_MODE", "2"}}, {}, "P03", kW, {"EF_PACKET_BUFFER_MODE=2"}},
  });
}

TEST(Validate, SleepingOverAfXdp) {
  const Circumstances af_xdp{.transport = Transport::kAfXdp};
  check({
      {"interrupts", {{"EF_INT_DRIVEN", "1"}}, af_xdp, "P01", kW, {"EF_INT_DRIVEN=1", "46 ms", "EF_HELPER_USEC=500"}},
      {"interrupts by default", {{"EF_NAME", "x"}}, af_xdp, "P01", kW, {"EF_INT_DRIVEN (1", "46 ms"}},
      {"interrupts on a native NIC", {{"EF_INT_DRIVEN", "1"}}, {.transport = Transport::kNative}, "", kW, {}},
      {"timer", {{"EF_INT_DRIVEN", "0"}, {"EF_HELPER_USEC", "500"}}, af_xdp, "", kW, {}},
      {"timer by default", {{"EF_INT_DRIVEN", "0"}}, af_xdp, "", kW, {}},
      {"no timer", {{"EF_INT_DRIVEN", "0"}, {"EF_HELPER_USEC", "0"}}, af_xdp, "P01", kW, {"EF_HELPER_USEC=0", "timer"}},
      {"never sleeps", {{"EF_POLL_USEC", "-1"}, {"EF_INT_DRIVEN", "1"}}, af_xdp, "", kW, {}},
  });
}

}  // namespace
}  // namespace podlane::onload
