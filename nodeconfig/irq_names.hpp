// What an interrupt's action name says: drivers have no common form. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace podlane::nodeconfig {

struct IrqName {
  std::string role;  // "rx", "tx", "queue" (both, or the driver does not say); "" for an interrupt of no queue.
  unsigned first = 0, last = 0;  // Queues; a driver may put several on one interrupt ("ice-ens2f1-TxRx-0-1").

  // What the interrupt is, whatever its number and its interface are called now: "rx-3", "queue-0-1", "misc".
  std::string identity;
};

// ifname: the interface of the interrupt's device, empty when it has none.
IrqName parse_irq_name(std::string_view action, std::string_view ifname);

}  // namespace podlane::nodeconfig
