/* Headers and the cursor over a packet. Each step compares with the end right before it reads; nothing is read twice
 * from a stale pointer. */
#ifndef PODLANE_BPF_PROG_PARSE_BPF_H
#define PODLANE_BPF_PROG_PARSE_BPF_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf/abi/lane_abi.h"

struct cursor {
  void *at;
  void *end;
};

/* Points `header` at the next bytes and goes past them; false, and nothing moved, when the packet ends before. The bounds
 * are the only thing compared: without CAP_PERFMON the verifier lets nobody compare a packet pointer with NULL. */
#define CURSOR_TAKE(cursor, header)                                 \
  ({                                                                \
    int whole_;                                                     \
    (header) = (cursor)->at;                                        \
    whole_ = (void *)((header) + 1) <= (cursor)->end;               \
    if (whole_) (cursor)->at = (void *)((header) + 1);              \
    whole_;                                                         \
  })

/* RFC 826 for Ethernet and IPv4. */
struct arp_ipv4 {
  __be16 hardware_be;
  __be16 protocol_be;
  __u8 hardware_len;
  __u8 protocol_len;
  __be16 operation_be;
  __u8 sender_mac[6];
  __u8 sender_ip[4];
  __u8 target_mac[6];
  __u8 target_ip[4];
};

#define ARP_REQUEST 1
#define ARP_REPLY 2

/* RFC 4861, 4.3 and 4.4: neighbour solicitation and advertisement without options. */
struct nd_message {
  __u8 type;
  __u8 code;
  __be16 checksum_be;
  __be32 flags_be;
  __be32 target_be[4];
};

#define ND_SOLICIT 135
#define ND_ADVERT 136
#define ND_FLAG_SOLICITED 0x40000000U
#define ND_FLAG_OVERRIDE 0x20000000U

static __always_inline int arp_is_ipv4(const struct arp_ipv4 *arp) {
  return arp->hardware_be == bpf_htons(1) && arp->protocol_be == bpf_htons(ETH_P_IP) && arp->hardware_len == 6 &&
         arp->protocol_len == 4;
}

/* Whole words: the hot path fills a key with four stores. lane_key has no padding that could hold garbage. */
static __always_inline void key_of_ipv4(struct lane_key *key, __u32 ifindex, __be32 address_be) {
  __u32 *words = (__u32 *)key->addr;

  key->ifindex = ifindex;
  words[0] = 0;
  words[1] = 0;
  words[2] = bpf_htonl(0xffff);
  words[3] = address_be;
}

static __always_inline void key_of_ipv6(struct lane_key *key, __u32 ifindex, const __be32 *address_be) {
  __u32 *words = (__u32 *)key->addr;

  key->ifindex = ifindex;
  words[0] = address_be[0];
  words[1] = address_be[1];
  words[2] = address_be[2];
  words[3] = address_be[3];
}

static __always_inline __be32 load_be32(const __u8 *bytes) {
  __be32 word;

  __builtin_memcpy(&word, bytes, sizeof(word));
  return word;
}

static __always_inline int is_unspecified(const __be32 *address_be) {
  return (address_be[0] | address_be[1] | address_be[2] | address_be[3]) == 0;
}

/* In halves of words: every address here stands at an even offset, and memcmp would stay a call. */
static __always_inline int same_mac(const void *one, const void *other) {
  const __u16 *a = one, *b = other;

  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2])) == 0;
}

static __always_inline int is_group_mac(const __u8 *mac) { return mac[0] & 1; }

#endif
