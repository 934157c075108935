// Page and schema of the node profile know every knob, and the page's example is one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "lib/json/json.hpp"
#include "tests/unit/nodeconfig/node_builder.hpp"

namespace podlane::nodeconfig::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(std::getenv("PODLANE_SOURCE")) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Docs, SchemaHasEveryKnobAndNoneMore) {
  const auto schema = json::parse(text_of("docs/node-profile.schema.json"));
  ASSERT_TRUE(schema) << schema.error().message();
  const json::Value& top = (*schema)["properties"];
  std::size_t found = 0;
  for (const Knob& knob : kKnobs) {
    const std::string name(knob.name);
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) continue;  // hugepages, irqs: keys of their own form.
    const std::string section = name.substr(0, dot), key = name.substr(dot + 1);
    const json::Value& of = section == "nics" ? top["nics"]["items"]["properties"] : top[section]["properties"];
    EXPECT_TRUE(of.contains(key)) << name;
    ++found;
  }
  std::size_t in_schema = 0;
  for (const char* section : {"memory", "sysctls", "power"}) in_schema += top[section]["properties"].size();
  in_schema += top["nics"]["items"]["properties"].size() - 2;  // match, irqs
  in_schema += top["interrupts"]["properties"].size() - 1;     // irqs
  in_schema += top["cpus"]["properties"].size() - 3;           // lanes, housekeeping, siblings
  EXPECT_EQ(in_schema, found);
}

TEST(Docs, PageHasEveryKnob) {
  const std::string page = text_of("docs/node-profile.md");
  for (const Knob& knob : kKnobs) {
    const std::string key(knob.name.substr(knob.name.find('.') + 1));
    EXPECT_NE(page.find(key), std::string::npos) << knob.name;
  }
}

TEST(Docs, PagesExampleIsAProfile) {
  const std::string page = text_of("docs/node-profile.md");
  const std::size_t at = page.find("```json\n") + 8;
  EXPECT_EQ(profile_of(page.substr(at, page.find("```", at) - at)).name, "trading");
}

}  // namespace
}  // namespace podlane::nodeconfig::test
