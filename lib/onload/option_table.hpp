// The EF_* options that Onload knows: names and what may stand in them, as of its July 2026 head, with the names that
// only older releases have. Facts about another program; which of them podlane sets, and why, is environment.cpp. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::onload {

enum class ValueKind { kNumber, kWord, kText };

struct Option {
  std::string_view name;
  ValueKind kind = ValueKind::kNumber;
  std::int64_t low = 0, high = 0;  // Numbers.
  std::string_view words;          // Words: the choices, parted by blanks.
  bool retired = false;            // Known to older releases only.
};

std::span<const Option> options();
const Option* find_option(std::string_view name);

// The option that was probably meant, or empty.
std::string_view nearest_option(std::string_view name);

// A whole number as Onload reads it, decimal or 0x…, but strictly: Onload itself takes garbage for 0.
std::optional<std::int64_t> parse_number(std::string_view text);

// kInvalid says what would be right, without the name: "must be a whole number from 0 to 1".
Result<void> check_value(const Option& option, std::string_view value);

}  // namespace podlane::onload
