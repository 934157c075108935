#include "lib/net/sysctl.hpp"

#include "lib/base/file.hpp"

namespace podlane::net {

namespace {

// /proc/sys/net shows the namespace of the opening thread, whichever procfs mount it is read through.
std::string path_of(std::string_view family, const std::string& ifname, std::string_view key) {
  return "/proc/sys/net/" + std::string(family) + "/conf/" + ifname + "/" + std::string(key);
}

}  // namespace

Result<void> set_interface_sysctl(std::string_view family, const std::string& ifname, std::string_view key,
                                  std::string_view value) {
  return write_existing(path_of(family, ifname, key), value);
}

Result<std::string> get_interface_sysctl(std::string_view family, const std::string& ifname, std::string_view key) {
  PODLANE_TRY_ASSIGN(std::string text, read_file(path_of(family, ifname, key), 4096));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace podlane::net
