// Two namespaces and a veth pair between them; the near end carries a small XDP program of the test's own. Test code.
#pragma once

#include <net/if.h>

#include "tests/testlib/testlib.hpp"

namespace podlane::test {

// bpf_redirect_map(map, ctx->rx_queue_index or key, fallback). Loaded and attached natively to a device of the calling
// thread's namespace; the link is in the result. Throws.
UniqueFd load_redirect(int xskmap, std::uint32_t key, std::uint32_t fallback);
UniqueFd attach(int program, int ifindex);
UniqueFd make_xskmap(std::uint32_t entries);

struct PromiseWire {
  PromiseWire();
  ScratchNetns near{"plpn"}, far{"plpf"};
  int near_ifindex = 0;
  void send_from_far(const std::string& text) const;  // A broadcast UDP datagram: needs no ARP.
};

}  // namespace podlane::test
