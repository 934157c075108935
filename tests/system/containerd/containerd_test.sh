#!/bin/bash
# containerd with ptp and podlane chained: lane pods by relay and by direct, the daemon dead, killed, the relay killed, the
# kubelet restarted. Packet counts use a paced sender, rings of 4096, and a control run without the fault.
source "$(dirname "$0")/checks.sh"
export PODLANE_BIN
backend=containerd count=2000

if ! node_inside; then
  "$PODLANE_SOURCE/scripts/images.sh" "$(dirname "$PODLANE_BIN")" "$(dirname "$PODLANE_BIN")/images" >/dev/null
  before=$(host_picture)
  node_run "$@"
  [[ $before == "$(host_picture)" ]] || die "the machine is not as before: $(diff <(echo "$before") <(host_picture))"
  exit
fi

plain_pod_starts_with_the_daemon_dead() {
  must demo_pod dead-plain plain none spinning || return 1
  # A kernel's echo: what the reflector sends reaches nic0 only once the device plugin's program is on it (pass.bpf.c).
  nsenter --net=/run/netns/far "$BIN/bench_rtt" --serve --mode interrupt --bind 10.9.0.1:8 &
  local echo_pid=$!
  expect "round trips by the primary network" demo_exec dead-plain bench_rtt --mode interrupt --count 100 --to 10.9.0.1:8
  stop_process "$echo_pid"
  demo_pod_remove dead-plain
}

# The kubelet of the test lets the pod in (its devices are known from before), the daemon dies, ADD must say 11.
lane_pod_with_the_daemon_dead_gets_code_11_and_works_after() {
  daemon_kill
  local words
  words=$(cni_probe_add 2>&1) && { echo "  ADD succeeded without the daemon"; return 1; }
  expect "code 11 (try again later)" grep -q '"code": *11' <<<"$words"
  daemon_start
  must demo_pod after-dead relay veth interrupt || return 1
  expect "the relay serves the lane" eventually 10 demo_lane_serving after-dead
  expect "round trips" asks after-dead relay veth 10.10.0.1
  demo_pod_remove after-dead
}

# ADD for a pod that annotates, by hand in a namespace of its own: what containerd would have got.
cni_probe_add() {
  ip netns add probe
  local status=0
  cni_call ADD probe podlane "$(cni_conf "$podlane_conf" '{"podlane.io/lanes":"burst"}' \
    '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/probe"}],"ips":[]}')" || status=$?
  ip netns del probe
  return "$status"
}

asks() { # asks POD PATH KIND FAR: all round trips come back.
  demo_ask "$1" "$2" "$3" blocking "$4" >"$PODLANE_WORK/asked" || { cat "$PODLANE_WORK/asked"; return 1; }
}

relay_on_a_queue_lane_carries_packets() { carries relay queue; }
relay_on_a_veth_lane_carries_packets() { carries relay veth; }
direct_on_a_queue_lane_carries_packets() { carries direct queue; }
direct_on_a_veth_lane_carries_packets() { carries direct veth; }
carries() {
  local name=$1-$2
  must demo_pod "$name" "$1" "$2" interrupt || return 1
  [[ $1 == direct ]] || expect "the relay serves the lane" eventually 10 demo_lane_serving "$name"
  expect "round trips" asks "$name" "$1" "$2" "$(demo_far "$2")"
  local pid
  for pid in $(kubelet status | jq -r --arg pod "default/$name" '.pods[] | select(.pod == $pod) | .containers[].pid'); do
    expect "no capability in process $pid" grep -q '^CapEff:.0*$' "/proc/$pid/status"
    expect "seccomp filter on process $pid" grep -q '^Seccomp:.2$' "/proc/$pid/status"
  done
  demo_pod_remove "$name"
}

# flow_through POD DURING…: 2 seconds of 2000 paced packets a second into the pod while DURING runs; prints the receiver's line.
flow_through() {
  local name=$1 address receiver
  shift
  address=$(demo_lane_address "$name")
  kubelet exec "default/$name" app timeoutSeconds=30 -- bench_flood --receive --bind "$address:5000" --expect 4000 \
    >"$PODLANE_WORK/received" &
  receiver=$!
  sleep 0.5 # exec has no sign of readiness; the datagrams of a sender that is too early would be lost honestly.
  inside far "$BIN/bench_flood" --to "$address:5000" --rate 2000 --seconds 2 >"$PODLANE_WORK/sent" &
  local sender=$!
  sleep 0.7
  "$@"
  wait "$sender"
  wait "$receiver" || true
  cat "$PODLANE_WORK/received"
}
missing() { jq -r .missing <<<"$1"; }
rx_frames() { # rx_frames POD: what the kernel redirected to its socket.
  http_get /metrics | awk -v pod="pod=\"$1\"" '/^podlane_lane_kernel_frames_total/ && index($0, pod) && /rx_frames/ { print $NF }'
}

daemon_killed_and_restarted_loses_no_packet_on_a_queue_lane() { killed_loses_nothing queue; }
daemon_killed_and_restarted_loses_no_packet_on_a_veth_lane() { killed_loses_nothing veth; }
killed_loses_nothing() {
  local name=flow-$1 control fault
  must demo_pod "$name" relay "$1" interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  inside far ping -c 1 -W 2 "$(demo_lane_address "$name")" >/dev/null || true # Neighbours are known.
  control=$(flow_through "$name" true)
  expect "control run: none missing of 4000, got $control" test "$(missing "$control")" == 0
  local before after
  before=$(rx_frames "$name")
  fault=$(flow_through "$name" kill_and_restart_daemon)
  after=$(rx_frames "$name")
  expect "with the daemon killed: none missing of 4000, got $fault" test "$(missing "$fault")" == 0
  expect "the kernel counted them: $before to $after" test "$((after - before))" -ge 4000
  expect "the lane is served by the same owner" eventually 10 demo_lane_serving "$name"
  demo_pod_remove "$name"
}
kill_and_restart_daemon() {
  daemon_kill
  sleep 0.3
  daemon_start
}

# What an upgrade meets: a program of another build on the NIC's link. It works, and is replaced under running traffic.
daemon_upgraded_loses_no_packet_and_replaces_the_program() {
  local name=upgrade fault tags after
  must demo_pod "$name" relay queue interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  inside far ping -c 1 -W 2 "$(demo_lane_address "$name")" >/dev/null || true
  fault=$(flow_through "$name" other_version_then_ours)
  tags=$(<"$PODLANE_WORK/tags")
  after=$(steering_tag)
  expect "another program was on the NIC: $tags" test "${tags% *}" != "${tags#* }"
  expect "ours is there again: $after" test "$after" == "${tags% *}"
  expect "none missing of 4000, got $fault" test "$(missing "$fault")" == 0
  expect "the lane is served by the same owner" eventually 10 demo_lane_serving "$name"
  demo_pod_remove "$name"
}
other_version_then_ours() {
  daemon_kill
  "$BIN/other_steering" "$BIN/other_steering.bpf.o" /sys/fs/bpf/podlane "$(cat /sys/class/net/nic0/ifindex)" >"$PODLANE_WORK/tags"
  sleep 0.3
  daemon_start
}
steering_tag() { bpftool -j net show dev nic0 2>/dev/null | jq -r '.[0].xdp[0].id // .[0].xdp[0].multi_attachments[0].id' |
  xargs bpftool -j prog show id | jq -r .tag; }

daemon_restarted_and_relay_killed_later() {
  local name=killed-later
  must demo_pod "$name" relay queue interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  kill_and_restart_daemon
  expect "round trips by the relay that outlived the daemon" asks "$name" relay queue 10.9.0.1
  kill -KILL "$(demo_pid "$name")"
  must eventually 10 relay_exited "$name" || return 1
  must kubelet restart-container "default/$name" podlane-relay >/dev/null || return 1
  expect "served again" eventually 10 demo_lane_serving "$name"
  expect "round trips" asks "$name" relay queue 10.9.0.1
  demo_pod_remove "$name"
}

# The lane's default route is in the lane's table, by a rule for its address. Without carrier it stops counting, and the
# pod's main table takes over.
relay_killed_and_the_lanes_routes_fail_over() {
  local name=fail-over netns address before after
  must demo_pod "$name" relay queue interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  netns=$(demo_netns "$name") address=$(demo_lane_address "$name")
  expect "by the lane while it is served" test "$(way_out "$netns" "$address")" == lane0
  kill -KILL "$(demo_pid "$name")"
  must eventually 5 lane_without_carrier "$netns" || return 1
  expect "by eth0 without carrier" test "$(way_out "$netns" "$address")" == eth0
  before=$(sent_on "$netns" eth0)
  nsenter --net="$netns" ping -c 3 -i 0.01 -W 1 -I "$address" 10.9.0.1 >/dev/null 2>&1 || true
  after=$(sent_on "$netns" eth0)
  expect "packets leave by eth0: $before to $after" test "$((after - before))" -ge 3
  must eventually 10 relay_exited "$name" || return 1
  must kubelet restart-container "default/$name" podlane-relay >/dev/null || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  expect "by the lane again" test "$(way_out "$netns" "$address")" == lane0
  demo_pod_remove "$name"
}
way_out() { nsenter --net="$1" ip -j route get 10.9.0.1 from "$2" | jq -r '.[0].dev'; }
sent_on() { nsenter --net="$1" ip -j -s link show dev "$2" | jq '.[0].stats64.tx.packets'; }

relay_killed_drops_the_carrier_and_the_next_relay_has_the_lane() {
  local name=relay-killed netns
  must demo_pod "$name" relay queue interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  netns=$(demo_netns "$name")
  kill -KILL "$(demo_pid "$name")"
  expect "the TUN has no carrier" eventually 5 lane_without_carrier "$netns"
  must eventually 10 relay_exited "$name" || return 1
  must kubelet restart-container "default/$name" podlane-relay >/dev/null || return 1
  expect "served again" eventually 10 demo_lane_serving "$name"
  expect "round trips" asks "$name" relay queue 10.9.0.1
  demo_pod_remove "$name"
}
relay_exited() { # As the runtime sees it.
  [[ $(kubelet status | jq -r --arg pod "default/$1" \
    '.pods[] | select(.pod == $pod) | .containers[] | select(.name == "podlane-relay") | .state') == exited ]]
}
lane_without_carrier() { nsenter --net="$1" ip link show dev lane0 | grep -q NO-CARRIER; }

daemon_and_relay_killed_at_once_then_the_lane_works() {
  local name=both-killed
  must demo_pod "$name" relay veth interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  kill -KILL "$(demo_pid "$name")"
  daemon_kill
  daemon_start
  must eventually 10 relay_exited "$name" || return 1
  must kubelet restart-container "default/$name" podlane-relay >/dev/null || return 1
  expect "served again" eventually 10 demo_lane_serving "$name"
  expect "round trips" asks "$name" relay veth 10.10.0.1
  demo_pod_remove "$name"
}

daemon_restarted_before_anyone_connected() {
  local name=before-first
  must demo_pod "$name" direct veth interrupt || return 1
  kill_and_restart_daemon
  expect "round trips" asks "$name" direct veth 10.10.0.1
  demo_pod_remove "$name"
}

kubelet_restart_registers_again_and_pods_go_on() {
  local name=kubelet-restart
  must demo_pod "$name" relay queue interrupt || return 1
  must eventually 10 demo_lane_serving "$name" || return 1
  must kubelet restart || return 1
  expect "ready again within 3 s" eventually 3 http_get /readyz
  expect "the lane is still allocated" test "$(kubelet resources | jq '[.. | objects | select(has("allocated")) | .allocated] | length')" -gt 0
  expect "round trips" asks "$name" relay queue 10.9.0.1
  demo_pod_remove "$name"
}

nothing_is_left_behind() {
  eventually 10 no_leftovers || true
  expect "nothing left: $(node_leftovers)" no_leftovers
  local left
  daemon_without_pools_leftovers >"$PODLANE_WORK/traces"
  left=$(<"$PODLANE_WORK/traces")
  expect "without pools no program and no pin on the NICs: $left" test -z "$left"
}
no_leftovers() { [[ -z $(node_leftovers) ]]; }

node_setup
network_start
cni_install
containerd_start "$PODLANE_WORK/containerd"
defer containerd_stop
containerd_import "$(dirname "$BIN")"/images/{pause,relay,examples}.tar
cni_write_conflist "$CNI_CONF_DIR"
kubelet_start "$CONTAINERD_SOCKET"
defer kubelet_stop

run_case plain_pod_starts_with_the_daemon_dead
daemon_start
defer daemon_stop
for one in ${PODLANE_CASES:-lane_pod_with_the_daemon_dead_gets_code_11_and_works_after \
  relay_on_a_queue_lane_carries_packets relay_on_a_veth_lane_carries_packets \
  direct_on_a_queue_lane_carries_packets direct_on_a_veth_lane_carries_packets \
  daemon_killed_and_restarted_loses_no_packet_on_a_queue_lane \
  daemon_killed_and_restarted_loses_no_packet_on_a_veth_lane \
  daemon_upgraded_loses_no_packet_and_replaces_the_program daemon_restarted_and_relay_killed_later \
  relay_killed_and_the_lanes_routes_fail_over relay_killed_drops_the_carrier_and_the_next_relay_has_the_lane \
  daemon_and_relay_killed_at_once_then_the_lane_works daemon_restarted_before_anyone_connected \
  kubelet_restart_registers_again_and_pods_go_on nothing_is_left_behind}; do
  run_case "$one"
done
finish
