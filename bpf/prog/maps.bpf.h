/* The pinned maps, as every program declares them; the loader makes them once and gives each program the same ones.
 * Who writes and who reads stands in bpf/abi/lane_abi.h. */
#ifndef PODLANE_BPF_PROG_MAPS_BPF_H
#define PODLANE_BPF_PROG_MAPS_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/abi/lane_abi.h"

/* Frozen for ever, see lane_abi.h: a bigger node needs a second map, never another shape of this one. */
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, LANE_SLOTS);
  __type(key, __u32);
  __type(value, __u32);
} xsks SEC(".maps");

/* Made with all its memory at once: a lookup then never meets an element that is being freed to the allocator. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, LANE_ADDRESSES);
  __type(key, struct lane_key);
  __type(value, struct lane_entry);
} lane_by_addr SEC(".maps");

/* One line of counters per slot and CPU: no atomic operation on the packet's way. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, LANE_SLOTS);
  __type(key, __u32);
  __type(value, struct lane_counters);
} lane_counters SEC(".maps");

/* Few NICs, any ifindex: a hash. The loader adds an entry when it attaches, programs never do. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(max_entries, LANE_NICS);
  __type(key, __u32);
  __type(value, struct nic_counters);
} nic_counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, LANE_NICS);
  __type(key, __u32);
  __type(value, struct nic_mac);
} nic_macs SEC(".maps");

/* As many as there can be lanes: each veth lane has one host end. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, LANE_SLOTS);
  __type(key, __u32);
  __type(value, struct veth_entry);
} veth_slots SEC(".maps");

#endif
