#!/bin/bash
# A kernel that cannot hand over finished sockets: the device plugin refuses a queue pool in words, and serves a veth pool.
export BURST_FRAMES=4096 BURST_RING=2048
source /vm/steps/node.sh
# Frames as by default: the pod locks this memory itself, and 8 MiB is the limit that Debian gives it.
vm_addresses nic0 10.9.0.2/24 10.9.0.1/24
vm_addresses nic1 10.10.0.2/16 10.10.0.1/16
daemon_write_config "$PODLANE_WORK/podlane.json" ', "zeroCopy": "require"'
status=0
words=$("$BIN/podlane-deviceplugin" --config "$PODLANE_WORK/podlane.json" 2>&1) || status=$?
say "$words" >&2
jq '.pools |= map(select(.lane == "veth"))' "$PODLANE_WORK/podlane.json" >"$PODLANE_WORK/veth.json"
mv "$PODLANE_WORK/veth.json" "$PODLANE_WORK/podlane.json"
cni_install
kubelet_start
defer kubelet_stop
daemon_start
defer daemon_stop
vm_answer 10.10.0.1
demo_pod by-relay relay veth interrupt
eventually "$PODLANE_PATIENCE" demo_lane_serving by-relay || die "nobody serves the lane: $(tail -n 3 "$PODLANE_WORK/by-relay.log")"
in_force=$(demo_lane by-relay .inForce)
relay=$(vm_traffic by-relay relay veth 10.10.0.1)
demo_pod_remove by-relay
jq -nc --argjson status "$status" --arg words "$words" --argjson force "$in_force" --argjson relay "$relay" \
  '{refused: ($status != 0), words: $words, inForce: $force, relay: $relay}'
