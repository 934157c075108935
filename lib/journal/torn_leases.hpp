// host-local does not sync its leases (containernetworking-plugins 1.1 to 1.9): after a power cut a lease may be an
// empty file, which says no owner, so that no DEL finds it and its address is never given again.
#pragma once

#include <ctime>

#include "lib/journal/attachment_record.hpp"

namespace podlane::journal {

// Removes the empty leases of the call's network that were last written before `boot` (seconds of the epoch). Nothing
// for plugins other than host-local. Nothing, too, while host-local's
// lock of the network stays taken for a second. How many were removed.
std::size_t remove_torn_leases(const IpamCall& call, std::time_t boot);

// When this kernel started, by /proc/stat; 0 when it does not say.
std::time_t boot_time();

}  // namespace podlane::journal
