# Debian's containerd, for real, inside a scratch node (node.sh): own root, state, sockets and CNI directories under one
# directory. Sourced. Needs the packages containerd and runc.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# containerd_start DIRECTORY: sets CONTAINERD_SOCKET, CNI_BIN_DIR, CNI_CONF_DIR. The pause image must be imported before
# the first pod: containerd_import.
containerd_start() {
  local dir=$1
  CONTAINERD_DIR=$dir
  CONTAINERD_SOCKET=/run/containerd/containerd.sock
  CNI_BIN_DIR=/opt/cni/bin
  CNI_CONF_DIR=$dir/net.d
  mkdir -p "$dir" "$CNI_BIN_DIR" "$CNI_CONF_DIR" /run/containerd
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower it and dies with "can't get final child's PID".
  # native snapshotter: a plain copy; works where overlayfs cannot be stacked.
  cat >"$dir/config.toml" <<TOML
version = 2
root = "$dir/root"
state = "/run/containerd"
[grpc]
  address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "podlane.io/pause:dev"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI_BIN_DIR"
    conf_dir = "$CNI_CONF_DIR"
TOML
  # A session of its own: a signal for the script's group must not end containerd before its pods.
  setsid containerd --config "$dir/config.toml" >"$dir/containerd.log" 2>&1 &
  CONTAINERD_PID=$!
  eventually 20 ctr -a "$CONTAINERD_SOCKET" version ||
    die "containerd does not answer; its log ends: $(tail -n 3 "$dir/containerd.log")"
}

# containerd_import ARCHIVE…
containerd_import() {
  local archive
  for archive in "$@"; do
    ctr -a "$CONTAINERD_SOCKET" -n k8s.io images import --snapshotter native "$archive" >/dev/null
  done
}

# Pods must have been removed by whoever made them; what a failure has left is ended here.
containerd_stop() {
  [[ -n ${CONTAINERD_PID:-} ]] || return 0
  local task
  for task in $(ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks ls -q 2>/dev/null); do
    ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks kill -s SIGKILL "$task" >/dev/null 2>&1 || true
    ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks delete --force "$task" >/dev/null 2>&1 || true
  done
  stop_process "$CONTAINERD_PID" 10
  local mounted
  while read -r mounted; do
    umount -l "$mounted" 2>/dev/null || true
  done < <(cut -d' ' -f5 /proc/self/mountinfo | grep -E "^($CONTAINERD_DIR|/run/containerd|/run/netns)/" | sort -r)
  CONTAINERD_PID=
}
