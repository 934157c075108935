/* Answers to ARP requests and neighbour solicitations for lane addresses, written over the question and sent back with
 * XDP_TX. The caller has checked that the question is whole and asks for a lane's address. */
#ifndef PODLANE_BPF_PROG_ANSWER_BPF_H
#define PODLANE_BPF_PROG_ANSWER_BPF_H

#include "bpf/prog/parse.bpf.h"

struct nd_option_mac { /* RFC 4861, 4.6.1 */
  __u8 type;
  __u8 len; /* In units of 8 bytes. */
  __u8 mac[6];
};

#define ND_OPTION_TARGET_MAC 2
#define ND_ADVERT_BYTES (sizeof(struct nd_message) + sizeof(struct nd_option_mac))
#define ND_FRAME_BYTES (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + ND_ADVERT_BYTES)

static __always_inline void arp_answer(struct ethhdr *eth, struct arp_ipv4 *arp, const __u8 *nic_mac) {
  __u8 asked[4];

  __builtin_memcpy(eth->h_dest, arp->sender_mac, 6);
  __builtin_memcpy(eth->h_source, nic_mac, 6);
  __builtin_memcpy(asked, arp->target_ip, 4);
  __builtin_memcpy(arp->target_mac, arp->sender_mac, 6);
  __builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
  __builtin_memcpy(arp->sender_mac, nic_mac, 6);
  __builtin_memcpy(arp->sender_ip, asked, 4);
  arp->operation_be = bpf_htons(ARP_REPLY);
}

/* Over the pseudo header of RFC 8200, 8.1 and the message with its option. */
static __always_inline __sum16 nd_checksum(struct ipv6hdr *ip, struct nd_message *nd) {
  struct {
    __be32 length_be;
    __be32 next_be;
  } pseudo = {bpf_htonl(ND_ADVERT_BYTES), bpf_htonl(IPPROTO_ICMPV6)};
  __u64 sum = bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);

  sum = bpf_csum_diff(0, 0, ip->saddr.in6_u.u6_addr32, 32, sum); /* The destination follows the source. */
  sum = bpf_csum_diff(0, 0, (__be32 *)nd, ND_ADVERT_BYTES, sum);
  sum = (sum & 0xffff) + ((sum & 0xffffffff) >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return (__sum16)~sum;
}

/* eth begins a packet of exactly ND_FRAME_BYTES. duplicate_check: the question came from ::, so the answer goes to all
 * nodes and says that nobody solicited it (RFC 4861, 7.2.4). */
static __always_inline void nd_answer(struct ethhdr *eth, const __u8 *nic_mac, int duplicate_check) {
  struct ipv6hdr *ip = (struct ipv6hdr *)(eth + 1);
  struct nd_message *nd = (struct nd_message *)(ip + 1);
  struct nd_option_mac *option = (struct nd_option_mac *)(nd + 1);
  const __u8 all_nodes_mac[6] = {0x33, 0x33, 0, 0, 0, 1};
  __be32 *to = ip->daddr.in6_u.u6_addr32;
  __be32 *from = ip->saddr.in6_u.u6_addr32;

  if (duplicate_check) {
    __builtin_memcpy(eth->h_dest, all_nodes_mac, 6);
    to[0] = bpf_htonl(0xff020000);
    to[1] = 0;
    to[2] = 0;
    to[3] = bpf_htonl(1);
  } else {
    __builtin_memcpy(eth->h_dest, eth->h_source, 6);
    __builtin_memcpy(to, from, 16);
  }
  __builtin_memcpy(eth->h_source, nic_mac, 6);
  __builtin_memcpy(from, nd->target_be, 16);
  ip->payload_len = bpf_htons(ND_ADVERT_BYTES);
  ip->hop_limit = 255;
  nd->type = ND_ADVERT;
  nd->code = 0;
  nd->checksum_be = 0;
  nd->flags_be = bpf_htonl(duplicate_check ? ND_FLAG_OVERRIDE : ND_FLAG_SOLICITED | ND_FLAG_OVERRIDE);
  option->type = ND_OPTION_TARGET_MAC;
  option->len = 1;
  __builtin_memcpy(option->mac, nic_mac, 6);
  nd->checksum_be = nd_checksum(ip, nd);
}

#endif
