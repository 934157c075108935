/* The far side of the benchmarks: sends UDP datagrams for port 7 straight back out of the device that they came in on,
 * without waking anybody. All else (ARP, ICMP, TCP) goes to the kernel. Port 9 is counted by the device and dropped. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PORT_ECHO 7
#define PORT_DISCARD 9

SEC("xdp")
int reflect(struct xdp_md *ctx) {
  void *end = (void *)(long)ctx->data_end;
  struct ethhdr *eth = (void *)(long)ctx->data;
  struct iphdr *ip = (void *)(eth + 1);
  struct udphdr *udp = (void *)(ip + 1);

  if ((void *)(udp + 1) > end) return XDP_PASS;
  if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 || ip->protocol != IPPROTO_UDP) return XDP_PASS;
  if (udp->dest == bpf_htons(PORT_DISCARD)) return XDP_DROP;
  if (udp->dest != bpf_htons(PORT_ECHO)) return XDP_PASS;

  __u8 mac[ETH_ALEN];
  __builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
  __builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
  __builtin_memcpy(eth->h_source, mac, ETH_ALEN);
  __be32 address = ip->daddr;
  ip->daddr = ip->saddr;
  ip->saddr = address;
  __be16 port = udp->dest;
  udp->dest = udp->source;
  udp->source = port;
  /* A sender on a veth leaves the checksum for hardware that is not there; 0 means "none" in IPv4 (RFC 768). */
  udp->check = 0;
  return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
