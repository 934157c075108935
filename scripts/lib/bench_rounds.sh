#!/bin/bash
# One round of one side of a benchmark: bench_rounds.sh NAME prints one JSON line. Run by podlane-bench inside the scratch
# node that bench.sh has set up (PODLANE_WORK and PODLANE_BIN are in the environment). The program that is measured is on
# CPU 0; its peer, or the relay, on CPU 1. Only the parts of this round run: a relay of another round is stopped (SIGSTOP).
source "$(dirname "$0")/lanes.sh"
source "$(dirname "$0")/packages.sh"

far=(nsenter --net=/run/netns/far --)
rounds=${PODLANE_ROUND_TRIPS:-20000}
flood_seconds=${PODLANE_FLOOD_SECONDS:-1}
pingpong() { echo podlanectl bench pingpong --json --cpu 0 --count "$rounds"; }
lane_of() { echo "$(sed -n 's/^PODLANE_LANES_[A-Z]*=//p' "$PODLANE_WORK/pods/$1.env")/0"; }
address_of() { jq -r --arg pod "$1" '.lanes[] | select(.pod == $pod) | .addresses[0] | split("/")[0]' /run/podlane/lanes.json; }

# with_peer PEER_COMMAND… :: COMMAND…: the peer runs only meanwhile. It must be a program, not a function, to be stopped.
with_peer() {
  local peer=()
  while [[ $1 != :: ]]; do peer+=("$1") && shift; done
  shift
  "${peer[@]}" >/dev/null 2>"$PODLANE_WORK/peer.log" &
  local pid=$! status=0
  eventually 5 grep -q 'echo server' "$PODLANE_WORK/peer.log" || sleep 0.3
  "$@" || status=$?
  stop_process "$pid"
  return "$status"
}

with_relay() { # with_relay POD COMMAND…
  local pid status=0
  pid=$(<"$PODLANE_WORK/$1.pid")
  shift
  kill -CONT "$pid"
  "$@" || status=$?
  kill -STOP "$pid"
  return "$status"
}

# Packets a second that reach the far side of DEVICE while COMMAND floods.
arriving() { # arriving WIRE COMMAND…
  local wire=$1 before after sent
  shift
  before=$(inside far cat "/proc/net/dev" | awk -v d="$wire:" '$1 == d { print $3 }')
  sent=$("$@")
  after=$(inside far cat "/proc/net/dev" | awk -v d="$wire:" '$1 == d { print $3 }')
  jq -c --argjson packets "$((after - before))" --argjson seconds "$flood_seconds" \
    '{per_second: ($packets / $seconds), offered_per_second: .per_second, lost: (.sent - $packets)}' <<<"$sent"
}

case $1 in
  # Both ends direct over one veth pair, and what it stands against on pairs of the same make.
  direct-pair)
    bare_command right
    with_peer "${bare[@]}" "$BIN/podlanectl" bench pingpong --server --cpu 1 --lane "$(lane_of right)" --bind 0.0.0.0:7 :: \
      bare_exec left "$BIN"/$(pingpong) --lane "$(lane_of left)" --to "$(address_of right):7"
    ;;
  udp-pair)
    with_peer "${far[@]}" "$BIN/podlanectl" bench pingpong --server --cpu 1 --bind 10.13.0.1:7 :: \
      "$BIN"/$(pingpong) --to 10.13.0.1:7
    ;;
  ring-pair)
    with_peer "${far[@]}" "$BIN/bench_rtt" --serve --by ring --device wire-bare0 --cpu 1 :: \
      "$BIN/bench_rtt" --by ring --device bare0 --to-mac "$(inside far cat /sys/class/net/wire-bare0/address 2>/dev/null || ip -n far -j link show wire-bare0 | jq -r '.[0].address')" \
      --bind 10.14.0.2:40000 --to 10.14.0.1:7 --cpu 0 --count "$rounds"
    ;;
  # A pod against the XDP reflector.
  direct-queue) bare_exec dq "$BIN"/$(pingpong) --lane "$(lane_of dq)" --to 10.9.0.1:7 ;;
  direct-veth) bare_exec dv "$BIN"/$(pingpong) --lane "$(lane_of dv)" --to 10.10.0.1:7 ;;
  routed) bare_exec plain "$BIN"/$(pingpong) --to 10.12.0.1:7 ;;
  relay-queue) with_relay rq bare_exec rq "$BIN"/$(pingpong) --to 10.9.0.1:7 --bind "$(address_of rq):40000" ;;
  relay-veth) with_relay rv bare_exec rv "$BIN"/$(pingpong) --to 10.10.0.1:7 --bind "$(address_of rv):40000" ;;
  relay-queue-interrupt)
    with_relay ri bare_exec ri "$BIN"/$(pingpong) --wait blocking --to 10.9.0.1:7 --bind "$(address_of ri):40000"
    ;;
  relay-veth-interrupt)
    with_relay ri bare_exec ri "$BIN"/$(pingpong) --wait blocking --to 10.10.0.1:7 --bind "$(address_of ri):40000"
    ;;
  naive)
    with_relay naive bare_exec naive "$BIN"/$(pingpong) --to 10.8.0.9:7
    ;;
  naive-blocking)
    with_relay naive bare_exec naive "$BIN"/$(pingpong) --wait blocking --to 10.8.0.9:7
    ;;
  # Packets a second, 64-byte frames, TUN or TAP to the wire; forwarding on CPU 1.
  relay-flood)
    with_relay rq arriving wire-nic0 bare_exec rq "$BIN/bench_flood" --cpu 0 --bind "$(address_of rq)" --to 10.9.0.1:9 \
      --seconds "$flood_seconds"
    ;;
  testpmd-flood)
    dpdk=$package_cache/dpdk/root
    pmds=$(echo "$dpdk"/usr/lib/*/dpdk/pmds-*)
    mkfifo "$PODLANE_WORK/testpmd.in" 2>/dev/null || true
    # Line-buffered: else what it says stays in its buffer while it runs.
    LD_LIBRARY_PATH=$(dirname "$(dirname "$pmds")") stdbuf -oL "$dpdk/usr/bin/dpdk-testpmd" --no-huge -m 512 -l 0,1 --main-lcore 0 --no-pci \
      -d "$pmds/librte_net_af_xdp.so.23" -d "$pmds/librte_net_tap.so.23" -d "$pmds/librte_bus_vdev.so.23" \
      -d "$pmds/librte_mempool_ring.so.23" --vdev net_af_xdp0,iface=nic3 --vdev net_tap0,iface=dtap0 -- \
      --total-num-mbufs=16384 -i --auto-start --nb-cores=1 --forward-mode=io <"$PODLANE_WORK/testpmd.in" >"$PODLANE_WORK/testpmd.log" 2>&1 &
    pid=$!
    exec 8>"$PODLANE_WORK/testpmd.in"
    eventually 20 grep -q 'Logical Core 1' "$PODLANE_WORK/testpmd.log" || die "testpmd: $(cat "$PODLANE_WORK/testpmd.log")"
    ip address replace 10.15.0.50/24 dev dtap0
    ip neighbor replace 10.15.0.1 dev dtap0 lladdr "$(ip -n far -j link show wire-nic3 | jq -r '.[0].address')"
    arriving wire-nic3 "$BIN/bench_flood" --cpu 0 --bind 10.15.0.50 --to 10.15.0.1:9 --seconds "$flood_seconds"
    echo quit >&8
    exec 8>&-
    eventually 10 process_ended "$pid" || kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
    ;;
  *) die "unknown round '$1'" ;;
esac
