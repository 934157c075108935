#!/bin/bash
# Two pods with lanes, relays serving them, leases and records on the disk: what the guest has when it is reset.
source /vm/steps/node.sh
source /vm/steps/reboot_state.sh
vm_node
for kind in queue veth; do
  demo_pod "by-$kind" relay "$kind" interrupt
  eventually "$PODLANE_PATIENCE" demo_lane_serving "by-$kind" || die "nobody serves: $(tail -n 3 "$PODLANE_WORK/by-$kind.log")"
done
trap - EXIT  # Everything goes on until the reset.
reboot_state
