# podlane's parts on a scratch node: device plugin, test kubelet, two NICs and their far side, and pods in either of two
# ways - through containerd's CRI, or as bare namespaces with the CNI binary run by this script. Sourced.
#
#   node namespace                                         namespace "far"
#   nic0 10.9.0.2/24   pool feed, kind queue   ───────────  wire-nic0 10.9.0.1/24    UDP port 7 sent straight back,
#   nic1 10.10.0.2/16  pool burst, kind veth   ───────────  wire-nic1 10.10.0.1/16   port 9 dropped (reflect.bpf.c)
#   ptp veths of the pods, 10.244.0.0/16, routed by the node out of nic0

source "$(dirname "${BASH_SOURCE[0]}")/node.sh"

BIN=${PODLANE_BIN:-$PODLANE_SOURCE/build/release/bin}
kubelet_dir=/var/lib/kubelet
kubelet_socket=/run/test-kubelet.sock
conflist_name=base

# The capabilities that the DaemonSet asks for, as setpriv writes them.
manifest_capabilities() {
  awk '$1 == "add:" { on = 1; next } on && $1 == "-" { printf "%s+%s", (n++ ? "," : ""), tolower($2); next } on { exit }' \
    "$PODLANE_SOURCE/manifests/30-daemonset.yaml"
}

network_start() {
  node_nic nic0 far 10.9.0.2/24 10.9.0.1/24
  node_nic nic1 far 10.10.0.2/16 10.10.0.1/16
  ip -n far route add 10.244.0.0/16 via 10.9.0.2
  local nic
  for nic in nic0 nic1; do inside far ip link set "wire-$nic" xdpdrv object "$BIN/reflect.bpf.o" section xdp; done
}

daemon_write_config() { # daemon_write_config FILE [EXTRA_KEYS_OF_QUEUE_POOL]
  local veth_keys=
  [[ ${BURST_KIND:-veth} != veth ]] || veth_keys=' "devices": { "names": ["nic1"] }, "gateway": "10.10.0.1",
    "frames": '${BURST_FRAMES:-8192}', "ringSize": '${BURST_RING:-4096}','
  cat >"$1" <<JSON
{ "pools": [
  { "name": "feed", "lane": "queue", "devices": { "names": ["nic0"] }, "trusted": true, "subnets": ["10.9.0.0/24"],
    "gateway": "10.9.0.1", "frames": 8192, "ringSize": 4096${2:-},
    "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.9.0.0/24", "rangeStart": "10.9.0.100" }]] } },
  { "name": "burst", "lane": "${BURST_KIND:-veth}", "lanes": ${BURST_LANES:-16},
    "subnets": ["10.10.0.0/16"],$veth_keys
    "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.10.0.0/16", "rangeStart": "10.10.1.0" }]] } } ] }
JSON
}

http_get() { # http_get PATH: the body; fails unless the answer is 200.
  local line status
  exec 3<>/dev/tcp/127.0.0.1/9470 || return 1
  printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
  read -r _ status _ <&3 || status=0
  while read -r line <&3 && [[ $line != $'\r' ]]; do :; done
  cat <&3
  exec 3<&- 3>&-
  [[ $status == 200 ]]
}

# Root without what the manifest does not ask for.
daemon_start() {
  [[ -e $PODLANE_WORK/podlane.json ]] || daemon_write_config "$PODLANE_WORK/podlane.json"
  setsid setpriv --bounding-set="-all,$(manifest_capabilities)" --inh-caps=-all --no-new-privs \
    "$BIN/podlane-deviceplugin" --config "$PODLANE_WORK/podlane.json" >>"$PODLANE_WORK/deviceplugin.log" 2>&1 &
  echo "$!" >"$PODLANE_WORK/daemon.pid"
  eventually "${PODLANE_PATIENCE:-20}" http_get /readyz || {
    tail -n 5 "$PODLANE_WORK/deviceplugin.log" >&2
    die "the device plugin does not become ready"
  }
}
# The id is in a file because a daemon may be replaced in a subshell.
daemon_pid() { cat "$PODLANE_WORK/daemon.pid" 2>/dev/null || true; }
daemon_stop() {
  local pid
  pid=$(daemon_pid)
  [[ -z $pid ]] || stop_process "$pid"
  rm -f "$PODLANE_WORK/daemon.pid"
}
daemon_kill() {
  local pid
  pid=$(daemon_pid)
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null || true
  eventually 5 process_ended "$pid"
  rm -f "$PODLANE_WORK/daemon.pid"
}

kubelet_start() { # kubelet_start [CRI_SOCKET]
  local cri=()
  [[ -z ${1:-} ]] || cri=(--cri "$1")
  setsid "$BIN/test-kubelet" serve --kubelet-dir "$kubelet_dir" --socket "$kubelet_socket" \
    --cgroup-parent "/$PODLANE_CGROUP" "${cri[@]}" >>"$PODLANE_WORK/kubelet.log" 2>&1 &
  KUBELET_PID=$!
  eventually "${PODLANE_PATIENCE:-10}" kubelet resources || die "the test kubelet does not answer: $(tail -n 3 "$PODLANE_WORK/kubelet.log")"
}
kubelet_stop() {
  [[ -n ${KUBELET_PID:-} ]] && stop_process "$KUBELET_PID"
  KUBELET_PID=
}
kubelet() { "$BIN/test-kubelet" ctl --socket "$kubelet_socket" "$@"; }

cni_install() {
  local plugin
  for plugin in loopback ptp host-local bridge; do ln -sf "/usr/lib/cni/$plugin" "/opt/cni/bin/$plugin"; done
  install -m 755 "$BIN/podlane" /opt/cni/bin/podlane
}

ptp_conf='{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}}'
podlane_conf='{"type":"podlane","capabilities":{"io.kubernetes.cri.pod-annotations":true},"tun":{"name":"lane0"}}'

cni_write_conflist() { # cni_write_conflist DIRECTORY
  jq -n --argjson ptp "$ptp_conf" --argjson podlane "$podlane_conf" --arg name "$conflist_name" \
    '{cniVersion:"1.0.0",name:$name,plugins:[$ptp,$podlane]}' >"$1/.new"
  mv "$1/.new" "$1/10-$conflist_name.conflist"
}

# ---- Pods as bare namespaces: test kubelet for Allocate, then the chain by hand as libcni runs it. --------------------

# cni_call VERB POD PLUGIN CONF: the plugin's output.
cni_call() {
  CNI_COMMAND=$1 CNI_CONTAINERID=bare-$2 CNI_NETNS=/run/netns/$2 CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=$2;K8S_POD_INFRA_CONTAINER_ID=bare-$2;K8S_POD_UID=uid-$2" \
    "/opt/cni/bin/$3" <<<"$4" 2>>"$PODLANE_WORK/cni.log"
}
cni_conf() { # cni_conf PLUGIN_JSON ANNOTATIONS_JSON PREV_RESULT_JSON
  jq -nc --argjson plugin "$1" --argjson annotations "$2" --argjson prev "$3" --arg name "$conflist_name" \
    '$plugin + {cniVersion:"1.0.0",name:$name}
     + (if $prev == null then {} else {prevResult:$prev} end)
     + (if $plugin.capabilities then {runtimeConfig:{"io.kubernetes.cri.pod-annotations":$annotations}} else {} end)'
}

# bare_pod NAME ANNOTATIONS_JSON [POOL]: sets nothing; its files are $PODLANE_WORK/pods/NAME.*.
bare_pod() {
  local name=$1 annotations=$2 pool=${3:-} prev files=$PODLANE_WORK/pods/$1
  mkdir -p "$PODLANE_WORK/pods"
  echo "$annotations" >"$files.annotations"
  : >"$files.env"
  if [[ -n $pool ]]; then
    jq -n --arg name "$name" --argjson annotations "$annotations" --arg resource "podlane.io/$pool" \
      '{metadata:{name:$name,annotations:$annotations},spec:{containers:[{name:"app",resources:{limits:{($resource):1}}}]}}' \
      >"$files.json"
    kubelet admit-pod "$files.json" >"$files.admitted"
    bare_pod_environment "$files.admitted" >"$files.env"
  fi
  ip netns add "$name"
  ip -n "$name" link set lo up
  prev=$(cni_call ADD "$name" ptp "$(cni_conf "$ptp_conf" "$annotations" null)") || { echo "$prev" >&2; return 1; }
  echo "$prev" >"$files.prev"
  if ! prev=$(cni_call ADD "$name" podlane "$(cni_conf "$podlane_conf" "$annotations" "$prev")"); then
    echo "$prev" >&2
    return 1
  fi
  echo "$prev" >"$files.result"
  [[ -z $pool ]] || kubelet pre-start "default/$name" app >/dev/null
}

# The lane directories by their paths on the host: a bare pod has no mount namespace of its own.
bare_pod_environment() {
  jq -r '[.. | objects | select(has("mounts"))] | .[0].mounts[]
    | "PODLANE_LANES_" + (.mountPath | split("/")[-1] | ascii_upcase | gsub("-"; "_")) + "=" + .hostPath' "$1"
}

# bare_command NAME: sets the array `bare` to what runs a command as a restricted pod's process: no uid 0, no capability, no
# new privileges. `"${bare[@]}" COMMAND &` gives the command's own process id, as each of these words execs the next.
bare_command() {
  local environment=()
  mapfile -t environment <"$PODLANE_WORK/pods/$1.env"
  bare=(nsenter --net="/run/netns/$1" -- setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all
    --no-new-privs env "${environment[@]}")
}
bare_exec() { # bare_exec NAME COMMAND…
  local bare
  bare_command "$1"
  shift
  "${bare[@]}" "$@"
}

bare_pod_remove() {
  local name=$1 files=$PODLANE_WORK/pods/$1 plugin_conf
  [[ -e $files.annotations ]] || return 0
  local annotations prev=null
  annotations=$(<"$files.annotations")
  [[ -e $files.result ]] && prev=$(<"$files.result")
  for plugin_conf in "$podlane_conf" "$ptp_conf"; do
    cni_call DEL "$name" "$(jq -r .type <<<"$plugin_conf")" "$(cni_conf "$plugin_conf" "$annotations" "$prev")" || true
  done
  ip netns del "$name" 2>/dev/null || true
  [[ -e $files.admitted ]] && kubelet forget-pod "default/$name" >/dev/null
  rm -f "$files".*
}

bare_lane_address() { ip -n "$1" -j -4 address show dev lane0 | jq -r '.[0].addr_info[0].local'; }

# A device that the kubelet once allocated keeps its directory until another pod gets it or ten minutes are over, because
# a pod's sandbox may be re-made without a new Allocate. Directories beyond those are left behind.
lane_directories_left() {
  local there reserved
  there=$(find /run/podlane/lanes -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)
  reserved=$(jq '[.lanes[] | select(.state == "reserved")] | length' /run/podlane/lanes.json 2>/dev/null || echo 0)
  ((there <= reserved)) || echo "$there lane directories for $reserved reserved lanes"
}

# Pools taken out of the configuration: what the device plugin then leaves on the node. Nothing printed is good.
daemon_without_pools_leftovers() {
  daemon_stop
  echo '{ "pools": [] }' >"$PODLANE_WORK/podlane.json"
  daemon_start
  eventually 5 no_traces || true
  traces
  daemon_stop
}
no_traces() { [[ -z $(traces) ]]; }
traces() {
  ip -o -d link | grep -oE '^[0-9]+: nic[01]@.*xdp' || true
  find /sys/fs/bpf/podlane -name 'nic-*' 2>/dev/null || true
}

# ---- What must not be there when all pods are gone. Prints what is; nothing printed is good. ------------------------

node_leftovers() {
  ip -o link | grep -vE ' (lo|nic0|nic1|nic2)[@:]' || true
  ip netns list | grep -vw far || true
  ip rule | grep -vE 'lookup (local|main|default)' || true
  ip -4 route show table all | grep -E 'lane[0-9]' || true
  lane_directories_left
  find /var/lib/cni/networks -mindepth 2 -type f ! -name 'last_reserved_ip*' ! -name lock 2>/dev/null || true
  if [[ -e /run/podlane/lanes.json ]]; then
    jq -r '.. | objects | select(.pod? // "" != "") | "lane of pod " + .pod' /run/podlane/lanes.json
  fi
}
