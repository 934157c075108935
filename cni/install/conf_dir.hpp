// The runtime's directory of CNI configurations, as libcni reads it. Blocking file I/O; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/install/conflist.hpp"
#include "lib/base/result.hpp"

namespace podlane::cni {

inline constexpr std::string_view kDropInName = "90-podlane.conf";

struct ConfFile {
  std::string path;
  std::string text;
  ListText list;
};

// Names that libcni takes for configurations (*.conf, *.conflist, *.json), in the order in which it looks at them.
Result<std::vector<std::string>> configuration_names(const std::string& directory);

// The list that the runtime uses: the first file. Empty: there is none yet. kInvalid when that file is malformed
// (containerd then has no network at all) or is a single plugin that nothing can be chained to.
Result<std::optional<ConfFile>> first_list(const std::string& directory);

// Writes beside the old file and renames over it, in its directory, with its mode and owner: containerd notices a
// rename only within the directory, and nothing else tells it that the file is whole.
Result<void> replace_file(const std::string& path, std::string_view text);

// What the drop-in directory of a network holds of ours.
std::string drop_in_path(const std::string& directory, const std::string& network);

// Makes the runtime read the directory anew: it does not watch sub-directories. Writing into a dot file that is no
// configuration does it, making an empty one does not (tried with containerd 1.6 and 2.1).
Result<void> poke(const std::string& directory);

// Takes our entry out of every list, and our file out of every sub-directory. Gives the paths that were changed.
Result<std::vector<std::string>> remove_entries(const std::string& directory);

}  // namespace podlane::cni
