/* On the node's end of a test veth that has no program of podlane's: frames that the far end sends by XDP_TX are delivered
 * only to an end that has a program itself (drivers/net/veth.c, veth_xdp_flush; GRO alone leaves them in the ring). */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx) {
  (void)ctx;
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
