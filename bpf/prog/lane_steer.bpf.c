/* lane_steer: the NIC's program. Sends each frame for a lane's address to that lane and leaves everything else alone.
 *
 * How it works. The destination address is looked up in lane_by_addr, never the queue: a frame that a NIC steered to
 * the wrong queue must not reach another pod. A frame for a lane that cannot take it is dropped and counted, because the
 * host would forward it. ARP requests and neighbour solicitations for lane addresses are answered here, so that they
 * work with nobody serving the lane. ARP replies and neighbour advertisements go up even when a lane's address is their
 * target: the host's neighbour table is where next hops come from.
 *
 * Left out: VLAN-tagged frames (no lane is on a VLAN; a NIC that strips tags before XDP hides them, docs/counters.md),
 * multicast. A frame shorter than its headers promise is passed and counted as malformed. */
#include "bpf/prog/answer.bpf.h"
#include "bpf/prog/counters.bpf.h"
#include "bpf/prog/maps.bpf.h"
#include "bpf/prog/parse.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ND_QUESTION_BYTES_MAX 1518

static __always_inline int pass(const struct xdp_md *ctx) {
  count_nic(ctx->ingress_ifindex, 0);
  return XDP_PASS;
}

static __always_inline int pass_malformed(const struct xdp_md *ctx) {
  count_nic(ctx->ingress_ifindex, 1);
  return XDP_PASS;
}

static __always_inline int to_lane(struct xdp_md *ctx, const struct lane_entry *lane) {
  __u32 slot = lane->slot;
  int verdict;

  if (lane->kind == LANE_KIND_VETH) {
    count_lane(slot, LANE_RX_TO_VETH);
    return bpf_redirect(lane->veth_ifindex, 0);
  }
  /* The kernel loses a frame that is redirected to the socket of another queue (net/xdp/xsk.c, xsk_rcv_check), and
   * nothing would count it. */
  if (ctx->rx_queue_index != lane->rx_queue) {
    count_lane(slot, LANE_RX_WRONG_QUEUE);
    return XDP_DROP;
  }
  verdict = bpf_redirect_map(&xsks, slot, XDP_DROP);
  count_to_socket(slot, verdict);
  return verdict;
}

static __always_inline int answer(const struct xdp_md *ctx, const struct nic_mac *nic) {
  return nic->answer_by_redirect ? bpf_redirect(ctx->ingress_ifindex, 0) : XDP_TX;
}

static __always_inline int steer_arp(struct xdp_md *ctx, struct ethhdr *eth, struct cursor *cursor) {
  struct arp_ipv4 *arp;
  __u32 ifindex = ctx->ingress_ifindex;
  const struct lane_entry *lane;
  const struct nic_mac *nic;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, arp)) return pass_malformed(ctx);
  if (!arp_is_ipv4(arp) || arp->operation_be != bpf_htons(ARP_REQUEST)) return pass(ctx);
  /* An announcement asks for its own sender. It is no question, be it ours come back or somebody else's claim. */
  if (load_be32(arp->sender_ip) == load_be32(arp->target_ip) || is_group_mac(arp->sender_mac)) return pass(ctx);
  key_of_ipv4(&key, ifindex, load_be32(arp->target_ip));
  lane = bpf_map_lookup_elem(&lane_by_addr, &key);
  nic = bpf_map_lookup_elem(&nic_macs, &ifindex);
  if (!lane || !nic || same_mac(arp->sender_mac, nic->mac)) return pass(ctx);
  arp_answer(eth, arp, nic->mac);
  count_lane(lane->slot, LANE_ARP_ANSWERED);
  return answer(ctx, nic);
}

/* Checks of RFC 4861, 7.1.1, but for the checksum: Ethernet has guarded the bytes, and an answer to a damaged question
 * names nothing but our own address. */
static __always_inline int steer_solicitation(struct xdp_md *ctx, const struct ethhdr *eth, const struct ipv6hdr *ip,
                                              const struct nd_message *nd) {
  __u32 ifindex = ctx->ingress_ifindex;
  int duplicate_check = is_unspecified(ip->saddr.in6_u.u6_addr32);
  const struct lane_entry *lane;
  const struct nic_mac *nic;
  struct lane_key key;
  __u64 length = bpf_xdp_get_buff_len(ctx);
  void *start = (void *)(long)ctx->data;
  __u32 slot;

  if (ip->hop_limit != 255 || nd->code != 0 || bpf_ntohs(ip->payload_len) < sizeof(*nd)) return pass(ctx);
  if (is_group_mac(eth->h_source)) return pass(ctx);
  /* Only a multicast question may come from ::, else the answer to all nodes could be provoked at will. */
  if (duplicate_check && ip->daddr.in6_u.u6_addr8[0] != 0xff) return pass(ctx);
  key_of_ipv6(&key, ifindex, nd->target_be);
  lane = bpf_map_lookup_elem(&lane_by_addr, &key);
  nic = bpf_map_lookup_elem(&nic_macs, &ifindex);
  if (!lane || !nic || same_mac(eth->h_source, nic->mac)) return pass(ctx);
  slot = lane->slot;
  /* Cutting or growing the tail of a frame in fragments is not worth a line: no solicitation is that long. */
  if (length > ND_QUESTION_BYTES_MAX || start + length > (void *)(long)ctx->data_end) return pass(ctx);
  if (bpf_xdp_adjust_tail(ctx, (int)ND_FRAME_BYTES - (int)length)) return pass(ctx);
  start = (void *)(long)ctx->data;
  if (start + ND_FRAME_BYTES > (void *)(long)ctx->data_end) return XDP_DROP; /* Cannot be: it is that long now. */
  nd_answer(start, nic->mac, duplicate_check);
  count_lane(slot, LANE_NS_ANSWERED);
  return answer(ctx, nic);
}

static __always_inline int steer_ipv6(struct xdp_md *ctx, const struct ethhdr *eth, struct cursor *cursor) {
  const struct ipv6hdr *ip;
  const struct lane_entry *lane;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, ip)) return pass_malformed(ctx);
  if (ip->nexthdr == IPPROTO_ICMPV6) {
    const __u8 *type = cursor->at;

    if ((void *)(type + 1) > cursor->end) return pass_malformed(ctx);
    if (*type == ND_SOLICIT) {
      const struct nd_message *nd;

      return CURSOR_TAKE(cursor, nd) ? steer_solicitation(ctx, eth, ip, nd) : pass_malformed(ctx);
    }
    if (*type == ND_ADVERT) return pass(ctx);
  }
  key_of_ipv6(&key, ctx->ingress_ifindex, ip->daddr.in6_u.u6_addr32);
  lane = bpf_map_lookup_elem(&lane_by_addr, &key);
  return lane ? to_lane(ctx, lane) : pass(ctx);
}

static __always_inline int steer_ipv4(struct xdp_md *ctx, struct cursor *cursor) {
  const struct iphdr *ip;
  const struct lane_entry *lane;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, ip)) return pass_malformed(ctx);
  /* The destination stands at the same place in every fragment and behind no option: nothing more is read. */
  key_of_ipv4(&key, ctx->ingress_ifindex, ip->daddr);
  lane = bpf_map_lookup_elem(&lane_by_addr, &key);
  return lane ? to_lane(ctx, lane) : pass(ctx);
}

SEC("xdp.frags")
int lane_steer(struct xdp_md *ctx) {
  struct cursor cursor = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
  struct ethhdr *eth;

  if (!CURSOR_TAKE(&cursor, eth)) return pass_malformed(ctx);
  switch (eth->h_proto) {
    case bpf_htons(ETH_P_IP):
      return steer_ipv4(ctx, &cursor);
    case bpf_htons(ETH_P_IPV6):
      return steer_ipv6(ctx, eth, &cursor);
    case bpf_htons(ETH_P_ARP):
      return steer_arp(ctx, eth, &cursor);
    default:
      return pass(ctx);
  }
}
