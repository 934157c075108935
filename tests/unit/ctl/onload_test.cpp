#include "ctl/onload.hpp"

#include <gtest/gtest.h>

namespace podlane::ctl {
namespace {

using onload::Environment;

TEST(CtlOnload, Assignments) {
  EXPECT_EQ(*parse_assignments({"EF_A=1", "EF_B=", "EF_C=x=y"}),
            (Environment{{"EF_A", "1"}, {"EF_B", ""}, {"EF_C", "x=y"}}));
  for (const auto& [words, part] : std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"EF_A"}, "'EF_A' must be an option"},
           {{"=1"}, "'=1'"},
           {{"PATH=/bin"}, "'PATH=/bin'"},
           {{""}, "''"},
           {{"EF_A=1", "EF_A=2"}, "EF_A is given twice"}}) {
    const auto refused = parse_assignments(words);
    ASSERT_FALSE(refused) << part;
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
}

TEST(CtlOnload, EnvironOfAProcess) {
  const std::string bytes("PATH=/bin\0EF_POLL_USEC=50\0EF_BARE\0EF_POLL_USEC=20\0\0EF_NAME=a=b", 62);
  EXPECT_EQ(parse_environ(bytes), (Environment{{"EF_POLL_USEC", "50"}, {"EF_NAME", "a=b"}}));
  EXPECT_TRUE(parse_environ("").empty());
  EXPECT_TRUE(parse_environ(std::string_view("\0\0", 2)).empty());
}

TEST(CtlOnload, Rendering) {
  const Environment environment{{"EF_POLL_USEC", "50"}, {"EF_NAME", "a \"b\""}};
  EXPECT_EQ(render_environment(environment, OnloadFormat::kShell), "EF_POLL_USEC=50\nEF_NAME=a \"b\"\n");
  EXPECT_EQ(render_environment(environment, OnloadFormat::kYaml),
            "- {name: EF_POLL_USEC, value: \"50\"}\n- {name: EF_NAME, value: \"a \\\"b\\\"\"}\n");
  EXPECT_EQ(render_findings(
                {{"V07", onload::Severity::kWarning, "EF_A", "w"}, {"V01", onload::Severity::kError, "EF_B", "e"}}),
            "error V01: e\nwarning V07: w\n");
}

}  // namespace
}  // namespace podlane::ctl
