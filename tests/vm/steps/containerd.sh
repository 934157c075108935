#!/bin/bash
# tests/system/containerd/containerd_test.sh, or those of its cases that are named in CASES, on this guest: the scratch node
# that it runs in elsewhere is the guest itself. Its NICs are veths.
set -euo pipefail
export PODLANE_NODE_INSIDE=yes PODLANE_CGROUP=podlane-vm PODLANE_WORK=/tmp/node
mkdir -p "$PODLANE_WORK"
[[ -e /sys/fs/cgroup/cgroup.controllers ]] || { echo "no cgroup v2"; exit 1; }
export PODLANE_CASES="relay_on_a_queue_lane_carries_packets direct_on_a_veth_lane_carries_packets nothing_is_left_behind"
exec "$PODLANE_SOURCE/tests/system/containerd/containerd_test.sh"
