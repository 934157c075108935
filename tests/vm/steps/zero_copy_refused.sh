#!/bin/bash
# zeroCopy "require" where the NIC's driver cannot do it: the owner of the lane is told so and gets nothing; "prefer" then
# carries packets by copy. The last line is one object.
source /vm/steps/node.sh
vm_node ', "zeroCopy": "require"'
vm_answer 10.9.0.1
demo_pod refused direct queue interrupt
status=0
bare_exec refused timeout 20 "$BIN/podlanectl" bench pingpong --count 10 --to 10.9.0.1:7 \
  --lane "$(demo_lane_directory refused feed)" >"$PODLANE_WORK/words" 2>&1 || status=$?
cat "$PODLANE_WORK/words" "$PODLANE_WORK/deviceplugin.log" >&2
demo_pod_remove refused
daemon_stop
daemon_write_config "$PODLANE_WORK/podlane.json" ', "zeroCopy": "prefer"'
daemon_start
demo_pod by-copy relay queue interrupt
eventually "$PODLANE_PATIENCE" demo_lane_serving by-copy || die "nobody serves the lane"
in_force=$(demo_lane by-copy .inForce)
relay=$(vm_traffic by-copy relay queue 10.9.0.1)
demo_pod_remove by-copy
jq -nc --argjson status "$status" --rawfile words "$PODLANE_WORK/words" --argjson force "$in_force" --argjson relay "$relay" \
  '{refused: ($status != 0), words: $words, inForce: $force, relay: $relay}'
