// A CNI configuration list as text, with our entry put in or taken out. Everything else keeps its bytes: order, blanks,
// unknown keys, how numbers are written. No I/O; any thread.
//
// How it works. The entry goes right behind the last plugin as ",{…}", so that taking the same bytes out gives the file
// back as it was. The list's cniVersion is never touched: containerd 1.7 loads a list of 1.1.0 and then fails every
// ADD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace podlane::cni {

inline constexpr std::string_view kOurType = "podlane";

struct PluginText {
  std::string type;
  std::size_t begin = 0, end = 0;  // The bytes of its object.
};

struct ListText {
  std::string name;           // Of the network.
  bool only_inlined = false;  // loadOnlyInlinedPlugins: the drop-in directory is not read.
  std::vector<PluginText> plugins;
};

// kInvalid says where and what: such a file stops every pod of a containerd node.
Result<ListText> read_list(std::string_view text);

// The one entry of ours is `entry`, word for word.
bool holds_entry(std::string_view text, const ListText& list, std::string_view entry);

// Our entry last, or in the place that it has; others of ours go.
Result<std::string> with_entry(std::string_view text, std::string_view entry);

// The same text when there is none. kInvalid when nothing would be left of the list.
Result<std::string> without_entry(std::string_view text);

// Our plugin object from the keys the operator gives it (docs/cni.md): type and capability are added.
Result<std::string> make_entry(std::string_view keys);

}  // namespace podlane::cni
