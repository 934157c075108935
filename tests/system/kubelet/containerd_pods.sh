#!/bin/bash
# The test kubelet against Debian's containerd: a restricted pod really runs, really has nothing, and goes without a
# trace. Without lanes: the pods with lanes are the demo's and the end-to-end suite's. Usage: containerd_pods.sh BIN
PODLANE_SOURCE=${PODLANE_SOURCE:-$(cd "$(dirname "$0")/../../.." && pwd)}
source "$PODLANE_SOURCE/scripts/lib/node.sh"
source "$PODLANE_SOURCE/scripts/lib/containerd.sh"
source "$PODLANE_SOURCE/scripts/lib/oci.sh"

bin=$(realpath "${1:-${PODLANE_BIN:?folder of the built programs}}")
expect() { [[ $2 == *"$3"* ]] || die "$1: '$3' is not in: $2"; }

if ! node_inside; then
  node_run "$bin"
  exit 0
fi

node_setup
work=$PODLANE_WORK
mkdir -p "$work/pause" "$work/tools/tmp"
cc -std=gnu17 -O2 -static -s -o "$work/pause/pause" "$PODLANE_SOURCE/images/pause.c"
oci_image "$work/pause" podlane.io/pause:dev "$work/pause.tar" '{"Entrypoint":["/pause"],"User":"65535:65535"}'
for program in sh cat env sleep ls; do oci_add_program "$work/tools" "$(realpath "/bin/$program")" "/usr/bin/$program"; done
oci_image "$work/tools" podlane.io/tools:dev "$work/tools.tar" '{"Env":["PATH=/usr/bin"],"User":"65534:65534"}'

containerd_start "$work/containerd"
defer containerd_stop
cp /usr/lib/cni/{ptp,host-local,loopback} "$CNI_BIN_DIR"
cat >"$CNI_CONF_DIR/10-ptp.conflist" <<JSON
{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","dataDir":"$work/ipam","ranges":[[{"subnet":"10.88.0.0/24"}]]}}]}
JSON
containerd_import "$work/pause.tar" "$work/tools.tar"

"$bin/test-kubelet" serve --kubelet-dir "$work/kubelet" --socket "$work/ctl" --cri "$CONTAINERD_SOCKET" \
  --cgroup-parent "/$PODLANE_CGROUP" 2>"$work/kubelet.log" &
kubelet=$!
defer stop_process "$kubelet"
ctl() { "$bin/test-kubelet" ctl --socket "$work/ctl" "$@"; }
eventually 10 ctl resources

cat >"$work/pod.json" <<'JSON'
{"metadata":{"name":"plain","annotations":{"example.org/x":"y"}},
 "spec":{"initContainers":[{"name":"side","restartPolicy":"Always","image":"podlane.io/tools:dev","command":["sleep","1000"]}],
         "containers":[{"name":"app","image":"podlane.io/tools:dev","command":["sh","-c"],"args":["cat /proc/self/status; exec sleep 1000"],
                        "env":[{"name":"GREETING","value":"hello"}],"cpuset":"0",
                        "resources":{"limits":{"cpu":"1","memory":"64Mi"}}}]}}
JSON
answer=$(ctl run-pod "$work/pod.json")
expect "run-pod" "$answer" '"phase": "running"'
expect "run-pod" "$answer" '"ip": "10.88.0.'
log=$(sed -n 's/.*"log": "\(.*app.0.log\)".*/\1/p' <<<"$answer")
eventually 10 grep -q Seccomp "$log" || die "no log at '$log'"
status=$(tr -s '\t' ' ' <"$log")
for line in "CapInh: 0000000000000000" "CapPrm: 0000000000000000" "CapEff: 0000000000000000" "CapBnd: 0000000000000000" \
  "CapAmb: 0000000000000000" "NoNewPrivs: 1" "Seccomp: 2" "Uid: 65534 65534" "Gid: 65534 65534" "Cpus_allowed_list: 0"; do
  expect "inside the pod" "$status" "$line"
done
expect "environment" "$(ctl exec default/plain app -- env)" "GREETING=hello"
status=0
ctl exec default/plain app -- sh -c 'echo x >/x' >/dev/null 2>&1 || status=$?
[[ $status != 0 ]] || die "the root file system is writable"
status=0
ctl exec default/plain app -- sh -c 'exit 7' || status=$?
[[ $status == 7 ]] || die "exec gave $status instead of the command's 7"
memory=$(find /sys/fs/cgroup -path "*$PODLANE_CGROUP*" -name memory.limit_in_bytes -exec cat {} + ; find /sys/fs/cgroup -path "*$PODLANE_CGROUP*" -name memory.max -exec cat {} +)
expect "memory limit" "$memory" 67108864

ctl restart-container default/plain app
expect "after a restart" "$(ctl status)" "app.1.log"
before=$(ctl status | grep '"sandbox"')
ctl new-sandbox default/plain oldFirst=false
[[ $before != "$(ctl status | grep '"sandbox"')" ]] || die "the sandbox is the old one"
ctl restart
ctl remove-pod default/plain graceSeconds=0
expect "after remove" "$(ctl status)" '"pods": []'
[[ -z $(ls /run/netns) ]] || die "namespaces left: $(ls /run/netns)"
[[ -z $(find "$work/ipam/pods" -name '10.88.*') ]] || die "addresses left"
[[ -z $(ctr -a "$CONTAINERD_SOCKET" -n k8s.io containers ls -q) ]] || die "containers left"
say "passed: a restricted pod in containerd"
