# A scratch node: this script again, inside mount, network, pid, ipc and uts namespaces of its own, so that the machine's
# own interfaces, containers and files stay as they are, and so that everything dies with it.
#
# How it works
# - node_run re-executes the calling script with `unshare`. The parent stays outside and waits; it hands INT and TERM on
#   to the inside, which then tears down in order. If the parent is killed, the kernel kills the inside (--kill-child),
#   and with it every process in its pid namespace.
# - Inside, node_setup gives it what a machine has: a /run, /opt and /var/lib of its own (empty tmpfs, so that the
#   product's and the kubelet's default paths can be used as they are), a /sys that shows its own interfaces, a bpf file
#   system of its own, and the machine's cgroups.
# - Control groups are the one thing that no namespace takes away: node_run removes what is left under the parent group
#   $PODLANE_CGROUP, and says so, because it should have been empty.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

node_inside() { [[ ${PODLANE_NODE_INSIDE:-} == yes ]]; }

# node_run ARGUMENTS…: runs the calling script with these arguments inside a scratch node; returns its status.
# PODLANE_WORK is a fresh directory on disk, shared with the inside, removed at the end.
node_run() {
  need_root
  PODLANE_WORK=$(mktemp -d "${TMPDIR:-/tmp}/podlane-node.XXXXXX")
  PODLANE_CGROUP=$(basename "$PODLANE_WORK")
  export PODLANE_WORK PODLANE_CGROUP PODLANE_NODE_INSIDE=yes
  local status=0 child
  # Job control puts the inside into a process group of its own and leaves SIGINT as it is there.
  set -m
  unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc "$BASH" "$0" "$@" </dev/null &
  child=$!
  set +m
  trap 'kill -TERM -- -'"$child"' 2>/dev/null || true' INT TERM HUP
  trap 'kill -KILL -- -'"$child"' 2>/dev/null || true' QUIT
  while true; do
    status=0
    wait "$child" || status=$?
    process_ended "$child" && break
  done
  trap - INT TERM HUP QUIT
  node_remove_cgroups
  rm -rf --one-file-system "$PODLANE_WORK"
  return "$status"
}

node_cgroup_leftovers() {
  find /sys/fs/cgroup -mindepth 2 -type d -path "*/$PODLANE_CGROUP*" -prune 2>/dev/null || true
}
node_remove_cgroups() {
  local group
  while read -r group; do
    find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || warn "control group left: $group"
  done < <(node_cgroup_leftovers)
}

# memory_group NAME: makes a control group of this node that counts memory, of either version; prints its folder.
memory_group() {
  local root=/sys/fs/cgroup/memory group
  if [[ ! -d $root ]]; then
    root=/sys/fs/cgroup
    echo +memory >"$root/cgroup.subtree_control"
    mkdir -p "$root/$PODLANE_CGROUP"
    echo +memory >"$root/$PODLANE_CGROUP/cgroup.subtree_control"
  fi
  group=$root/$PODLANE_CGROUP/$1
  mkdir -p "$group"
  echo "$group"
}

node_setup() {
  # The first process of a pid namespace gets no signal that it has no handler for (pid_namespaces(7)).
  trap 'exit 143' TERM
  trap 'exit 130' INT
  trap run_deferred EXIT
  mount --make-rprivate /
  local saved=$PODLANE_WORK/cgroup
  mkdir -p "$saved"
  mount --rbind /sys/fs/cgroup "$saved"
  mount -t sysfs sysfs /sys
  mount --rbind "$saved" /sys/fs/cgroup
  umount -l "$saved"
  rmdir "$saved"
  mount -t bpf bpf /sys/fs/bpf
  local place
  for place in /run /opt /var/lib; do
    mount -t tmpfs -o mode=755 "podlane-$(basename "$place")" "$place"
  done
  mkdir -p /run/netns /run/lock /opt/cni/bin /var/lib/cni /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources
  ip link set lo up
  hostname podlane-node
  sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 2>/dev/null || true
}

# node_nic NAME FAR ADDRESS FAR_ADDRESS: a veth as the node's NIC; its other end "wire0" is in a namespace FAR, the rest
# of the network. GRO on at both ends: native XDP_TX and redirects into a veth need NAPI at its peer (drivers/net/veth.c).
node_nic() {
  local nic=$1 far=$2 address=$3 far_address=$4
  ip netns list | grep -qw "$far" || { ip netns add "$far" && ip -n "$far" link set lo up; }
  ip link add "$nic" type veth peer name "wire-$nic" netns "$far"
  sysctl -qw "net.ipv6.conf.$nic.accept_dad=0"
  ip netns exec "$far" sysctl -qw "net.ipv6.conf.wire-$nic.accept_dad=0"
  ip address add "$address" dev "$nic"
  ip -n "$far" address add "$far_address" dev "wire-$nic"
  ethtool -K "$nic" gro on >/dev/null
  ip netns exec "$far" ethtool -K "wire-$nic" gro on tx off >/dev/null 2>&1
  ip link set "$nic" up
  ip -n "$far" link set "wire-$nic" up
}

# What of the machine must be as before: compared by the parent before and after.
host_picture() {
  echo "links: $(ip -o link | cut -d: -f2 | sort | tr -d '\n')"
  echo "netns: $({ ls /run/netns 2>/dev/null || true; } | sort | tr '\n' ' ')"
  echo "mounts: $(cut -d' ' -f5 /proc/self/mountinfo | sort | grep -vc '^$')"
  echo "bpf pins: $(find /sys/fs/bpf -mindepth 1 2>/dev/null | sort | tr '\n' ' ')"
  echo "run: $({ ls -d /run/podlane* /run/containerd /var/lib/podlane /opt/cni /etc/cni 2>/dev/null || true; } | tr '\n' ' ')"
}

# inside NETNS COMMAND…: unlike `ip netns exec`, which mounts a new /sys without control groups and bpf file system.
inside() {
  local netns=$1
  shift
  nsenter --net="/run/netns/$netns" -- "$@"
}
