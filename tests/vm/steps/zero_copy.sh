#!/bin/bash
# A queue lane on nic0 with zeroCopy "require": both paths, and what the sockets themselves say is in force. The last line is
# one object. The socket is bound once for receiving and sending; "zc" of the kernel's own listing is its UMEM's.
#
# virtio_net drops what an XDP program sends back from a zero-copy buffer: the copy it makes has no headroom for the device's
# header. So lane_steer's answers to ARP are lost (counted here as "drops"), and the far side is told the lane's MAC. With
# "prefer" the lane copies instead, and ARP is answered.
source /vm/steps/node.sh
vm_node ', "zeroCopy": "require"'
vm_answer 10.9.0.1

demo_pod by-relay relay queue interrupt
eventually "$PODLANE_PATIENCE" demo_lane_serving by-relay || die "nobody serves the lane: $(tail -n 3 "$PODLANE_WORK/by-relay.log")"
in_force=$(demo_lane by-relay .inForce)
listed=$(ss -He --xdp | tr '\n' ' ')
say "$listed" >&2
inside far ping -c 3 -i 0.3 -W 1 "$(demo_lane_address by-relay)" >&2 || true
drops=$(ethtool -S nic0 | awk '$1 == "tx_xdp_tx_drops:" { print $2 }')
vm_static_neighbor by-relay nic0
relay=$(vm_traffic by-relay relay queue 10.9.0.1)
frames=$(ethtool -S nic0 | awk '$1 == "rx_xdp_redirects:" { print $2 }')
demo_pod_remove by-relay

demo_pod by-direct direct queue interrupt
vm_static_neighbor by-direct nic0
direct=$(vm_traffic by-direct direct queue 10.9.0.1)
demo_pod_remove by-direct
daemon_stop
daemon_write_config "$PODLANE_WORK/podlane.json" ', "zeroCopy": "prefer"'
daemon_start
ip -n far neigh flush dev wire-nic0 nud permanent
demo_pod by-copy relay queue interrupt
eventually "$PODLANE_PATIENCE" demo_lane_serving by-copy || die "nobody serves the lane: $(tail -n 3 "$PODLANE_WORK/by-copy.log")"
copied=$(demo_lane by-copy .inForce)
prefer=$(vm_traffic by-copy relay queue 10.9.0.1)
demo_pod_remove by-copy
jq -nc --argjson copied "$copied" --argjson prefer "$prefer" --argjson force "$in_force" --arg listed "$listed" --argjson relay "$relay" --argjson direct "$direct" \
  --argjson frames "${frames:-0}" --argjson drops "${drops:-0}" '{inForce: $force, listed: ($listed | test("zc:1")), redirected: $frames, drops: $drops, relay: $relay,
    direct: $direct, prefer: ({inForce: $copied} + $prefer)}'
