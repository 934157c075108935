#!/bin/bash
# nic0 is an e1000e, nic1 a vmxnet3, and there is an NVMe disk. A queue lane on each NIC: served, or refused in words.
source /vm/steps/node.sh
vm_addresses nic0 10.9.0.2/24 10.9.0.1/24
vm_addresses nic1 10.10.0.2/16 10.10.0.1/16
driver() { basename "$(readlink "/sys/class/net/$1/device/driver")"; }
# The kernel places a managed interrupt itself and refuses a write: EIO before Linux 6.12, EPERM since (kernel/irq/proc.c).
irq=$(awk '/nvme0q1$/ { sub(":", "", $1); print $1 }' /proc/interrupts)
managed=$(bash -c 'echo 1 >"/proc/irq/$0/smp_affinity"' "$irq" 2>&1 || true)
grep nvme /proc/interrupts >&2
cni_install
kubelet_start
defer kubelet_stop
vm_answer 10.9.0.1
vm_answer 10.10.0.1
lane_on() { # lane_on NIC NETWORK GATEWAY: one line of JSON.
  local words
  vm_queue_pool "$@"
  if words=$(timeout 10 "$BIN/podlane-deviceplugin" --config "$PODLANE_WORK/podlane.json" 2>&1) || [[ $? == 124 ]]; then
    vm_serves "on-$1" "$3"
  else
    jq -nc --arg words "$words" '{words: $words}'
  fi
}
lane_on nic0 10.9.0.0/24 10.9.0.1 | tail -n 1 >"$PODLANE_WORK/nic0.out"
lane_on nic1 10.10.0.0/16 10.10.0.1 | tail -n 1 >"$PODLANE_WORK/nic1.out"
jq -nc --arg driver0 "$(driver nic0)" --arg driver1 "$(driver nic1)" --argjson disk "$(</sys/block/nvme0n1/size)" \
  --arg managed "$managed" --slurpfile nic0 "$PODLANE_WORK/nic0.out" --slurpfile nic1 "$PODLANE_WORK/nic1.out" \
  '{drivers: [$driver0, $driver1], disk: $disk, managed: $managed, nic0: $nic0[0], nic1: $nic1[0]}'
