#!/usr/bin/env bash
# Installs the Debian 12 packages that building, testing and the demo need, and mounts the BPF file system.
# May be run again at any time: silent and without the network when everything is there. Needs root.
set -euo pipefail

packages=(
  # Build: compilers, BPF tool chain, generators.
  build-essential cmake ninja-build ccache pkg-config clang llvm bpftool protobuf-compiler protobuf-compiler-grpc
  # Checks: clang-tidy 14 cannot parse std::expected, 19 can; libclang-rt holds libFuzzer.
  clang-19 clang-tidy-19 libclang-rt-19-dev clang-format
  # Libraries.
  libbpf-dev libxdp-dev libelf-dev zlib1g-dev libnl-3-dev libnl-route-3-dev libnl-genl-3-dev nlohmann-json3-dev
  libcli11-dev libfmt-dev libgrpc++-dev libprotobuf-dev prometheus-cpp-dev libevent-dev
  # Tests and demo.
  libgtest-dev libbenchmark-dev iproute2 iputils-ping ethtool strace libcap2-bin util-linux jq curl containerd runc
  containernetworking-plugins
  # tests/vm.
  qemu-system-x86 busybox-static e2fsprogs python3
  # tests/chart: Helm's own template engine.
  golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev golang-github-xeipuuv-gojsonschema-dev
)

say() { echo "setup: $*" >&2; }

# One query for all; it fails when it does not know one of them, which is no error here.
installed=" $(dpkg-query -W -f='${Package}=${Status} ' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  [[ $installed == *" $package=install ok installed "* ]] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    say "these packages are missing and installing them needs root: ${missing[*]}"
    exit 1
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  # The package lists may be old or absent; they are fetched only when installing without that fails.
  if ! "${install[@]}" >"$log" 2>&1; then
    if ! { apt-get update && "${install[@]}"; } >"$log" 2>&1; then
      tail -n 20 "$log" >&2
      say "apt-get failed, see above"
      exit 1
    fi
  fi
fi

if [ "$(stat -f -c %T /sys/fs/bpf 2>/dev/null)" != bpf_fs ]; then
  if [ "$(id -u)" != 0 ] || ! mount -t bpf bpf /sys/fs/bpf; then
    say "no BPF file system at /sys/fs/bpf and it cannot be mounted: BPF tests and the demo will fail"
  fi
fi
if [ ! -c /dev/net/tun ]; then
  say "no /dev/net/tun on this machine: TUN tests and the demo will fail (modprobe tun)"
fi
