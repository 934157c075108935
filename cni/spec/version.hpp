// The CNI versions that podlane speaks. Values; any thread.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace podlane::cni {

enum class Version { k0_3_1, k0_4_0, k1_0_0, k1_1_0 };  // In order: comparisons say "at least".

inline constexpr std::array<std::string_view, 4> kVersionNames{"0.3.1", "0.4.0", "1.0.0", "1.1.0"};
inline constexpr std::string_view kNewestVersion = kVersionNames.back();

inline constexpr std::string_view to_string(Version version) {
  return kVersionNames[static_cast<std::size_t>(version)];
}
inline constexpr std::optional<Version> parse_version(std::string_view text) {
  for (std::size_t i = 0; i < kVersionNames.size(); ++i) {
    if (kVersionNames[i] == text) return static_cast<Version>(i);
  }
  return {};
}

}  // namespace podlane::cni
