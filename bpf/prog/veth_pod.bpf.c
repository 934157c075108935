/* veth_pod: the program on the pod's end of a veth lane. Everything that comes in is the lane's: the host end lets only
 * its frames in. The pod's kernel never sees them, as that end has no address. */
#include "bpf/prog/counters.bpf.h"
#include "bpf/prog/maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load: XDP has no way to tell one veth from another across namespaces, as interface numbers repeat. */
const volatile __u32 slot;

SEC("xdp.frags")
int veth_pod(struct xdp_md *ctx __attribute__((unused))) {
  int verdict = bpf_redirect_map(&xsks, slot, XDP_DROP);

  count_to_socket(slot, verdict);
  return verdict;
}
