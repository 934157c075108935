#include "lib/base/log.hpp"

#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace podlane {

namespace {

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kError: return "error";
  }
  return "error";
}

// Length of the UTF-8 sequence at text[at], or 0 when it is not one (overlong forms and surrogates count as not).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length == 3 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f))) return 0;
  if (length == 4 && ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))) return 0;
  return length;
}

std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  char date[32];
  char text[64];
  ::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof(text), "%s.%06ldZ", date, now.tv_nsec / 1000);
  return text;
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
      ++at;
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out.append(escape);
      ++at;
    } else if (const std::size_t length = utf8_length(text, at); length != 0) {
      out.append(text.substr(at, length));
      at += length;
    } else {
      out.append("\xef\xbf\xbd");
      ++at;
    }
  }
  out.push_back('"');
  return out;
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    if (text == level_name(level)) return level;
  }
  return fail(Errc::kInvalid, "log level '" + std::string(text) + "' is not one of debug, info, warn, error");
}

void Log::line(LogLevel level, std::string_view msg, std::initializer_list<LogField> fields) {
  if (level < level_) return;
  std::string out = "{\"ts\":\"" + timestamp() + "\",\"level\":\"";
  out.append(level_name(level)).append("\",\"component\":").append(json_quote(component_));
  out.append(",\"msg\":").append(json_quote(msg));
  for (const auto& [key, value] : fields) {
    out.append(",").append(json_quote(key)).append(":").append(json_quote(value));
  }
  out.append("}\n");
  // A log that cannot be written has nowhere to say so.
  [[maybe_unused]] const ssize_t ignored = ::write(fd_, out.data(), out.size());
}

}  // namespace podlane
