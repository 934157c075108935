# The demo's proofs. Sourced by demo.sh. Each prints one line, "proved" or "FAILED", and counts.

proofs_failed=0
proof() { # proof CONDITION_STATUS TEXT
  if [[ $1 == 0 ]]; then
    say "  proved  $2"
  else
    say "  FAILED  $2"
    proofs_failed=$((proofs_failed + 1))
  fi
}

proof_empty() { # proof_empty FOUND TEXT: nothing may have been found.
  if [[ -z $1 ]]; then proof 0 "$2"; else proof 1 "$2: $1"; fi
}

proofs_result() {
  if ((proofs_failed == 0)); then note "all proofs hold"; else die "$proofs_failed proof(s) failed"; fi
}

# Reads /proc of the node, as the pod cannot: every process in the pod's namespace must be without capabilities.
proof_capabilities() {
  local name=$1 path=$2 netns inode pid capabilities bad=0 seen=0
  [[ $path == relay || $path == direct ]] || return 0
  netns=$(demo_netns "$name")
  inode=$(stat -Lc %i "$netns")
  for pid in /proc/[0-9]*; do
    [[ $(stat -Lc %i "$pid/ns/net" 2>/dev/null) == "$inode" ]] || continue
    capabilities=$(sed -n 's/^CapEff:\t//p' "$pid/status" 2>/dev/null) || continue
    [[ -n $capabilities ]] || continue
    seen=$((seen + 1))
    [[ $capabilities =~ ^0+$ && $(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "$pid/status") != 0 ]] || bad=$((bad + 1))
  done
  capability_pods=$((${capability_pods:-0} + 1))
  capability_processes=$((${capability_processes:-0} + seen))
  capability_bad=$((${capability_bad:-0} + bad))
  [[ $backend == bare || $seen -gt 0 ]] || capability_bad=$((capability_bad + 1))
}

# What the kernel's programs redirected to the lane's socket: at least every answer of the round trips.
proof_frames() {
  local name=$1 path=$2 received
  [[ $path == relay || $path == direct ]] || return 0
  http_get /metrics >"$PODLANE_WORK/metrics"
  received=$(metric "$name" rx_frames)
  ((received >= count)) || frames_bad="${frames_bad:-} $name:$received"
  frames_seen=$((${frames_seen:-0} + received))
}
metric() {
  awk -v pod="pod=\"$1\"" -v counter="counter=\"$2\"" \
    '/^podlane_lane_kernel_frames_total/ && index($0, pod) && index($0, counter) { sum += $NF } END { printf "%d\n", sum }' \
    "$PODLANE_WORK/metrics"
}

# While echo_direct owns the rings, an ordinary TCP program and ping use the same lane through its TUN.
proof_traffic_beside_direct() {
  note "proofs"
  proof "$((${capability_bad:-0} > 0))" \
    "CapEff = 0 and uid != 0 for all ${capability_processes:-0} processes of ${capability_pods:-0} pods with lanes (from /proc on the node)"
  proof_empty "${frames_bad:-}" \
    "the kernel counted the round trips on each lane: ${frames_seen:-0} frames redirected to sockets"
  local name=beside-direct address status=0
  demo_pod "$name" direct queue interrupt
  address=$(demo_lane_address "$name")
  demo_exec "$name" echo_direct -p 7 -m interrupt -d "$(demo_lane_directory "$name" feed)" >"$PODLANE_WORK/echo.log" 2>&1 &
  local echo_pid=$!
  eventually 10 demo_lane_serving "$name" || status=1
  proof "$status" "echo_direct serves the lane in pod $name, address $address"
  status=0
  inside far "$BIN/bench_rtt" --count 1000 --warm-up 10 --to "$address:7" >"$PODLANE_WORK/rtt.json" || status=1
  proof "$status" "the far side's UDP is answered from the rings: $(jq -r '"\(.count) of 1000, p50 \(.p50_ns / 1000) µs"' "$PODLANE_WORK/rtt.json" 2>/dev/null)"
  demo_exec "$name" bench_tcp --serve --bind "$address:8000" >/dev/null 2>&1 &
  local server_pid=$!
  status=0
  local words
  words=$(inside far "$BIN/bench_tcp" --to "$address:8000" --bytes 1000000 2>&1) || status=1
  proof "$status" "an unmodified TCP program talks over the TUN meanwhile: $words"
  status=0
  words=$(inside far ping -c 5 -i 0.2 -W 1 "$address" | grep received) || status=1
  proof "$status" "ping is answered meanwhile: $words"
  kill "$echo_pid" "$server_pid" 2>/dev/null || true
  demo_pod_remove "$name"
  wait "$echo_pid" "$server_pid" 2>/dev/null || true
}

proof_teardown() {
  local left
  eventually 10 no_leftovers || true
  left=$(node_leftovers)
  proof_empty "$left" "no interface, namespace, rule, route, lane directory, address or lane is left of the pods"
  daemon_without_pools_leftovers >"$PODLANE_WORK/traces"
  left=$(<"$PODLANE_WORK/traces")
  proof_empty "$left" "without pools the device plugin leaves no program and no pin on the NICs"
  left=$(ps -e -o pid=,comm= | grep -E ' (podlane-relay|podlanectl|echo_direct|bench_|pause|runc|containerd-shim)' || true)
  proof_empty "$left" "no process of the pods is left"
  left=$(cut -d' ' -f5 /proc/self/mountinfo | grep -E '/run/(netns/cni|containerd/)|/run/podlane|/rootfs' || true)
  proof_empty "$left" "no mount of the pods is left"
  # Two levels down: the pods' own groups are the kubelet's to remove, and node_run does it for the test kubelet.
  left=$(node_cgroup_leftovers | xargs -r -I{} find {} -mindepth 2 -type d)
  proof_empty "$left" "no control group of a container is left"
  say "  ($(find /run/podlane/lanes -mindepth 1 -maxdepth 1 2>/dev/null | wc -l) lane directories of devices that the kubelet has free wait for the next pod, or ten minutes)"
  say "  checked: links, namespaces, rules, routes, XDP programs, BPF pins, /run/podlane/lanes, host-local leases, lanes.json, processes, mounts, control groups"
}
no_leftovers() { [[ -z $(node_leftovers) ]]; }
