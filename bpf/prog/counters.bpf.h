/* Counting. Per-CPU maps: a plain addition is enough, and none is lost, as programs do not migrate while they run. */
#ifndef PODLANE_BPF_PROG_COUNTERS_BPF_H
#define PODLANE_BPF_PROG_COUNTERS_BPF_H

#include "bpf/prog/maps.bpf.h"

static __always_inline void count_lane(__u32 slot, enum lane_counter which) {
  struct lane_counters *counters = bpf_map_lookup_elem(&lane_counters, &slot);

  if (counters) counters->value[which]++;
}

static __always_inline void count_nic(__u32 ifindex, int malformed) {
  struct nic_counters *counters = bpf_map_lookup_elem(&nic_counters, &ifindex);

  if (!counters) return;
  if (malformed)
    counters->malformed++;
  else
    counters->passed++;
}

#endif
