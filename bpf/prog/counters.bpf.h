/* Counting. Per-CPU maps: a plain addition is enough, and none is lost, as programs do not migrate while they run. */
#ifndef PODLANE_BPF_PROG_COUNTERS_BPF_H
#define PODLANE_BPF_PROG_COUNTERS_BPF_H

#include "bpf/prog/maps.bpf.h"

/* `which` must be a constant at each call: an offset that depends on a verdict is pointer arithmetic, which the verifier
 * refuses without CAP_PERFMON. The barrier keeps the compiler from merging two calls into that. */
static __always_inline void count_lane(__u32 slot, enum lane_counter which) {
  struct lane_counters *counters = bpf_map_lookup_elem(&lane_counters, &slot);

  if (!counters) return;
  counters->value[which]++;
  asm volatile("" ::: "memory");
}

static __always_inline void count_nic(__u32 ifindex, int malformed) {
  struct nic_counters *counters = bpf_map_lookup_elem(&nic_counters, &ifindex);

  if (!counters) return;
  if (malformed)
    counters->malformed++;
  else
    counters->passed++;
}

/* After bpf_redirect_map(&xsks, slot, XDP_DROP): the fallback verdict means that the slot is empty. */
static __always_inline void count_to_socket(__u32 slot, int verdict) {
  if (verdict == XDP_REDIRECT)
    count_lane(slot, LANE_RX_FRAMES);
  else
    count_lane(slot, LANE_RX_NO_SOCKET);
}

#endif
