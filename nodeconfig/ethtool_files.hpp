// What ethtool(8) sets, as files: "/ethtool/<interface>/<group>/<name>", such as "/ethtool/ens1f0/coalesce/rx-usecs".
// So a knob, the journal, a snapshot and a test treat a NIC's rings as they treat a sysctl; Tree asks here where its
// root is a running kernel's. ioctls (linux/ethtool.h), in the network namespace of the process. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace podlane::nodeconfig {

inline constexpr std::string_view kEthtoolRoot = "/ethtool/";

// A number; 0 and 1 of a feature; a text at driver/firmware-version; a list at rss/queues. EOPNOTSUPP: the driver has no such thing. ENOENT:
// no such name.
Result<std::string> read_ethtool(std::string_view path);
Result<void> write_ethtool(std::string_view path, std::string_view text);

}  // namespace podlane::nodeconfig
