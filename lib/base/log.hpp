// Log: one JSON object a line on a descriptor, fixed keys (ts, level, component, msg, then the fields given).
// Only main functions, verbs, request handlers and the relay's control thread log; libraries return errors. Any thread:
// a line is one write(2), so lines of several threads or processes do not mix.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.hpp"

namespace podlane {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

Result<LogLevel> parse_log_level(std::string_view text);  // "debug", "info", "warn", "error".

using LogField = std::pair<std::string_view, std::string_view>;

class Log {
 public:
  // fd is borrowed and must outlive the Log. component: "cni", "deviceplugin", "relay", ….
  Log(int fd, std::string component, LogLevel level = LogLevel::kInfo)
      : fd_(fd), component_(std::move(component)), level_(level) {}

  void debug(std::string_view msg, std::initializer_list<LogField> fields = {}) { line(LogLevel::kDebug, msg, fields); }
  void info(std::string_view msg, std::initializer_list<LogField> fields = {}) { line(LogLevel::kInfo, msg, fields); }
  void warn(std::string_view msg, std::initializer_list<LogField> fields = {}) { line(LogLevel::kWarn, msg, fields); }
  void error(std::string_view msg, std::initializer_list<LogField> fields = {}) { line(LogLevel::kError, msg, fields); }

 private:
  void line(LogLevel level, std::string_view msg, std::initializer_list<LogField> fields);

  int fd_;
  std::string component_;
  LogLevel level_;
};

// JSON string literal with quotes; bytes that are not UTF-8 are replaced by U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace podlane
