/* veth_host: tc ingress on the host's end of a veth lane, that is: what the pod sends. Checks that the source is an
 * address of this very lane, sets the NIC's MAC as source, and sends the frame out of the NIC, or straight into another
 * veth lane of the same NIC (a switch does not send a frame back where it came from).
 *
 * Anything that is not IPv4, IPv6 or ARP under the lane's own addresses is dropped and counted: VLAN tags, link-local
 * chatter of the pod's kernel, other protocols. */
#include <linux/pkt_cls.h>

#include "bpf/prog/counters.bpf.h"
#include "bpf/prog/maps.bpf.h"
#include "bpf/prog/parse.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Enough for every header that is looked at: Ethernet, IPv6, four short extension headers, a neighbour message. */
#define HEADER_BYTES 128
#define EXTENSION_HEADERS_MAX 4

static __always_inline int drop(const struct veth_entry *veth, enum lane_counter why) {
  count_lane(veth->slot, why);
  return TC_ACT_SHOT;
}

static __always_inline int owns(const struct veth_entry *veth, const struct lane_key *key) {
  const struct lane_entry *lane = bpf_map_lookup_elem(&lane_by_addr, key);

  return lane && lane->slot == veth->slot;
}

static __always_inline int send_on(struct ethhdr *eth, const struct veth_entry *veth, const struct lane_key *to) {
  const struct lane_entry *lane = to ? bpf_map_lookup_elem(&lane_by_addr, to) : 0;

  if (lane && lane->kind != LANE_KIND_VETH) return drop(veth, LANE_TX_SAME_NODE_QUEUE);
  __builtin_memcpy(eth->h_source, veth->nic_mac, 6);
  count_lane(veth->slot, LANE_TX_FRAMES);
  if (!lane) return bpf_redirect(veth->nic_ifindex, 0);
  /* On the wire the other lane answers with the NIC's MAC; it sees that one here too. */
  __builtin_memcpy(eth->h_dest, veth->nic_mac, 6);
  return bpf_redirect(lane->veth_ifindex, 0);
}

static __always_inline int check_arp(struct ethhdr *eth, struct cursor *cursor, const struct veth_entry *veth) {
  const struct arp_ipv4 *arp;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, arp) || !arp_is_ipv4(arp) || !same_mac(arp->sender_mac, veth->nic_mac)) return drop(veth, LANE_TX_BAD_SOURCE);
  key_of_ipv4(&key, veth->nic_ifindex, load_be32(arp->sender_ip));
  return owns(veth, &key) ? send_on(eth, veth, 0) : drop(veth, LANE_TX_BAD_SOURCE);
}

static __always_inline int check_ipv4(struct ethhdr *eth, struct cursor *cursor, const struct veth_entry *veth) {
  const struct iphdr *ip;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, ip) || ip->version != 4 || ip->ihl < 5) return drop(veth, LANE_TX_BAD_SOURCE);
  key_of_ipv4(&key, veth->nic_ifindex, ip->saddr);
  if (!owns(veth, &key)) return drop(veth, LANE_TX_BAD_SOURCE);
  key_of_ipv4(&key, veth->nic_ifindex, ip->daddr);
  return send_on(eth, veth, &key);
}

/* A neighbour advertisement speaks for its target, whatever its source: that must be the lane's own too, also behind
 * extension headers. Not behind a fragment header: nobody takes such a message from fragments (RFC 6980). */
static __always_inline int speaks_for_others(const struct cursor *start, __u8 next, const struct veth_entry *veth) {
  struct cursor cursor = *start;
  const struct nd_message *nd;
  struct lane_key key;

#pragma unroll
  for (int i = 0; i <= EXTENSION_HEADERS_MAX; i++) {
    const struct ipv6_opt_hdr *extension;

    if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS) break;
    if (i == EXTENSION_HEADERS_MAX) return 1;
    extension = cursor.at;
    if ((void *)(extension + 1) > cursor.end) return 1;
    next = extension->nexthdr;
    cursor.at += 8 + 8 * (__u32)extension->hdrlen;
  }
  if (next != IPPROTO_ICMPV6) return 0;
  nd = cursor.at;
  if ((void *)&nd->code > cursor.end) return 1;
  if (nd->type != ND_ADVERT) return 0;
  if ((void *)(nd + 1) > cursor.end) return 1;
  key_of_ipv6(&key, veth->nic_ifindex, nd->target_be);
  return !owns(veth, &key);
}

static __always_inline int check_ipv6(struct ethhdr *eth, struct cursor *cursor, const struct veth_entry *veth) {
  const struct ipv6hdr *ip;
  struct lane_key key;

  if (!CURSOR_TAKE(cursor, ip) || ip->version != 6) return drop(veth, LANE_TX_BAD_SOURCE);
  key_of_ipv6(&key, veth->nic_ifindex, ip->saddr.in6_u.u6_addr32);
  if (!owns(veth, &key) || speaks_for_others(cursor, ip->nexthdr, veth)) return drop(veth, LANE_TX_BAD_SOURCE);
  key_of_ipv6(&key, veth->nic_ifindex, ip->daddr.in6_u.u6_addr32);
  return send_on(eth, veth, &key);
}

SEC("tc")
int veth_host(struct __sk_buff *skb) {
  __u32 ifindex = skb->ifindex;
  const struct veth_entry *veth = bpf_map_lookup_elem(&veth_slots, &ifindex);
  struct cursor cursor;
  struct ethhdr *eth;

  /* Attached before its entry is written, or after it is gone: the frame is nobody's. */
  if (!veth) return TC_ACT_SHOT;
  if (skb->vlan_present) return drop(veth, LANE_TX_BAD_SOURCE);
  /* Headers of a frame that the pod's kernel built may lie in pages. */
  if (skb->len <= HEADER_BYTES)
    bpf_skb_pull_data(skb, skb->len);
  else
    bpf_skb_pull_data(skb, HEADER_BYTES);
  cursor.at = (void *)(long)skb->data;
  cursor.end = (void *)(long)skb->data_end;
  if (!CURSOR_TAKE(&cursor, eth)) return drop(veth, LANE_TX_BAD_SOURCE);
  switch (eth->h_proto) {
    case bpf_htons(ETH_P_IP):
      return check_ipv4(eth, &cursor, veth);
    case bpf_htons(ETH_P_IPV6):
      return check_ipv6(eth, &cursor, veth);
    case bpf_htons(ETH_P_ARP):
      return check_arp(eth, &cursor, veth);
    default:
      return drop(veth, LANE_TX_BAD_SOURCE);
  }
}
