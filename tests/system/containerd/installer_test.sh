#!/bin/bash
# The CNI installer in its container as manifests/30-daemonset.yaml says, on a node whose list is the primary network's alone: the
# list before and after, pods with and without lanes, a primary that rewrites, and uninstall.
source "$(dirname "$0")/checks.sh"
export PODLANE_BIN
backend=containerd count=200
manifest=$PODLANE_SOURCE/manifests/30-daemonset.yaml

if ! node_inside; then
  "$PODLANE_SOURCE/scripts/images.sh" "$(dirname "$PODLANE_BIN")" "$(dirname "$PODLANE_BIN")/images" >/dev/null
  before=$(host_picture)
  node_run "$@"
  [[ $before == "$(host_picture)" ]] || die "the machine is not as before: $(diff <(echo "$before") <(host_picture))"
  exit
fi

ctr() { command ctr -a "$CONTAINERD_SOCKET" -n k8s.io "$@"; }

# A list as a network's own installer writes it, in a manner of its own.
primary_write() {
  printf '{ "cniVersion": "1.0.0",\n  "name": "base", "x-unknown": 1.50,\n  "plugins": [\n    %s\n  ]\n}\n' "$ptp_conf" >"$CNI_CONF_DIR/.tmp"
  mv "$CNI_CONF_DIR/.tmp" "$CNI_CONF_DIR/10-base.conflist"
}
list() { cat "$CNI_CONF_DIR/10-base.conflist"; }
list_names_us() { grep -q '"type":"podlane"' "$CNI_CONF_DIR/10-base.conflist"; }
list_is_the_primarys() { [[ $(list) == "$original" ]]; }

# What ctr gives a container by itself and the manifest drops.
ctr_default_capabilities="CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE"

installer_start() { # installer_start [FLAG…]
  local arguments=(--read-only --seccomp --net-host) one
  for one in $ctr_default_capabilities; do arguments+=(--cap-drop "CAP_$one"); done
  arguments+=(--mount "type=bind,src=/opt/cni/bin,dst=/opt/cni/bin,options=rbind:rw"
    --mount "type=bind,src=$CNI_CONF_DIR,dst=/etc/cni/net.d,options=rbind:rw"
    --mount "type=bind,src=/var/lib/cni,dst=/var/lib/cni,options=rbind:ro"
    --mount "type=bind,src=/run/podlane,dst=/run/podlane,options=rbind:rw")
  mapfile -t one < <(sed -nE 's/^ *command: (\["\/usr\/bin\/podlane-cni-installer","run".*\])$/\1/p' "$manifest" | jq -r '.[]')
  ((${#one[@]} > 2)) || die "no command of the installer in $manifest"
  ctr run -d --snapshotter native --cgroup "/$PODLANE_CGROUP/installer" --log-uri "file://$PODLANE_WORK/installer.log" \
    "${arguments[@]}" podlane.io/node:dev installer "${one[@]}" "$@"
}
installer_ended() { [[ -z $(ctr tasks ls | awk '$1 == "installer" && $3 == "RUNNING"') ]]; }
installer_stop() {
  ctr tasks kill -s SIGTERM installer 2>/dev/null || true
  eventually 5 installer_ended || true
  ctr tasks delete --force installer >/dev/null 2>&1 || true
  ctr containers delete installer 2>/dev/null || true
}
probe_serial=0
probe() {
  probe_serial=$((probe_serial + 1))
  ctr tasks exec --exec-id "probe$probe_serial" installer podlane-cni-installer status --run-dir=/run/podlane >"$PODLANE_WORK/probe" 2>&1
}
probe_fails() { ! probe; }
probe_says() { probe || true; grep -q "$1" "$PODLANE_WORK/probe"; }

plain_pod() {
  must demo_pod "$1" plain none interrupt || return 1
  demo_pod_remove "$1"
}
lane_pod() {
  must demo_pod "$1" direct veth interrupt || return 1
  expect "round trips" demo_ask "$1" direct veth blocking "$(demo_far veth)" >"$PODLANE_WORK/asked"
  demo_pod_remove "$1"
}

waits_for_the_device_plugin_and_edits_nothing() {
  must installer_start || return 1
  expect "the binary is first" eventually 10 test -x /opt/cni/bin/podlane
  expect "not ready, and says why" eventually 10 probe_says control.sock
  expect "not ready" probe_fails
  expect "the list as it was" list_is_the_primarys
  expect "no capability" grep -q '^CapEff:.0000000000000000$' "/proc/$(ctr tasks ls | awk '$1 == "installer" { print $2 }')/status"
  plain_pod before
}
chains_once_the_device_plugin_answers() {
  daemon_start
  defer daemon_stop
  expect "the entry" eventually 10 list_names_us
  expect "ready" eventually 10 probe
  expect "nothing but ours was added" test "$(list | sed 's/,{"type":"podlane"[^]]*}$//')" == "$original"
  lane_pod first && plain_pod beside
}
survives_a_rewrite_by_the_primary() {
  primary_write
  expect "the entry is back" eventually 10 list_names_us
  expect "ready" eventually 10 probe
  lane_pod second
}
leaves_the_node_alone_when_it_ends() {
  installer_stop
  expect "the entry stays" list_names_us
  expect "the binary stays" test -x /opt/cni/bin/podlane
  lane_pod third && plain_pod meanwhile
}
uninstalls_without_a_trace() {
  must installer_start --uninstall || return 1
  expect "the list, byte by byte" eventually 10 list_is_the_primarys
  expect "no binary" eventually 10 test ! -e /opt/cni/bin/podlane
  expect "ready" eventually 10 probe_says uninstalled
  plain_pod after
  installer_stop
}
keeps_the_binary_for_pods_that_were_made_with_it() {
  must installer_start || return 1
  must eventually 10 list_names_us || return 1
  must demo_pod stays direct veth interrupt || return 1
  installer_stop
  must installer_start --uninstall || return 1
  expect "the list, byte by byte" eventually 10 list_is_the_primarys
  expect "says that the binary stays" eventually 10 probe_says "stays for the DEL of 1 pods"
  expect "the binary stays" test -x /opt/cni/bin/podlane
  demo_pod_remove stays
  # Without DEL: the device plugin takes the lane back by itself.
  expect "the lane is taken back" eventually 90 no_lane_of stays
  installer_stop
}
no_lane_of() { ! jq -e --arg pod "$1" '.. | objects | select(.pod? == $pod)' /run/podlane/lanes.json >/dev/null; }

node_setup
mount --make-shared /run
network_start
cni_install
rm -f /opt/cni/bin/podlane
mkdir -p /run/podlane /var/lib/cni
containerd_start "$PODLANE_WORK/containerd"
defer containerd_stop
containerd_import "$(dirname "$BIN")"/images/{pause,relay,examples,node}.tar
primary_write
original=$(list)
kubelet_start "$CONTAINERD_SOCKET"
defer kubelet_stop
defer installer_stop
for one in waits_for_the_device_plugin_and_edits_nothing chains_once_the_device_plugin_answers survives_a_rewrite_by_the_primary \
  leaves_the_node_alone_when_it_ends uninstalls_without_a_trace keeps_the_binary_for_pods_that_were_made_with_it; do
  run_case "$one"
done
finish
