#!/bin/bash
# 100 pods at once on veth lanes, as bare namespaces: all ADDs in parallel, then all DELs. No failure, no leak, and the
# daemon stays small. Prints the numbers that docs/benchmarks.md takes. PODLANE_PODS: another number of pods; BURST_KIND:
# another lane kind; never more than 100 are in the making at once, as no kubelet starts more.
source "$(dirname "$0")/checks.sh"
export PODLANE_BIN
pods=${PODLANE_PODS:-100}
export BURST_LANES=$((pods + 4)) BURST_FRAMES=128 BURST_RING=64

if ! node_inside; then
  before=$(host_picture)
  node_run "$@"
  [[ $before == "$(host_picture)" ]] || die "the machine is not as before"
  exit
fi
backend=bare count=100

at_once=100
all_pods_at_once_get_lanes() {
  local start_us=${EPOCHREALTIME/./} at pids=() bad=0 pid
  for ((at = 0; at < pods; at++)); do
    ((at < at_once)) || wait "${pids[at - at_once]}" || true
    bare_pod "many$at" '{"podlane.io/lanes":"burst"}' burst >/dev/null 2>"$PODLANE_WORK/many$at.error" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || bad=$((bad + 1)); done
  failed_adds=$bad
  add_ms=$(((${EPOCHREALTIME/./} - start_us) / 1000))
  expect "no ADD failed, but $bad did: $(cat "$PODLANE_WORK"/many*.error | sort | uniq -c | sort -rn | head -n 5)" test "$bad" == 0
  expect "$pods different addresses" eventually 5 all_addresses_differ
}
all_addresses_differ() { [[ $(jq '[.lanes[].addresses[]?] | unique | length' /run/podlane/lanes.json) == "$pods" ]]; }

the_daemon_stays_small() {
  local rss_kib
  rss_kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon_pid)/status")
  daemon_rss_kib=$rss_kib
  expect "RSS of at most 25 MB with $pods lanes, is $rss_kib KiB" test "$rss_kib" -le 25600
  group_kib=$(($(cat "$group/memory.usage_in_bytes" 2>/dev/null || cat "$group/memory.current") / 1024))
  expect "control group's memory of at most 40 MB with $pods lanes, is $group_kib KiB" test "$group_kib" -le 40960
}

all_pods_at_once_go() {
  local start_us=${EPOCHREALTIME/./} at pids=()
  for ((at = 0; at < pods; at++)); do
    ((at < at_once)) || wait "${pids[at - at_once]}" || true
    bare_pod_remove "many$at" >/dev/null 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  del_ms=$(((${EPOCHREALTIME/./} - start_us) / 1000))
  eventually 15 no_leftovers || true
  left=$(node_leftovers)
  expect "nothing left: $(head -n 5 <<<"$left")" test -z "$left"
}
no_leftovers() { [[ -z $(node_leftovers) ]]; }

node_setup
network_start
cni_install
kubelet_start
defer kubelet_stop
# In a control group of its own, as in its container: what the kernel holds for it (maps, sockets) counts too.
group=$(memory_group daemon)
(echo "$BASHPID" >"$group/cgroup.procs" && daemon_start)
defer daemon_stop
run_case all_pods_at_once_get_lanes
run_case the_daemon_stays_small
run_case all_pods_at_once_go
printf '{"pods":%d,"kind":"%s","add_ms":%d,"del_ms":%d,"daemon_rss_kib":%d,"daemon_group_kib":%d,"failures":%d}\n' \
  "$pods" "${BURST_KIND:-veth}" "${add_ms:-0}" "${del_ms:-0}" "${daemon_rss_kib:-0}" "${group_kib:-0}" \
  "$((${failed_adds:-pods} + $(grep -c . <<<"${left-not looked}" || true)))"
finish
