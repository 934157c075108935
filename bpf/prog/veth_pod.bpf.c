/* veth_pod: the program on the pod's end of a veth lane. Everything that comes in is the lane's: the host end lets only
 * its frames in. The pod's kernel never sees them, as that end has no address. */
#include "bpf/prog/counters.bpf.h"
#include "bpf/prog/maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp.frags")
int veth_pod(struct xdp_md *ctx) {
  /* Interface numbers repeat across namespaces; those of pod ends are made to hold the slot (lane_abi.h). */
  __u32 slot = ctx->ingress_ifindex & (LANE_SLOTS - 1);
  int verdict = bpf_redirect_map(&xsks, slot, XDP_DROP);

  count_to_socket(slot, verdict);
  return verdict;
}
