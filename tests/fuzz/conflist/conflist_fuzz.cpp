// A CNI list from arbitrary bytes: what is taken takes our entry, which comes out again without a trace.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cni/install/conflist.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const std::string entry = podlane::cni::make_entry("{}").value_or("");
  const auto edited = podlane::cni::with_entry(text, entry);
  if (!edited) return 0;
  const auto list = podlane::cni::read_list(*edited);
  if (!list || !podlane::cni::holds_entry(*edited, *list, entry)) std::abort();
  const auto before = podlane::cni::read_list(text);
  if (!before) std::abort();
  bool ours_before = false;
  for (const auto& plugin : before->plugins) ours_before |= plugin.type == podlane::cni::kOurType;
  const auto without = podlane::cni::without_entry(*edited);
  if (!ours_before && (!without || *without != text)) std::abort();
  return 0;
}
