// Per-interface sysctls of the calling thread's network namespace (Documentation/networking/ip-sysctl.rst). Any thread.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane::net {

// family: "ipv4" or "ipv6"; writes /proc/sys/net/<family>/conf/<ifname>/<key>. An interface name may hold dots: the
// path is used, never the dotted form. kNotFound: no such interface or key in this kernel.
Result<void> set_interface_sysctl(std::string_view family, const std::string& ifname, std::string_view key,
                                  std::string_view value);
Result<std::string> get_interface_sysctl(std::string_view family, const std::string& ifname, std::string_view key);

}  // namespace podlane::net
