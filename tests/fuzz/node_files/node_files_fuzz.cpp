// What podlane-nodeconfig reads of a node: CPU lists and masks, interrupt names, the kubelet's files, TuneD's, and its
// own journal. The first byte chooses the parser.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "nodeconfig/change_journal.hpp"
#include "nodeconfig/irq_names.hpp"
#include "nodeconfig/kubelet_state.hpp"
#include "nodeconfig/owners.hpp"
#include "nodeconfig/settings.hpp"

using namespace podlane::nodeconfig;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l': {
      const auto set = CpuSet::parse_list(text);
      if (set && CpuSet::parse_list(set->list()) != *set) std::abort();
      break;
    }
    case 'm': {
      const auto set = CpuSet::parse_mask(text);
      if (set && CpuSet::parse_mask(set->mask()) != *set) std::abort();
      break;
    }
    case 'i': {
      const std::size_t bar = text.find('|');
      const IrqName name = parse_irq_name(text.substr(0, bar), bar == text.npos ? "" : text.substr(bar + 1));
      if (name.identity.empty() || name.identity.find('/') != std::string::npos || name.first > name.last) std::abort();
      break;
    }
    case 's': {
      KubeletState state;
      if (!parse_cpu_manager_state(text, state) && (!state.cpu_policy.empty() || !state.exclusive.empty()))
        std::abort();
      break;
    }
    case 'k': {
      for (const auto& [key, value] : parse_kubelet_configuration(text)) {
        if (key.empty()) std::abort();
      }
      break;
    }
    case 't': {
      for (const IniLine& line : parse_ini(text)) {
        if (line.line == 0) std::abort();
      }
      break;
    }
    case 'j': {
      const auto record = decode_change(text, "boot");
      if (record && !record->knob.empty() && decode_change(encode(*record, "boot"), "boot") != *record) std::abort();
      break;
    }
    default:
      for (const Format format : {Format::kWord, Format::kNumber, Format::kChoice, Format::kList, Format::kMask}) {
        const std::string once = canonical(format, text);
        if (format != Format::kChoice && canonical(format, once) != once) std::abort();
      }
  }
  return 0;
}
