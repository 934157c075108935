#include "lib/lane/lane_types.hpp"

#include <array>
#include <utility>

namespace podlane::lane {

namespace {

template <typename Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<Kind, 4> kKinds{
    {{Kind::kQueue, "queue"}, {Kind::kVeth, "veth"}, {Kind::kTun, "tun"}, {Kind::kOnload, "onload"}}};
constexpr Names<Path, 3> kPaths{{{Path::kRelay, "relay"}, {Path::kDirect, "direct"}, {Path::kKernel, "kernel"}}};
constexpr Names<Mode, 3> kModes{
    {{Mode::kSpinning, "spinning"}, {Mode::kInterrupt, "interrupt"}, {Mode::kAdaptive, "adaptive"}}};
constexpr Names<HugePages, 3> kHugePages{
    {{HugePages::kNone, "none"}, {HugePages::k2Mi, "2Mi"}, {HugePages::k1Gi, "1Gi"}}};

template <typename Enum, std::size_t N>
std::string_view name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "unknown";
}

template <typename Enum, std::size_t N>
Result<Enum> value_of(const Names<Enum, N>& names, std::string_view what, std::string_view text) {
  std::string known;
  for (const auto& [value, name] : names) {
    if (name == text) return value;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  return fail(Errc::kInvalid, std::string(what) + " '" + std::string(text) + "' must be one of " + known);
}

}  // namespace

std::string_view to_string(Kind kind) {
  return name_of(kKinds, kind);
}
std::string_view to_string(Path path) {
  return name_of(kPaths, path);
}
std::string_view to_string(Mode mode) {
  return name_of(kModes, mode);
}
std::string_view to_string(HugePages huge_pages) {
  return name_of(kHugePages, huge_pages);
}

Result<Kind> parse_kind(std::string_view text) {
  return value_of(kKinds, "lane kind", text);
}
Result<Path> parse_path(std::string_view text) {
  return value_of(kPaths, "path", text);
}
Result<Mode> parse_mode(std::string_view text) {
  return value_of(kModes, "mode", text);
}
Result<HugePages> parse_huge_pages(std::string_view text) {
  return value_of(kHugePages, "huge pages", text);
}

}  // namespace podlane::lane
