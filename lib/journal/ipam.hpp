// Calls of IPAM plugins by exec, as CNI's delegation says (CNI 1.1, section 4): found along CNI_PATH, same environment
// but for what the call names, configuration on standard input. Runs in the caller's network namespace, which must be
// the host's. Blocking within the timeout; any thread.
#pragma once

#include <chrono>
#include <expected>
#include <optional>
#include <string>

#include "lib/base/result.hpp"
#include "lib/journal/attachment_record.hpp"

namespace podlane::journal {

struct IpamFailure {
  Error error;
  std::optional<int> cni_code;  // When the plugin itself refused with CNI's error object.
};

struct IpamOptions {
  std::chrono::milliseconds timeout{10000};
  int inherit_fd = -1;  // The attachment's lock: a child that outlives its parent keeps it until it ends.
};

// The plugin's standard output. command: ADD, DEL, CHECK, GC or STATUS.
std::expected<std::string, IpamFailure> call_ipam(const IpamCall& call, std::string_view command,
                                                  const IpamOptions& options);

// The path of the call's plugin, or kNotFound.
Result<std::string> find_ipam_plugin(const IpamCall& call);

// GC and STATUS came with CNI 1.1.0. Older plugins refuse them as incompatible version (1), for the container id that
// these verbs do not have (3), or as unknown command or environment (4).
bool does_not_know_verb(const IpamFailure& failure);

// DEL for each lease of the record. All are tried, within the timeout together; the first failure is returned. Of a record
// from another boot, what a power cut tore goes, too (torn_leases.hpp).
Result<void> release_addresses(const AddressRecord& record, const IpamOptions& options);

}  // namespace podlane::journal
