#!/bin/bash
# nic0 has several queues behind one NUMA node, nic1 one queue behind the other: a queue lane is refused on the first in words,
# and served on both once the first has one queue. Before it: what the guest shows of nodes, threads and channels.
source /vm/steps/node.sh
facts=$(jq -nc --arg node0 "$(<"/sys/class/net/nic0/device/../numa_node")" \
  --arg node1 "$(<"/sys/class/net/nic1/device/../numa_node")" \
  --arg cpus1 "$(<"/sys/class/net/nic1/device/../local_cpulist")" \
  --arg siblings "$(</sys/devices/system/cpu/cpu0/topology/thread_siblings_list)" \
  --arg smt "$(</sys/devices/system/cpu/smt/active)" \
  --argjson queues "$(find /sys/class/net/nic0/queues -name 'rx-*' | wc -l)" \
  '{numaNodes: [$node0, $node1], cpusOfNic1: $cpus1, siblings: $siblings, smt: $smt, queues: $queues}')
vm_addresses nic0 10.9.0.2/24 10.9.0.1/24
vm_addresses nic1 10.10.0.2/16 10.10.0.1/16
cni_install
kubelet_start
defer kubelet_stop
vm_queue_pool nic0 10.9.0.0/24 10.9.0.1
status=0
words=$("$BIN/podlane-deviceplugin" --config "$PODLANE_WORK/podlane.json" 2>&1) || status=$?
say "$words" >&2

vm_answer 10.9.0.1
vm_answer 10.10.0.1
vm_queue_pool nic1 10.10.0.0/16 10.10.0.1
vm_serves single 10.10.0.1 >"$PODLANE_WORK/single.out"
ethtool -L nic0 combined 1
vm_queue_pool nic0 10.9.0.0/24 10.9.0.1
vm_serves reduced 10.9.0.1 >"$PODLANE_WORK/reduced.out"
jq -nc --argjson facts "$facts" --argjson status "$status" --arg words "$words" --slurpfile single "$PODLANE_WORK/single.out" \
  --slurpfile reduced "$PODLANE_WORK/reduced.out" \
  '{facts: $facts, refused: ($status != 0), words: $words, single: ($single | last), reduced: ($reduced | last)}'
