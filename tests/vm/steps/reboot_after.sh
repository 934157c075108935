#!/bin/bash
# After a reset: the kernel has forgotten all lanes, the disk has not. A runtime deletes the old sandbox of one pod before
# anything of ours runs; the device plugin gives back what the other had. Then both pods are made again.
source /vm/steps/node.sh
source /vm/steps/reboot_state.sh
found=$(reboot_state)
cni_install
deleted=0
# And of both pods the first network's part: addresses of ptp are its own to give back.
for pod in by-queue by-veth; do cni_call DEL "$pod" ptp "$(cni_conf "$ptp_conf" '{}' null)" >&2; done
cni_call DEL by-queue podlane "$(cni_conf "$podlane_conf" '{"podlane.io/lanes":"feed"}' null)" >&2 || deleted=$?
after_del=$(reboot_state)
vm_node
is_clean() { [[ $(reboot_state | jq '.leases + .onDisk + .used') == 0 ]]; }
eventually "$PODLANE_PATIENCE" is_clean || warn "not clean: $(reboot_state)"
clean=$(reboot_state)
vm_answer 10.9.0.1
vm_answer 10.10.0.1
again() { # again KIND: the pod of before, with traffic.
  demo_pod "by-$1" relay "$1" interrupt
  eventually "$PODLANE_PATIENCE" demo_lane_serving "by-$1" || die "nobody serves: $(tail -n 3 "$PODLANE_WORK/by-$1.log")"
  vm_traffic "by-$1" relay "$1" "$(demo_far "$1")"
  demo_pod_remove "by-$1"
}
queue=$(again queue)
veth=$(again veth)
jq -nc --argjson found "$found" --argjson status "$deleted" --argjson afterDel "$after_del" --argjson clean "$clean" \
  --argjson queue "$queue" --argjson veth "$veth" --argjson last "$(reboot_state)" \
  '{found: $found, delStatus: $status, afterDel: $afterDel, clean: $clean, queue: $queue, veth: $veth, end: $last}'
