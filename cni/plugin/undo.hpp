// Undoing an attachment from its records: what DEL, GC and a failed ADD have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/plugin/call.hpp"
#include "lib/journal/ipam.hpp"

namespace podlane::cni {

// What is known of an attachment. Both records may be missing, and the rest may still exist.
struct Remains {
  journal::AttachmentKey key;
  std::optional<journal::AttachmentRecord> attachment;
  std::optional<journal::AddressRecord> addresses;
  std::string netns_path;          // Empty: not known.
  bool ask_daemon = false;         // The device plugin may hold something for it.
  bool search_unrecorded = false;  // Look for our TUNs in the namespace even without a record.
};

// Reads both records; one that does not parse counts as missing and is named in `problems`.
Remains read_remains(const journal::Journal& journal, const journal::AttachmentKey& key, std::vector<Error>& problems);

// IPAM first, then the device plugin, the pod's kernel objects, the records. Goes on past every failure: each is
// returned, and what could not be done is left written down for the device plugin's reconcile. lock_fd: -1 for none.
std::vector<Error> undo(const Call& call, const Remains& remains, const Deadline& deadline, int lock_fd);

}  // namespace podlane::cni
