#include "lib/json/json.hpp"

#include <gtest/gtest.h>

namespace podlane::json {
namespace {

TEST(Parse, BoundsSizeAndDepth) {
  EXPECT_TRUE(parse("[[1]]", {.max_depth = 2}).has_value());
  EXPECT_FALSE(parse("[[[1]]]", {.max_depth = 2}).has_value());
  EXPECT_TRUE(parse("[1]", {.max_bytes = 3}).has_value());
  EXPECT_FALSE(parse("[1] ", {.max_bytes = 3}).has_value());
  EXPECT_TRUE(parse(R"(["[[[[", "\"[["])", {.max_depth = 1}).has_value()) << "brackets in strings are no depth";
}

TEST(Parse, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{} {}", "{'a': 1}", "[1,]", "nul"}) EXPECT_FALSE(parse(text).has_value()) << text;
}

TEST(Dump, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(dump(Value("a\xff")), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(dump(*parse(R"({"z":1,"a":2})")), R"({"z":1,"a":2})") << "keys keep their order";
}

TEST(Reader, ReadsFieldsWithinTheirRange) {
  const Value value =
      *parse(R"({"n": 5, "s": "x", "b": true, "l": ["a"], "o": {"k": 1}, "none": null, "big": 18446744073709551615})");
  const auto reader = Reader::open(value, "top");
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(*reader->integer("n", 5, 5), 5);
  EXPECT_EQ(*reader->string("s"), "x");
  EXPECT_EQ(**reader->optional_boolean("b"), true);
  EXPECT_FALSE(reader->has("none"));
  EXPECT_FALSE(reader->optional_string("none")->has_value());
  struct Row {
    Error error;
    const char* names;
  };
  for (const Row& row : {
           Row{reader->integer("n", 6, 7).error(), "top.n 5 must be a whole number from 6 to 7"},
           Row{reader->integer("n", 3, 4).error(), "top.n 5"},
           Row{reader->integer("big", 0, 9).error(), "top.big 18446744073709551615"},
           Row{reader->integer("s", 0, 9).error(), "top.s 'x'"},
           Row{reader->string("gone").error(), "top.gone is missing"},
           Row{reader->optional_strings("s").error(), "list of strings"},
           Row{reader->optional_object("l").error(), "top.l"},
           Row{reader->optional_objects("l").error(), "top.l[0]"},
           Row{reader->optional_choice("s", {"a", "b"}).error(), "one of a, b"},
           Row{reader->refuse_unknown({"n", "s", "b", "l", "o", "none", "bigg"}).error(), "'bigg'"},
       }) {
    EXPECT_NE(row.error.message().find(row.names), std::string::npos) << row.error.message();
  }
}

TEST(Nearest, IsWithinTwoEdits) {
  EXPECT_EQ(nearest("lane", {"lanes", "mode"}), "lanes");
  EXPECT_EQ(nearest("mdoe", {"lanes", "mode"}), "mode");
  EXPECT_EQ(nearest("zzzz", {"lanes", "mode"}), "");
}

}  // namespace
}  // namespace podlane::json
