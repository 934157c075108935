// An environment of Onload comes from a pod's process or from a command line: any bytes may stand in it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ctl/onload.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace podlane;
  const auto environment = ctl::parse_environ({reinterpret_cast<const char*>(data), size});
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("EF_") || name.find('\0') != name.npos || value.find('\0') != value.npos) std::abort();
  }
  for (const auto transport : {onload::Transport::kNative, onload::Transport::kAfXdp}) {
    const auto findings = onload::validate(environment, {lane::Mode::kInterrupt, transport});
    for (const auto& finding : findings) {
      if (finding.rule.empty() || finding.name.empty() || finding.message.size() > 512) std::abort();
    }
    // What was accepted is kept, whatever it is.
    const auto built = onload::environment(lane::Mode::kAdaptive, transport, environment);
    for (const auto& [name, value] : environment) {
      const std::string* const kept = onload::find(built, name);
      if (kept == nullptr || *kept != value) std::abort();
    }
  }
  return 0;
}
