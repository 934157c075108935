// The environment of each mode, whole: a change of one value is a change of this table and of docs/onload.md.
#include "lib/onload/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "lib/onload/option_table.hpp"
#include "lib/onload/validate.hpp"

namespace podlane::onload {
namespace {

using lane::Mode;

constexpr Mode kModes[] = {Mode::kSpinning, Mode::kInterrupt, Mode::kAdaptive};
constexpr Transport kTransports[] = {Transport::kNative, Transport::kAfXdp};

struct Row {
  const char* name;
  // spinning, interrupt, adaptive; native, then AF_XDP. "-": not there.
  const char* native[3];
  const char* af_xdp[3];
};

constexpr Row kGolden[] = {
    {"EF_POLL_USEC", {"100000", "0", "50"}, {"100000", "0", "50"}},
    {"EF_SPIN_USEC", {"100000", "0", "50"}, {"100000", "0", "50"}},
    {"EF_BUZZ_USEC", {"100", "0", "50"}, {"100", "0", "50"}},
    {"EF_SLEEP_SPIN_USEC", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_INT_DRIVEN", {"0", "1", "1"}, {"0", "0", "0"}},
    {"EF_HELPER_USEC", {"500", "0", "0"}, {"500", "500", "500"}},
    {"EF_HELPER_PRIME_USEC", {"250", "0", "0"}, {"250", "250", "250"}},
    {"EF_SELECT_SPIN", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_POLL_SPIN", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_EPOLL_SPIN", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_UDP_RECV_SPIN", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_TCP_RECV_SPIN", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_SOCK_LOCK_BUZZ", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_STACK_LOCK_BUZZ", {"1", "0", "1"}, {"1", "0", "1"}},
    {"EF_UDP_SEND_SPIN", {"1", "0", "0"}, {"1", "0", "0"}},
    {"EF_TCP_SEND_SPIN", {"1", "0", "0"}, {"1", "0", "0"}},
    {"EF_PKT_WAIT_SPIN", {"1", "0", "0"}, {"1", "0", "0"}},
    {"EF_TCP_ACCEPT_SPIN", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_TCP_CONNECT_SPIN", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_PIPE_RECV_SPIN", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_PIPE_SEND_SPIN", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_SO_BUSY_POLL_SPIN", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_UL_EPOLL", {"1", "1", "1"}, {"1", "1", "1"}},
    {"EF_TCP_FASTSTART_INIT", {"0", "65536", "0"}, {"0", "65536", "0"}},
    {"EF_TCP_FASTSTART_IDLE", {"0", "65536", "0"}, {"0", "65536", "0"}},
    {"EF_USE_HUGE_PAGES", {"1", "1", "1"}, {"0", "0", "0"}},
    {"EF_AF_XDP_ZEROCOPY", {"-", "-", "-"}, {"0", "0", "0"}},
    {"EF_NO_FAIL", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_LOAD_ENV", {"1", "1", "1"}, {"1", "1", "1"}},
    {"EF_DONT_ACCELERATE", {"0", "0", "0"}, {"0", "0", "0"}},
    {"EF_VALIDATE_ENV", {"1", "1", "1"}, {"1", "1", "1"}},
};

TEST(Environment, OfEachModeIsWhole) {
  for (std::size_t mode = 0; mode < 3; ++mode) {
    for (const Transport transport : kTransports) {
      SCOPED_TRACE(std::string(lane::to_string(kModes[mode])) + " " + std::string(to_string(transport)));
      Environment golden;
      for (const Row& row : kGolden) {
        const std::string value = transport == Transport::kNative ? row.native[mode] : row.af_xdp[mode];
        if (value != "-") golden.emplace_back(row.name, value);
      }
      EXPECT_EQ(environment(kModes[mode], transport), golden);
    }
  }
}

TEST(Environment, OfEachModeIsRightByTheValidator) {
  for (const Mode mode : kModes) {
    for (const Transport transport : kTransports) {
      for (const Finding& finding : validate(environment(mode, transport), {mode, transport})) {
        ADD_FAILURE() << lane::to_string(mode) << " " << to_string(transport) << ": " << finding.message;
      }
    }
  }
}

// Every spin that Onload has is said by every mode: none can come from an image.
TEST(Environment, SaysEverySpin) {
  const Environment built = environment(Mode::kInterrupt, Transport::kNative);
  for (const Option& option : options()) {
    if (!option.name.ends_with("_SPIN") && !option.name.ends_with("_BUZZ")) continue;
    EXPECT_NE(find(built, option.name), nullptr) << option.name;
  }
}

TEST(Environment, ExtraWinsAndWhatFollowsFromItFollows) {
  struct Case {
    const char* name;
    Environment extra;
    Environment expected;  // Of these names.
  };
  const Case cases[] = {
      {"a budget", {{"EF_POLL_USEC", "20"}}, {{"EF_POLL_USEC", "20"}, {"EF_SPIN_USEC", "20"}, {"EF_BUZZ_USEC", "20"}}},
      {"for ever", {{"EF_POLL_USEC", "-1"}}, {{"EF_SPIN_USEC", "-1"}, {"EF_BUZZ_USEC", "100"}}},
      {"both times",
       {{"EF_POLL_USEC", "20"}, {"EF_SPIN_USEC", "30"}},
       {{"EF_POLL_USEC", "20"}, {"EF_SPIN_USEC", "30"}}},
      {"outlier guard", {{"EF_INT_DRIVEN", "1"}}, {{"EF_HELPER_USEC", "0"}, {"EF_HELPER_PRIME_USEC", "0"}}},
      {"a timer", {{"EF_HELPER_USEC", "100"}}, {{"EF_HELPER_USEC", "100"}, {"EF_HELPER_PRIME_USEC", "50"}}},
      {"one the mode does not set", {{"EF_CTPIO_MODE", "ct"}}, {{"EF_CTPIO_MODE", "ct"}, {"EF_POLL_USEC", "100000"}}},
      {"kernel sockets allowed", {{"EF_NO_FAIL", "1"}}, {{"EF_NO_FAIL", "1"}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Environment built = environment(Mode::kSpinning, Transport::kNative, one.extra);
    for (const auto& [name, value] : one.expected) {
      ASSERT_NE(find(built, name), nullptr) << name;
      EXPECT_EQ(*find(built, name), value) << name;
    }
    std::set<std::string> names;
    for (const auto& [name, value] : built) EXPECT_TRUE(names.insert(name).second) << name << " twice";
  }
}

// docs/onload.md has the golden table: "| `NAME` | native ×3 | AF_XDP ×3 |".
TEST(Environment, DocumentationHasTheTable) {
  const char* const source = std::getenv("PODLANE_SOURCE");
  ASSERT_NE(source, nullptr);
  std::ifstream file(std::string(source) + "/docs/onload.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Row& row : kGolden) {
    std::string line = "\n| `" + std::string(row.name) + "` |";
    for (const char* value : row.native) line += " " + std::string(value) + " |";
    for (const char* value : row.af_xdp) line += " " + std::string(value) + " |";
    EXPECT_NE(page.str().find(line + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace podlane::onload
