// Any text from a client: it decodes to a message that encodes to one that decodes to the same, or is refused in words.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/lane/handover_msg.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace podlane::lane;
  const auto message = decode_handover(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!message) {
    if (message.error().message().empty()) std::abort();
    return 0;
  }
  const std::string text = encode(*message);
  if (text.size() > kHandoverMessageMaxBytes) return 0;  // Escaping may lengthen it; the sender would refuse it.
  const auto again = decode_handover(text);
  if (!again || encode(*again) != text) std::abort();
  return 0;
}
