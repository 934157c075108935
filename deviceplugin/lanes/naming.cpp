#include "deviceplugin/lanes/naming.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "lib/lane/annotations.hpp"

namespace podlane::dp {

namespace {

Result<std::string> random_hex(std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 16> random{};
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) return fail_errno("getrandom");
  std::string text;
  for (std::size_t at = 0; at < bytes; ++at) {
    text.push_back(kDigits[random[at] >> 4]);
    text.push_back(kDigits[random[at] & 15]);
  }
  return text;
}

}  // namespace

std::string lanes_variable(std::string_view pool) {
  std::string name = "PODLANE_LANES_";
  for (const char c : pool) name.push_back(c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
  return name;
}

std::string resource_name(std::string_view pool) { return std::string(lane::kAnnotationPrefix).append(pool); }

Result<std::string> random_directory_name() { return random_hex(16); }

Result<std::string> veth_host_name(LaneSlot slot) {
  PODLANE_TRY_ASSIGN(const std::string random, random_hex(3));
  return "pl" + std::to_string(slot.value) + "x" + random;
}

std::string veth_pod_name(LaneSlot slot) { return "pv" + std::to_string(slot.value); }

void sort_device_ids(std::vector<std::string>& ids) {
  // Ids of one pool differ in their number alone, so the shorter one is the smaller one.
  std::sort(ids.begin(), ids.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
}

}  // namespace podlane::dp
