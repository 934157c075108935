// Annotations come from whoever may create pods. Input: lines "key=value", the keys without podlane.io/.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/lane/annotations.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  podlane::lane::Annotations annotations;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + (line.size() < text.size() ? 1 : 0));
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    annotations.emplace_back(std::string(podlane::lane::kAnnotationPrefix) + std::string(line.substr(0, equals)),
                             std::string(line.substr(equals + 1)));
  }
  using podlane::lane::Kind;
  const auto pod = podlane::lane::parse_annotations(
      annotations, {.kinds = {{"feed", Kind::kQueue}, {"side", Kind::kVeth}, {"vpn", Kind::kTun}}});
  if (!pod) return pod.error().message().empty() ? (std::abort(), 0) : 0;
  for (const podlane::lane::PoolLanes& lanes : pod->pools) {
    const bool sound = lanes.count >= 1 && lanes.count <= podlane::lane::kMaxLanesOfPool &&
                       (lanes.addresses.empty() || lanes.addresses.size() == lanes.count);
    if (!sound) std::abort();
  }
  static_cast<void>(podlane::lane::check_built(annotations));
  return 0;
}
