#include "lib/json/json.hpp"

#include <algorithm>
#include <limits>

namespace podlane::json {

namespace {

// A short rendering of a value for messages.
std::string show(const Value& value) {
  std::string text = dump(value);
  if (value.is_string()) text = "'" + value.get_ref<const std::string&>() + "'";
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view text, const std::vector<std::string_view>& known) {
  std::string_view best;
  std::size_t best_distance = 3;
  if (text.size() > 64) return best;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(text, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<Value> parse(std::string_view text, const Limits& limits) {
  if (text.size() > limits.max_bytes) {
    return fail(Errc::kInvalid, "JSON of " + std::to_string(text.size()) + " bytes is longer than " +
                                    std::to_string(limits.max_bytes));
  }
  // Depth is checked before the parser builds anything: nested values are freed recursively.
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limits.max_depth) {
        return fail(Errc::kInvalid, "JSON is nested deeper than " + std::to_string(limits.max_depth) + " levels");
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  Value value = Value::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return fail(Errc::kInvalid, text.empty() ? std::string("JSON expected, got nothing")
                                             : "not valid JSON: '" + std::string(text.substr(0, 40)) + "'");
  }
  return value;
}

std::string dump(const Value& value) { return value.dump(-1, ' ', false, Value::error_handler_t::replace); }

Result<Reader> Reader::open(const Value& value, std::string path) {
  if (!value.is_object()) {
    return fail(Errc::kInvalid, (path.empty() ? std::string("top level") : path) + " " + show(value) +
                                    " is not a JSON object");
  }
  return Reader(value, std::move(path));
}

const Value* Reader::find(std::string_view key) const {
  const auto it = value_->find(std::string(key));
  return it == value_->end() || it->is_null() ? nullptr : &*it;
}

bool Reader::has(std::string_view key) const { return find(key) != nullptr; }

std::string Reader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::unexpected<Error> Reader::wrong(std::string_view key, std::string_view wanted) const {
  const Value* value = find(key);
  if (value == nullptr) {
    return fail(Errc::kInvalid, path_of(key) + " is missing; it must be " + std::string(wanted));
  }
  return fail(Errc::kInvalid, path_of(key) + " " + show(*value) + " must be " + std::string(wanted));
}

Result<std::optional<std::string>> Reader::optional_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong(key, "a string");
  return std::optional(value->get<std::string>());
}

Result<std::string> Reader::string(std::string_view key) const {
  PODLANE_TRY_ASSIGN(auto value, optional_string(key));
  if (!value) return wrong(key, "a string");
  return *value;
}

Result<std::optional<std::int64_t>> Reader::optional_integer(std::string_view key, std::int64_t low,
                                                             std::int64_t high) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const bool representable =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!representable || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
    return wrong(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return std::optional(value->get<std::int64_t>());
}

Result<std::int64_t> Reader::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  PODLANE_TRY_ASSIGN(auto value, optional_integer(key, low, high));
  if (!value) return wrong(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return *value;
}

Result<std::optional<bool>> Reader::optional_boolean(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong(key, "true or false");
  return std::optional(value->get<bool>());
}

Result<std::optional<std::string>> Reader::optional_choice(std::string_view key,
                                                           std::initializer_list<std::string_view> allowed) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  std::string list;
  for (const std::string_view choice : allowed) {
    if (value->is_string() && value->get_ref<const std::string&>() == choice) {
      return std::optional(value->get<std::string>());
    }
    list.append(list.empty() ? "" : ", ").append(choice);
  }
  return wrong(key, "one of " + list);
}

Result<std::vector<std::string>> Reader::optional_strings(std::string_view key) const {
  std::vector<std::string> strings;
  const Value* value = find(key);
  if (value == nullptr) return strings;
  if (!value->is_array()) return wrong(key, "a list of strings");
  for (const Value& item : *value) {
    if (!item.is_string()) return wrong(key, "a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<std::optional<Reader>> Reader::optional_object(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::optional<Reader>();
  PODLANE_TRY_ASSIGN(Reader reader, open(*value, path_of(key)));
  return std::optional(std::move(reader));
}

Result<std::vector<Reader>> Reader::optional_objects(std::string_view key) const {
  std::vector<Reader> readers;
  const Value* value = find(key);
  if (value == nullptr) return readers;
  if (!value->is_array()) return wrong(key, "a list of objects");
  for (std::size_t i = 0; i < value->size(); ++i) {
    PODLANE_TRY_ASSIGN(Reader reader, open((*value)[i], path_of(key) + "[" + std::to_string(i) + "]"));
    readers.push_back(std::move(reader));
  }
  return readers;
}

Result<void> Reader::refuse_unknown(std::initializer_list<std::string_view> known) const {
  const std::vector<std::string_view> list(known);
  for (const auto& [key, value] : value_->items()) {
    if (std::find(list.begin(), list.end(), key) != list.end()) continue;
    const std::string_view near = nearest(key, list);
    std::string message = "unknown key '" + path_of(key) + "'";
    if (!near.empty()) message.append("; did you mean '").append(near).append("'?");
    else {
      message.append("; known keys here: ");
      for (std::size_t i = 0; i < list.size(); ++i) message.append(i == 0 ? "" : ", ").append(list[i]);
    }
    return fail(Errc::kInvalid, message);
  }
  return {};
}

}  // namespace podlane::json
