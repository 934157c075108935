#!/bin/bash
# podlane end to end on this machine, with nothing of the machine touched: a scratch node (scripts/lib/node.sh) with Debian's
# containerd, a test kubelet, the device plugin and two veth "NICs"; pods through the CRI; one table; then the proofs.
#
#   scripts/demo.sh [--netns] [--count N] [--build DIRECTORY]
#
# --netns: the same with bare namespaces, the CNI binary run by hand, no containerd; under a minute.
# Needs root on Debian 12. Ends with status 0 only when every proof holds.
source "$(dirname "$0")/lib/lanes.sh"
source "$(dirname "$0")/lib/containerd.sh"
source "$(dirname "$0")/lib/demo_pods.sh"
source "$(dirname "$0")/lib/demo_proofs.sh"

backend=containerd count=20000 build=
while (($# > 0)); do
  case $1 in
    --netns) backend=bare ;;
    --count) count=$2 && shift ;;
    --build) build=$2 && shift ;;
    *) die "unknown option '$1': use --netns, --count N, --build DIRECTORY" ;;
  esac
  shift
done

demo_outside() {
  need_root
  "$PODLANE_SOURCE/scripts/setup.sh"
  if [[ -z $build ]]; then
    build=$PODLANE_SOURCE/build/release
    note "building (release)"
    (cd "$PODLANE_SOURCE" && cmake --preset release >/dev/null && cmake --build "$build" --target demo_parts >/dev/null) ||
      die "the build failed: cmake --build --preset release"
  fi
  export PODLANE_BIN=$build/bin
  if [[ $backend == containerd ]]; then
    note "images"
    "$PODLANE_SOURCE/scripts/images.sh" "$build" "$build/images"
  fi
  local before after status=0
  before=$(host_picture)
  node_run "$@" || status=$?
  after=$(host_picture)
  note "the machine itself: links, namespaces, mounts, BPF pins, run directories"
  if [[ $before == "$after" ]]; then
    say "as before"
  else
    diff <(echo "$before") <(echo "$after") || true
    status=1
  fi
  return "$status"
}

demo_machine() {
  note "machine"
  say "podlane $("$BIN/podlane-relay" --version 2>&1 | head -n 1), commit $(git -C "$PODLANE_SOURCE" rev-parse --short HEAD 2>/dev/null || echo unknown)"
  say "kernel $(uname -r), $(nproc) CPUs ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)), $(. /etc/os-release && echo "$PRETTY_NAME")"
  say "load $(cut -d' ' -f1-3 /proc/loadavg); CPUs not isolated; virtual machine; veth NICs, native XDP, copy mode"
  [[ $backend == bare ]] || say "$(containerd --version), $(runc --version | head -n 1)"
}

demo_inside() {
  node_setup
  mount -t tracefs tracefs /sys/kernel/tracing
  demo_machine
  network_start
  cni_install
  if [[ $backend == containerd ]]; then
    containerd_start "$PODLANE_WORK/containerd"
    defer containerd_stop
    containerd_import "$(dirname "$BIN")"/images/{pause,relay,examples}.tar
    cni_write_conflist "$CNI_CONF_DIR"
    kubelet_start "$CONTAINERD_SOCKET"
  else
    kubelet_start
  fi
  defer kubelet_stop
  daemon_start
  defer daemon_stop
  say "device plugin: uid 0 with $(manifest_capabilities), $(ip -o link show nic0 | grep -o ' xdp[a-z]* ' | tr -d ' ' || true) on nic0; UDP echo by XDP in namespace far"

  note "round trips: 64 bytes of UDP payload, one in flight, $count of them; packets: 64-byte frames one way"
  printf '%-16s %-6s %-10s %8s %8s %8s %10s %6s %6s\n' path lane mode 'p50 µs' 'p99 µs' p99.9 packets/s CPU% calls
  local mode kind path
  for mode in spinning interrupt; do
    demo_row plain none "$mode"
    demo_row naive none "$mode"
    for kind in queue veth; do
      for path in relay direct; do demo_row "$path" "$kind" "$mode"; done
    done
  done
  say "CPU% and calls (system calls per packet) are of the program and of its relay together; 100 = one CPU."
  say "A veth lane buys isolation and universality, not speed. The spinning program is on CPU 0, the relay on CPU 1."

  proof_traffic_beside_direct
  proof_teardown
  proofs_result
}

if node_inside; then
  demo_inside
else
  arguments=()
  [[ $backend == bare ]] && arguments+=(--netns)
  demo_outside "${arguments[@]}" --count "$count"
fi
