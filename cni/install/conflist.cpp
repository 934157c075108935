#include "cni/install/conflist.hpp"

#include <algorithm>

#include "lib/json/json.hpp"

namespace podlane::cni {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Walks over text that the JSON parser has taken already; so it only has to find where things end.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }
  char peek() {
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  // The bytes of the next value.
  std::string_view value() {
    peek();
    const std::size_t begin = at_;
    int depth = 0;
    do {
      const char c = peek();
      if (c == '\0') break;
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (c == ',' || c == ':') {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(",:]} \t\r\n", at_), text_.size());
      }
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<std::vector<PluginText>> read_plugins(std::string_view text, std::size_t array_begin) {
  std::vector<PluginText> plugins;
  Cursor cursor(text.substr(array_begin));
  if (!cursor.take('[')) return fail(Errc::kInvalid, "plugins must be a list of objects");
  while (cursor.peek() == '{') {
    const std::string_view bytes = cursor.value();
    PODLANE_TRY_ASSIGN(const json::Value plugin, json::parse(bytes));
    const auto type = plugin.find("type");
    if (type == plugin.end() || !type->is_string() || type->get<std::string>().empty()) {
      return fail(Errc::kInvalid, "plugins[" + std::to_string(plugins.size()) + "].type is missing");
    }
    const std::size_t end = array_begin + cursor.at();
    plugins.push_back({.type = *type, .begin = end - bytes.size(), .end = end});
    if (!cursor.take(',')) break;
  }
  if (plugins.empty() || !cursor.take(']')) return fail(Errc::kInvalid, "plugins must be a list of objects");
  return plugins;
}

std::string_view bytes_of(std::string_view text, const PluginText& plugin) {
  return text.substr(plugin.begin, plugin.end - plugin.begin);
}

// Without plugin i: with the comma before it, or for the first one with the comma behind it.
std::string without_plugin(std::string_view text, const ListText& list, std::size_t i) {
  const std::size_t begin = i == 0 ? list.plugins[0].begin : list.plugins[i - 1].end;
  const std::size_t end = i == 0 ? list.plugins[1].begin : list.plugins[i].end;
  return std::string(text.substr(0, begin)) + std::string(text.substr(end));
}

std::size_t count_ours(const ListText& list) {
  std::size_t count = 0;
  for (const PluginText& plugin : list.plugins) count += plugin.type == kOurType ? 1 : 0;
  return count;
}

Result<std::string> without_ours_but(std::string_view text, std::size_t kept) {
  std::string result(text);
  for (;;) {
    PODLANE_TRY_ASSIGN(const ListText list, read_list(result));
    if (count_ours(list) <= kept) return result;
    if (list.plugins.size() == 1) {
      return fail(Errc::kInvalid, "podlane is the list's only plugin; without it the node has no network");
    }
    std::size_t last = list.plugins.size() - 1;
    while (list.plugins[last].type != kOurType) --last;
    result = without_plugin(result, list, last);
  }
}

}  // namespace

Result<ListText> read_list(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  if (!value.is_object()) return fail(Errc::kInvalid, "a CNI configuration list is an object");
  ListText list;
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string() || name->get<std::string>().empty()) {
    return fail(Errc::kInvalid, "name is missing: a list must have the name of its network");
  }
  list.name = *name;
  // libcni takes the boolean as a string too.
  if (const auto only = value.find("loadOnlyInlinedPlugins"); only != value.end()) {
    list.only_inlined = *only == true || *only == "true" || *only == "1";
  }
  Cursor cursor(text);
  std::size_t array_begin = 0;
  cursor.take('{');
  while (cursor.peek() == '"') {
    PODLANE_TRY_ASSIGN(const json::Value key, json::parse(cursor.value()));
    cursor.take(':');
    cursor.peek();
    // Of two keys with one name the last one counts, as in Go's decoder.
    if (key == "plugins") array_begin = cursor.at();
    cursor.value();
    if (!cursor.take(',')) break;
  }
  if (array_begin == 0) return fail(Errc::kInvalid, "plugins is missing: this is no list but a single plugin");
  PODLANE_TRY_ASSIGN(list.plugins, read_plugins(text, array_begin));
  return list;
}

bool holds_entry(std::string_view text, const ListText& list, std::string_view entry) {
  if (count_ours(list) != 1) return false;
  for (const PluginText& plugin : list.plugins) {
    if (plugin.type == kOurType) return bytes_of(text, plugin) == entry;
  }
  return false;
}

Result<std::string> with_entry(std::string_view text, std::string_view entry) {
  PODLANE_TRY_ASSIGN(std::string result, without_ours_but(text, 1));
  PODLANE_TRY_ASSIGN(const ListText list, read_list(result));
  for (const PluginText& plugin : list.plugins) {
    if (plugin.type != kOurType) continue;
    result.replace(plugin.begin, plugin.end - plugin.begin, entry);
    return result;
  }
  result.insert(list.plugins.back().end, "," + std::string(entry));
  return result;
}

Result<std::string> without_entry(std::string_view text) {
  return without_ours_but(text, 0);
}

Result<std::string> make_entry(std::string_view keys) {
  PODLANE_TRY_ASSIGN(const json::Value given, json::parse(keys));
  if (!given.is_object()) return fail(Errc::kInvalid, "the keys of the entry must be an object");
  for (const char* key : {"type", "name", "cniVersion", "prevResult", "runtimeConfig", "ipam"}) {
    if (given.contains(key)) {
      return fail(Errc::kInvalid, std::string("key '") + key + "' must not be there: " +
                                      (std::string_view(key) == "ipam" ? "a lane's addresses come from its pool"
                                                                       : "it is the list's or the runtime's to say"));
    }
  }
  json::Value entry = json::Value::object();
  entry["type"] = kOurType;
  entry["capabilities"] = {{"io.kubernetes.cri.pod-annotations", true}};
  for (const auto& [key, value] : given.items()) entry[key] = value;
  return json::dump(entry);
}

}  // namespace podlane::cni
