// Text, JSON, and the page that lists the checks.
#include "ctl/doctor/render.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "ctl/doctor/doctor.hpp"
#include "lib/json/json.hpp"
#include "tests/unit/doctor/check_cases.hpp"

namespace podlane::doctor::test {
namespace {

using nodeconfig::Tree;

std::vector<Finding> some_findings() {
  Node node(shape());
  furnish(node);
  node.put("/proc/sys/net/core/bpf_jit_enable", "0");
  const auto report = consult(*Tree::open(node.root()), {.may_measure = false});
  return report->findings;
}

TEST(Render, JsonIsAnArrayOfEveryCheck) {
  const auto findings = some_findings();
  const auto document = json::parse(render_json(findings));
  ASSERT_TRUE(document) << document.error().message();
  ASSERT_TRUE(document->is_array());
  ASSERT_EQ(document->size(), all_checks().size());
  for (const json::Value& row : *document) {
    for (const char* key : {"id", "title", "result", "severity", "is", "shouldBe", "why", "fix", "reads"}) {
      EXPECT_TRUE(row.contains(key) && row[key].is_string()) << json::dump(row) << key;
    }
  }
  EXPECT_EQ((*document)[0]["result"], "fail");
  EXPECT_TRUE((*document)[0].contains("effectIs"));
}

TEST(Render, TextShowsWhatIsNotWellAndColoursOnRequestAlone) {
  const auto findings = some_findings();
  const std::string plain = render_text(findings, "", {});
  EXPECT_NE(plain.find("CRIT  F02"), std::string::npos) << plain;
  EXPECT_NE(plain.find("sysctl net.core.bpf_jit_enable=1"), std::string::npos);
  EXPECT_EQ(plain.find('\033'), std::string::npos);
  EXPECT_EQ(plain.find("PASS"), std::string::npos);
  EXPECT_NE(render_text(findings, "", {.all = true}).find("PASS"), std::string::npos);
  EXPECT_NE(render_text(findings, "", {.colour = true}).find('\033'), std::string::npos);
}

TEST(Checks, HaveIdsOfTheirOwnAndEveryWord) {
  std::set<std::string_view> ids;
  for (const Check* check : all_checks()) {
    EXPECT_TRUE(ids.insert(check->id).second) << check->id;
    for (const std::string_view text : {check->title, check->reads, check->should_be, check->why, check->cure}) {
      EXPECT_FALSE(text.empty()) << check->id;
    }
    EXPECT_TRUE(check->why.ends_with('.')) << check->id << ": one sentence";
  }
}

TEST(Docs, PageHasTheTable) {
  std::ifstream file(std::string(std::getenv("PODLANE_SOURCE")) + "/docs/doctor.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find(render_table()), std::string::npos) << "podlanectl doctor --table writes it";
}

}  // namespace
}  // namespace podlane::doctor::test
