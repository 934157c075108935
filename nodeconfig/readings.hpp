// Readings: files of a node that say how fast it will be and that no profile sets - counters, links, sysctls, boot's
// traces. One list for the doctor, which judges them, and for the snapshot, which must hold what the doctor reads.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "nodeconfig/facts.hpp"

namespace podlane::nodeconfig {

struct Readings {
  struct File {
    std::optional<std::string> text;  // Empty: not there, or not readable by us.
    mode_t mode = 0;                  // Of interrupts only.
    bool denied = false;              // There, and we may not.
  };
  std::map<std::string, File> files;  // Every path that was asked for.

  const File* find(const std::string& path) const {
    const auto it = files.find(path);
    return it == files.end() ? nullptr : &it->second;
  }
};

inline constexpr const char* kPresent = "present";  // Text of what is only looked for: /dev/net/tun.
inline constexpr const char* kLanesFile = "/run/podlane/lanes.json";
inline constexpr const char* kStatusFile = "/run/podlane/nodeconfig.json";
inline constexpr const char* kChangesFile = "/run/podlane/nodeconfig-changes.jsonl";

Readings take_readings(const Tree& tree, const Facts& facts);

}  // namespace podlane::nodeconfig
