#!/bin/bash
# A queue lane on nic0 with zeroCopy "require": both paths, and what the sockets themselves say is in force. The last line is
# one object. The socket is bound once for receiving and sending; "zc" of the kernel's own listing is its UMEM's.
source /vm/steps/node.sh
vm_node ', "zeroCopy": "require"'
vm_answer 10.9.0.1

demo_pod by-relay relay queue interrupt
eventually 20 demo_lane_serving by-relay || die "nobody serves the lane: $(tail -n 3 "$PODLANE_WORK/by-relay.log")"
in_force=$(demo_lane by-relay .inForce)
listed=$(ss -He --xdp | tr '\n' ' ')
say "$listed" >&2
relay=$(vm_traffic by-relay relay queue 10.9.0.1)
frames=$(ethtool -S nic0 | awk '$1 == "rx_queue_0_xdp_redirects:" { print $2 }')
demo_pod_remove by-relay

demo_pod by-direct direct queue interrupt
direct=$(vm_traffic by-direct direct queue 10.9.0.1)
demo_pod_remove by-direct
jq -nc --argjson force "$in_force" --arg listed "$listed" --argjson relay "$relay" --argjson direct "$direct" \
  --argjson frames "${frames:-0}" '{inForce: $force, listed: ($listed | test("zc:1")), redirected: $frames, relay: $relay, direct: $direct}'
