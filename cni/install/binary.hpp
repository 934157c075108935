// The CNI binary on the node. Blocking; any thread.
#pragma once

#include <string>

#include "lib/base/result.hpp"

namespace podlane::cni {

enum class BinaryState { kCurrent, kInstalled };

// Puts `source` into `directory` under its own name, unless the same bytes are there. By rename of a neighbour, so that
// a runtime that starts it at this moment gets the old or the new program and never a part (ETXTBSY, power cuts).
Result<BinaryState> install_binary(const std::string& source, const std::string& directory);

// How many pods libcni has cached as made with us: <cache_dir>/results. CRI-O runs the cached list at DEL, so that a
// pod of these cannot be deleted without the binary.
Result<int> cached_pods(const std::string& cache_dir);

}  // namespace podlane::cni
