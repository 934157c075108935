# The guest as a node: the parts of the product by scripts/lib, on the guest's own NICs. Sourced by the other steps.
# A scenario that uses it has nic0 and nic1, each on a wire with wire-nic0 and wire-nic1, which are in the namespace "far".
# An emulated CPU is ten times slower than a real one, and more beside others.
export PODLANE_WORK=/tmp/node PODLANE_CGROUP=podlane-vm PODLANE_PATIENCE=120
mkdir -p "$PODLANE_WORK" /opt/cni/bin /var/lib/cni /var/lib/kubelet/{device-plugins,pod-resources}
source "$PODLANE_SOURCE/scripts/lib/lanes.sh"
source "$PODLANE_SOURCE/scripts/lib/demo_pods.sh"
trap run_deferred EXIT
backend=bare count=${COUNT:-300}

# vm_addresses NIC ADDRESS FAR_ADDRESS; again: as it was.
vm_addresses() {
  ip address replace "$2" dev "$1"
  ip link set "$1" up
  ip -n far address replace "$3" dev "wire-$1"
  ip -n far link set "wire-$1" up
}

vm_node() { # vm_node [KEYS_OF_THE_QUEUE_POOL]: network, kubelet and device plugin.
  vm_addresses nic0 10.9.0.2/24 10.9.0.1/24
  vm_addresses nic1 10.10.0.2/16 10.10.0.1/16
  sysctl -qw net.ipv4.ip_forward=1
  cni_install
  daemon_write_config "$PODLANE_WORK/podlane.json" "${1:-}"
  kubelet_start
  defer kubelet_stop
  daemon_start
  defer daemon_stop
}

# vm_answer FAR: a UDP echo of the kernel's sockets at the far side's port 7.
vm_answer() {
  inside far "$BIN/bench_rtt" --serve --mode interrupt --bind "$1:7" &
  defer stop_process "$!"
}

# vm_static_neighbor POD NIC: the far side knows the lane's MAC without asking.
vm_static_neighbor() {
  ip -n far neigh replace "$(demo_lane_address "$1")" lladdr "$(<"/sys/class/net/$2/address")" dev "wire-$2" nud permanent
}

# vm_traffic POD PATH KIND FAR: what begins in the pod and comes back, numbered packets to it without loss, pings; one object.
vm_traffic() {
  local name=$1 path=$2 kind=$3 far=$4 address pings received='{}'
  demo_ask "$name" "$path" "$kind" blocking "$far" >"$PODLANE_WORK/asked" || warn "round trips: status $?"
  address=$(demo_lane_address "$name")
  if [[ $path == relay ]]; then
    pings=$(inside far ping -c 20 -i 0.1 -W 2 "$address" | sed -n 's/.* \([0-9]*\) received.*/\1/p') || true
    bare_exec "$name" "$BIN/bench_flood" --receive --bind "$address:5000" --expect 1000 >"$PODLANE_WORK/received" &
    local receiver=$!
    eventually "$PODLANE_PATIENCE" vm_listens "$name" 5000 || warn "nobody listens at port 5000 of $name"
    inside far "$BIN/bench_flood" --to "$address:5000" --rate 200 --seconds 5 >&2
    wait "$receiver"
    received=$(<"$PODLANE_WORK/received")
  fi
  jq -nc --slurpfile asked "$PODLANE_WORK/asked" --argjson pings "${pings:-0}" --argjson received "$received" \
    '($asked | last) as $r | {sent: $r.sent, lost: $r.lost, endpoint: $r.endpoint, pings: $pings, received: $received}'
}
vm_listens() { ip netns exec "$1" ss -Hlun | grep -q ":$2 "; }

# vm_queue_pool NIC NETWORK GATEWAY: the configuration of one queue pool, addresses from GATEWAY00 on.
vm_queue_pool() {
  printf '{"pools":[{"name":"feed","lane":"queue","devices":{"names":["%s"]},"trusted":true,"subnets":["%s"],"gateway":"%s",
    "ipam":{"type":"host-local","ranges":[[{"subnet":"%s","rangeStart":"%s00"}]]}}]}' "$1" "$2" "$3" "$2" "$3" \
    >"$PODLANE_WORK/podlane.json"
}

# vm_serves NAME FAR: a pod's traffic through the pool's one lane, and what is in force; one object, the last line.
vm_serves() {
  daemon_start
  demo_pod "$1" relay queue interrupt
  eventually "$PODLANE_PATIENCE" demo_lane_serving "$1" || die "nobody serves the lane: $(tail -n 3 "$PODLANE_WORK/$1.log")"
  local in_force traffic
  in_force=$(demo_lane "$1" .inForce)
  traffic=$(vm_traffic "$1" relay queue "$2")
  demo_pod_remove "$1"
  daemon_stop
  jq -nc --argjson force "$in_force" --argjson traffic "$traffic" '{inForce: $force} + $traffic'
}
