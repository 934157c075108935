#!/bin/bash
# tests/system/containerd/containerd_test.sh, or those of its cases that are named in CASES, on this guest. The scratch node
# that it runs in is made here, because images are made outside of it, where a compiler is. Its NICs are veths.
set -euo pipefail
export PODLANE_NODE_INSIDE=yes PODLANE_CGROUP=podlane-vm PODLANE_WORK=/tmp/node PODLANE_PATIENCE=120
mkdir -p "$PODLANE_WORK"
[[ -e /sys/fs/cgroup/cgroup.controllers ]] || { echo "no cgroup v2"; exit 1; }
export PODLANE_CASES="relay_on_a_queue_lane_carries_packets direct_on_a_veth_lane_carries_packets nothing_is_left_behind"
exec unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc \
  "$PODLANE_SOURCE/tests/system/containerd/containerd_test.sh"
