// JSON from outside: bounded parsing and typed, range-checked field reading with errors that name key, value and what
// would be right. Values keep the order of their keys, so that what we pass on reads as it came. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::json {

using Value = nlohmann::ordered_json;

struct Limits {
  std::size_t max_bytes = 1 << 20;
  int max_depth = 64;
};

// The error says where (byte) and why. Duplicate keys: the last one wins, as in Go's decoder.
Result<Value> parse(std::string_view text, const Limits& limits = {});

// Compact text; bytes that are not UTF-8 are replaced.
std::string dump(const Value& value);

// Reads the fields of one object. `path` is how errors call the object ("pools[0]"); empty at the top.
// A key that is absent or null gives an empty optional from the optional readers and an error from the others.
class Reader {
 public:
  // kInvalid when value is not an object.
  static Result<Reader> open(const Value& value, std::string path);

  bool has(std::string_view key) const;
  std::string path_of(std::string_view key) const;  // "pools[0].lanes"

  Result<std::string> string(std::string_view key) const;
  Result<std::optional<std::string>> optional_string(std::string_view key) const;
  Result<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  Result<std::optional<std::int64_t>> optional_integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  Result<std::optional<bool>> optional_boolean(std::string_view key) const;
  // One of `allowed`; the error lists them.
  Result<std::optional<std::string>> optional_choice(std::string_view key,
                                                     std::initializer_list<std::string_view> allowed) const;
  Result<std::vector<std::string>> optional_strings(std::string_view key) const;  // Absent: empty.
  Result<std::optional<Reader>> optional_object(std::string_view key) const;
  Result<std::vector<Reader>> optional_objects(std::string_view key) const;  // Array of objects; absent: empty.
  const Value* find(std::string_view key) const;                             // Raw; nullptr when absent or null.

  // kInvalid for a key that is not in `known`, with the nearest known one when a typo is likely.
  Result<void> refuse_unknown(std::initializer_list<std::string_view> known) const;

  const Value& value() const { return *value_; }
  const std::string& path() const { return path_; }

 private:
  Reader(const Value& value, std::string path) : value_(&value), path_(std::move(path)) {}
  std::unexpected<Error> wrong(std::string_view key, std::string_view wanted) const;

  const Value* value_;  // Borrowed; outlives the reader.
  std::string path_;
};

// The member of `known` within two edits of `text`, or empty.
std::string_view nearest(std::string_view text, const std::vector<std::string_view>& known);

}  // namespace podlane::json
