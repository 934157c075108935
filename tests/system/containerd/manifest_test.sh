#!/bin/bash
# The device plugin in a container as manifests/30-daemonset.yaml says: image, command, capabilities, mounts, read-only root,
# default seccomp, memory limit. Then pods in containerd get lanes from it and carry packets.
source "$(dirname "$0")/checks.sh"
export PODLANE_BIN
backend=containerd count=500
manifest=$PODLANE_SOURCE/manifests/30-daemonset.yaml

if ! node_inside; then
  "$PODLANE_SOURCE/scripts/images.sh" "$(dirname "$PODLANE_BIN")" "$(dirname "$PODLANE_BIN")/images" >/dev/null
  before=$(host_picture)
  node_run "$@"
  [[ $before == "$(host_picture)" ]] || die "the machine is not as before: $(diff <(echo "$before") <(host_picture))"
  exit
fi

ctr() { command ctr -a "$CONTAINERD_SOCKET" -n k8s.io "$@"; }

# "NAME PATH" of each hostPath volume.
manifest_volumes() {
  awk '$1 == "-" && $2 == "name:" { name = $3 } $1 == "hostPath:" { sub(/,$/, "", $4); print name, $4 }' "$manifest"
}
manifest_container() { awk -v name="$1" '/^        - name: / { on = $3 == name } /^      volumes:/ { on = 0 } on' "$manifest"; }
# "NAME PATH OPTIONS" of each mount of a container.
manifest_mounts() {
  manifest_container "$1" | awk '/^ *volumeMounts:/ { on = 1; next } !on { next }
    $1 == "-" && $2 == "name:" { flush(); name = $3; path = ""; mode = "rw"; way = "rprivate" }
    $1 == "mountPath:" { path = $2 }
    $1 == "readOnly:" && $2 == "true" { mode = "ro" }
    $1 == "mountPropagation:" && $2 == "HostToContainer" { way = "rslave" }
    function flush() { if (path != "") print name, path, "rbind:" mode ":" way }
    END { flush() }'
}
manifest_command() { # One word a line.
  manifest_container "$1" | sed -nE 's/^ *command: \["(\/usr\/bin\/[a-z-]+)"\]$/\1/p; /^ *args:/,/^ *securityContext:/s/^ *- ([^ ]+)$/\1/p'
}
manifest_memory_mib() { # limits: memory of the container, in whichever order YAML is written.
  manifest_container "$1" | sed -nE '/limits:/,/requests:|volumeMounts/s/.*memory: ([0-9]+)Mi.*/\1/p' | head -n 1
}

# What ctr gives a container by itself and the manifest drops. ctr drops after it adds.
ctr_default_capabilities="CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE"

# container_start NAME CAPABILITIES [VOLUME…]: one container of the DaemonSet's pod; volumes that it may write, beside.
container_start() {
  local container=$1 wanted=$2 one name path options source
  local writable=" ${*:3} "
  local arguments=(--read-only --seccomp --net-host --memory-limit "$(($(manifest_memory_mib "$container") << 20))")
  local -A volumes=([config]=$PODLANE_WORK/etc [profile]=$PODLANE_WORK/profile)
  for one in $ctr_default_capabilities; do [[ " $wanted " == *" $one "* ]] || arguments+=(--cap-drop "CAP_$one"); done
  for one in $wanted; do arguments+=(--cap-add "CAP_$one"); done
  while read -r name path; do volumes[$name]=$path; done < <(manifest_volumes)
  while read -r name path options; do
    source=${volumes[$name]:?no volume of that name in the manifest}
    [[ $writable != *" $name "* ]] || options=${options/:ro:/:rw:}
    arguments+=(--mount "type=bind,src=$source,dst=$path,options=$options")
  done < <(manifest_mounts "$container")
  mapfile -t one < <(manifest_command "$container")
  ctr run -d --snapshotter native --cgroup "/$PODLANE_CGROUP/$container" --log-uri "file://$PODLANE_WORK/$container.log" \
    "${arguments[@]}" podlane.io/node:dev "$container" "${one[@]}"
}
container_pid() { ctr tasks ls | awk -v name="$1" '$1 == name && $3 == "RUNNING" { print $2 }'; }
container_ended() { [[ -z $(container_pid "$1") ]]; }
container_stop() {
  ctr tasks kill -s SIGTERM "$1" 2>/dev/null || true
  eventually 5 container_ended "$1" || true
  ctr tasks delete --force "$1" >/dev/null 2>&1 || true
  ctr containers delete "$1" 2>/dev/null || true
}
daemon_container_start() {
  mkdir -p "$PODLANE_WORK/etc" /run/podlane /var/lib/podlane
  daemon_write_config "$PODLANE_WORK/etc/podlane.json"
  container_start deviceplugin "$(manifest_capabilities | tr 'a-z,+' 'A-Z  ')"
}

daemon_runs_as_the_manifest_says() {
  must eventually 15 http_get /readyz || return 1
  local status
  status=/proc/$(container_pid deviceplugin)/status
  expect "no new privileges" grep -q '^NoNewPrivs:.1$' "$status"
  expect "seccomp filter" grep -q '^Seccomp:.2$' "$status"
  # NET_ADMIN 12, NET_RAW 13, IPC_LOCK 14, SYS_ADMIN 21, BPF 39.
  expect "the five capabilities and no more" grep -q '^CapEff:.0000008000207000$' "$status"
}
relay_on_a_queue_lane() { carries relay queue; }
relay_on_a_veth_lane() { carries relay veth; }
direct_on_a_queue_lane() { carries direct queue; }
direct_on_a_veth_lane() { carries direct veth; }
carries() {
  local name=$1-$2
  must demo_pod "$name" "$1" "$2" interrupt || return 1
  [[ $1 == direct ]] || must eventually 10 demo_lane_serving "$name" || return 1
  expect "round trips" demo_ask "$name" "$1" "$2" blocking "$(demo_far "$2")" >"$PODLANE_WORK/asked"
  expect "podlanectl names the pod" grep -q "default/$name/" <(ctr tasks exec --exec-id "$name" deviceplugin podlanectl lanes)
  demo_pod_remove "$name"
}
# As the manifest has it: it looks and changes nothing.
node_config_looks_without_a_capability() {
  mkdir -p "$PODLANE_WORK/profile"
  sed -n '/^  node-profile.json: |/,$s/^    //p' "$PODLANE_SOURCE/manifests/21-configmap-profile.yaml" >"$PODLANE_WORK/profile/node-profile.json"
  container_start nodeconfig ""
  expect "no capability" grep -q '^CapEff:.0000000000000000$' "/proc/$(container_pid nodeconfig)/status"
  expect "its report" eventually 15 node_config_says '.profile == "example" and (.changes | length) > 0'
  expect "nothing failed" node_config_says '[.changes[].outcome] | index("failed") | not'
  expect "nothing journaled" test ! -s /run/podlane/nodeconfig-changes.jsonl
  container_stop nodeconfig
}
node_config_says() { jq -e "$1" /run/podlane/nodeconfig.json >/dev/null; }
# As the chart has it with mode enforce (tests/chart: TestNodeConfigHasWhatItsProfileNeeds).
node_config_writes_with_one_capability() {
  local before
  before=$(cat /sys/class/net/nic0/tx_queue_len)
  echo '{"mode":"enforce","nics":[{"match":{"name":"nic0"},"txQueueLen":777}]}' >"$PODLANE_WORK/profile/node-profile.json"
  container_start nodeconfig NET_ADMIN host-proc host-sys
  expect "in force" eventually 15 node_config_says '[.changes[].outcome] == ["in-force"]'
  expect "written" test "$(cat /sys/class/net/nic0/tx_queue_len)" = 777
  container_stop nodeconfig
  expect "its end changes nothing" test "$(cat /sys/class/net/nic0/tx_queue_len)" = 777
  # Before an uninstall the chart leaves mode enforce alone in the profile.
  echo '{"mode":"enforce"}' >"$PODLANE_WORK/profile/node-profile.json"
  container_start nodeconfig NET_ADMIN host-proc host-sys
  expect "ready for the uninstall" eventually 15 node_config_has_nothing_to_do
  expect "taken back" test "$(cat /sys/class/net/nic0/tx_queue_len)" = "$before"
  container_stop nodeconfig
}
node_config_has_nothing_to_do() { ctr tasks exec --exec-id "plan$RANDOM" nodeconfig podlane-nodeconfig plan --root=/host --run-dir=/run/podlane >/dev/null; }
namespaces_of_pods_are_seen_by_path() {
  expect "no warning in the daemon's log" not_in_log "network namespace is not seen here"
}
not_in_log() { ! grep "$1" "$PODLANE_WORK/deviceplugin.log"; }
nothing_is_left_behind() {
  eventually 10 no_leftovers || true
  expect "nothing left: $(node_leftovers)" no_leftovers
}
no_leftovers() { [[ -z $(node_leftovers) ]]; }

node_setup
mount --make-shared /run # As systemd does: without it no mount of the node reaches a container.
network_start
cni_install
containerd_start "$PODLANE_WORK/containerd"
defer containerd_stop
containerd_import "$(dirname "$BIN")"/images/{pause,relay,examples,node}.tar
cni_write_conflist "$CNI_CONF_DIR"
kubelet_start "$CONTAINERD_SOCKET"
defer kubelet_stop
daemon_container_start
defer container_stop deviceplugin
for one in daemon_runs_as_the_manifest_says relay_on_a_queue_lane relay_on_a_veth_lane direct_on_a_queue_lane \
  direct_on_a_veth_lane node_config_looks_without_a_capability \
  node_config_writes_with_one_capability namespaces_of_pods_are_seen_by_path nothing_is_left_behind; do
  run_case "$one"
done
finish
