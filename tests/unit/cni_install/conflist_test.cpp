// Lists as their owners write them: our entry goes in and out, everything else keeps its bytes.
#include "cni/install/conflist.hpp"

#include <gtest/gtest.h>

#include "lib/json/json.hpp"
#include "tests/unit/cni_install/lists.hpp"

namespace podlane::cni {
namespace {

std::string entry() {
  const auto made = make_entry(R"({"tun":{"name":"lane0"}})");
  return made ? *made : std::string();
}

TEST(Conflist, EntryGoesLastAndOutAgainWithoutATrace) {
  for (const test::List& row : test::kLists) {
    SCOPED_TRACE(row.name);
    const std::string text(row.text);
    const auto edited = with_entry(text, entry());
    ASSERT_TRUE(edited) << edited.error().message();
    const auto list = read_list(*edited);
    ASSERT_TRUE(list) << list.error().message();
    EXPECT_EQ(list->plugins.back().type, "podlane");
    EXPECT_TRUE(holds_entry(*edited, *list, entry()));
    // The same list with one plugin more: nothing else is another, the version included.
    const auto before = json::parse(text);
    const auto after = json::parse(*edited);
    ASSERT_TRUE(before && after);
    json::Value expected = *before;
    expected["plugins"].push_back(*json::parse(entry()));
    EXPECT_EQ(*after, expected);
    EXPECT_EQ(with_entry(*edited, entry()).value_or("?"), *edited);
    EXPECT_EQ(without_entry(*edited).value_or("?"), text);
    EXPECT_EQ(without_entry(text).value_or("?"), text);
  }
}

TEST(Conflist, AnotherEntryIsReplacedWhereItStands) {
  const std::string text =
      R"({"name":"n","plugins":[{"type":"ptp"}, {"type": "podlane", "old": 1} ,{"type":"portmap"}]})";
  const auto edited = with_entry(text, entry());
  ASSERT_TRUE(edited);
  EXPECT_EQ(*edited, R"({"name":"n","plugins":[{"type":"ptp"}, )" + entry() + R"( ,{"type":"portmap"}]})");
}

TEST(Conflist, SeveralEntriesBecomeOne) {
  const std::string text =
      R"({"name":"n","plugins":[{"type":"podlane"},{"type":"ptp"},{"type":"podlane"},{"type":"podlane"}]})";
  const auto edited = with_entry(text, entry());
  ASSERT_TRUE(edited);
  EXPECT_EQ(*edited, R"({"name":"n","plugins":[)" + entry() + R"(,{"type":"ptp"}]})");
  EXPECT_EQ(without_entry(*edited).value_or("?"), R"({"name":"n","plugins":[{"type":"ptp"}]})");
}

TEST(Conflist, WhatIsNoListIsRefused) {
  const std::string_view rows[][2] = {
      {R"({"name":"n","plugins":[{"type":"ptp"}])", "JSON"},
      {"", "JSON"},
      {"[]", "object"},
      {R"({"plugins":[{"type":"ptp"}]})", "name"},
      {R"({"name":1,"plugins":[{"type":"ptp"}]})", "name"},
      {R"({"name":"n","type":"ptp"})", "plugins"},
      {R"({"name":"n","plugins":{}})", "plugins"},
      {R"({"name":"n","plugins":[]})", "plugins"},
      {R"({"name":"n","plugins":["ptp"]})", "plugins"},
      {R"({"name":"n","plugins":[{"type":"ptp"},1]})", "plugins"},
      {R"({"name":"n","plugins":[{"name":"x"}]})", "plugins[0].type"},
  };
  for (const auto& [text, word] : rows) {
    const auto list = read_list(text);
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().code(), Errc::kInvalid);
    EXPECT_NE(list.error().message().find(word), std::string::npos) << list.error().message();
  }
}

TEST(Conflist, KeysWithEscapesAndTwiceAreReadAsGoReadsThem) {
  const std::string text =
      R"({"name":"a]}\"","\u0070lugins":[{"type":"first"}],"x":"plugins\\","plugins" : [ {"type":"ptp","s":"]}"} ] })";
  const auto edited = with_entry(text, entry());
  ASSERT_TRUE(edited) << edited.error().message();
  EXPECT_EQ(
      *edited,
      R"({"name":"a]}\"","\u0070lugins":[{"type":"first"}],"x":"plugins\\","plugins" : [ {"type":"ptp","s":"]}"},)" +
          entry() + " ] }");
}

TEST(Conflist, OurselvesAloneAreNotTakenOut) {
  const auto without = without_entry(R"({"name":"n","plugins":[{"type":"podlane"}]})");
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message().find("only plugin"), std::string::npos);
}

TEST(Conflist, EntryHasTypeAndCapabilityAndNoKeyOfTheRuntime) {
  EXPECT_EQ(entry(),
            R"({"type":"podlane","capabilities":{"io.kubernetes.cri.pod-annotations":true},"tun":{"name":"lane0"}})");
  for (const char* keys :
       {R"({"type":"x"})", R"({"ipam":{"type":"host-local"}})", R"({"cniVersion":"1.0.0"})", "[]", "{"}) {
    EXPECT_FALSE(make_entry(keys)) << keys;
  }
}

}  // namespace
}  // namespace podlane::cni
