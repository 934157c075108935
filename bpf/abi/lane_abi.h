/* The bytes that BPF programs and C++ share. Included by both; fixed-size fields only, network byte order where the
 * name ends in _be. Sizes and offsets are asserted here; tests/arch compares them with the programs' BTF.
 *
 * Pinned under <bpffs>/podlane/ (default /sys/fs/bpf/podlane/):
 *   xsks          BPF_MAP_TYPE_XSKMAP, key u32 slot, LANE_SLOTS entries. Name, key and size are frozen for ever: its
 *                 entries cannot be read back, so no upgrade may re-make it.
 *   lane_by_addr  hash, struct lane_key -> struct lane_entry. Writer: device plugin. Readers: all programs.
 *   lane_counters per-CPU array by slot, struct lane_counters. Writers: programs.
 *   nic_counters  per-CPU hash by ifindex of the NIC, struct nic_counters. Writers: programs.
 *   nic_macs      hash, u32 ifindex of the NIC -> struct nic_mac. Writer: the loader. Reader: lane_steer, for its answers.
 *   veth_slots    hash, u32 ifindex of a veth lane's host end -> struct veth_entry. Writer: device plugin.
 *   nic-<ifindex> pinned BPF link of lane_steer on that NIC. */
#ifndef PODLANE_BPF_ABI_LANE_ABI_H
#define PODLANE_BPF_ABI_LANE_ABI_H

#include <linux/types.h>

#define LANE_SLOTS 4096     /* Lanes of a node; a slot belongs to one device id from Allocate to release. */
#define LANE_ADDRESSES 8192 /* Two addresses a lane: one of each family. */
#define LANE_NICS 256       /* NICs of a node that serve pools. */

/* The pod's end of a veth lane has an interface number whose low bits are the slot, above all that a kernel gives by
 * itself: XDP sees that number and nothing else that tells one veth from another. The host's end has one of the kind too:
 * veth_newlink heeds the peer's only beside one. The bits between (12 to 28) are random, so that no number comes back soon. */
#define LANE_IFINDEX_POD 0x40000000
#define LANE_IFINDEX_HOST 0x20000000

enum lane_kind {
  LANE_KIND_QUEUE = 1,
  LANE_KIND_VETH = 2,
};

/* addr: 16 bytes; IPv4 as ::ffff:a.b.c.d. ifindex: the NIC, in the host's namespace. */
struct lane_key {
  __u32 ifindex;
  __u8 addr[16];
};

struct lane_entry {
  __u32 slot;
  __u32 kind;         /* enum lane_kind */
  __u32 rx_queue;     /* Queue lanes: the only queue whose frames may be redirected. */
  __u32 veth_ifindex; /* Veth lanes: the host end. */
};

struct veth_entry {
  __u32 slot;
  __u32 nic_ifindex;
  __u8 nic_mac[6];
  __u8 pad[2];
};

struct nic_mac {
  __u8 mac[6];
  __u8 answer_by_redirect; /* 1: XDP_TX does not leave this device, a redirect to itself does. See steering.cpp. */
  __u8 pad;
};

enum lane_counter {
  LANE_RX_FRAMES = 0,      /* Redirected to the lane's socket. */
  LANE_RX_NO_SOCKET = 1,   /* Dropped: nobody serves the lane. */
  LANE_RX_WRONG_QUEUE = 2, /* Dropped: came in on another queue than the lane's. */
  LANE_RX_TO_VETH = 3,     /* Redirected from the NIC to the lane's veth. */
  LANE_ARP_ANSWERED = 4,
  LANE_NS_ANSWERED = 5,
  LANE_TX_FRAMES = 6,          /* Veth lanes: passed the source check, sent to the NIC or to a neighbour lane. */
  LANE_TX_BAD_SOURCE = 7,      /* Veth lanes: dropped, the source is not an address of the lane. */
  LANE_TX_SAME_NODE_QUEUE = 8, /* Veth lanes: dropped, the destination is a queue lane of this node. */
  LANE_COUNTER_COUNT = 9,
};

struct lane_counters {
  __u64 value[LANE_COUNTER_COUNT];
};

struct nic_counters {
  __u64 passed;    /* Not a lane's: left to the host. */
  __u64 malformed; /* Too short for what the headers promise: left to the host. */
};

#ifdef __cplusplus
#define LANE_ABI_ASSERT static_assert
#else
#define LANE_ABI_ASSERT _Static_assert
#endif
LANE_ABI_ASSERT(sizeof(struct lane_key) == 20, "lane_key");
LANE_ABI_ASSERT(sizeof(struct lane_entry) == 16, "lane_entry");
LANE_ABI_ASSERT(sizeof(struct veth_entry) == 16, "veth_entry");
LANE_ABI_ASSERT(sizeof(struct nic_mac) == 8, "nic_mac");
LANE_ABI_ASSERT(sizeof(struct lane_counters) == 8 * LANE_COUNTER_COUNT, "lane_counters");
LANE_ABI_ASSERT(sizeof(struct nic_counters) == 16, "nic_counters");

#endif
