#!/bin/bash
# Makes the container images from a build, as archives: scripts/images.sh [BUILD_DIRECTORY [OUTPUT_DIRECTORY [IMAGE…]]].
# Offline; nothing but files. See images/README.md for what is in each.
source "$(dirname "$0")/lib/oci.sh"

build=${1:-$PODLANE_SOURCE/build/release}
output=${2:-$PODLANE_SOURCE/build/images}
images=("${@:3}")
((${#images[@]} > 0)) || images=(pause node relay examples)
tag=${PODLANE_TAG:-dev}
bin=$build/bin
[[ -x $bin/podlane ]] || die "$bin/podlane is not there: build first (cmake --preset release && cmake --build --preset release)"
mkdir -p "$output"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# place IMAGE FILE PATH: stripped copy, with its libraries.
place() {
  local stripped=$stage/stripped
  strip -o "$stripped" "$2"
  oci_add_program "$stage/$1" "$stripped" "$3"
}
small_program() { cc -std=gnu17 -O2 -Wall -Wextra -Werror -static -s -o "$2" "$PODLANE_SOURCE/images/$1"; }

# Sandbox of every pod of the demo. A real cluster has its own.
image_pause() {
  mkdir -p "$stage/pause"
  small_program pause.c "$stage/pause/pause"
  oci_image "$stage/pause" "podlane.io/pause:$tag" "$output/pause.tar" '{"Entrypoint":["/pause"],"User":"65535:65535"}'
}

# The node: device plugin with its libraries, CNI binary and its installer, node config, podlanectl. The runtime names namespaces by
# /var/run/netns.
image_node() {
  mkdir -p "$stage/node"/{tmp,run,var}
  ln -s ../run "$stage/node/var/run"
  place node "$bin/podlane" /usr/libexec/podlane/podlane
  place node "$bin/podlane-deviceplugin" /usr/bin/podlane-deviceplugin
  place node "$bin/podlane-nodeconfig" /usr/bin/podlane-nodeconfig
  place node "$bin/podlanectl" /usr/bin/podlanectl
  place node "$bin/podlane-cni-installer" /usr/bin/podlane-cni-installer
  oci_image "$stage/node" "podlane.io/node:$tag" "$output/node.tar" \
    '{"Entrypoint":["/usr/bin/podlane-deviceplugin"],"Env":["PATH=/usr/bin"]}'
}

# The pod's side: static, nothing else in it.
image_relay() {
  place relay "$bin/podlane-relay" /podlane-relay
  place relay "$bin/podlanectl-pod" /podlanectl
  oci_image "$stage/relay" "podlane.io/relay:$tag" "$output/relay.tar" \
    '{"Entrypoint":["/podlane-relay"],"Env":["PATH=/"],"User":"65534:65534"}'
}

# Example programs, and what the demo and the benchmarks run in pods.
image_examples() {
  local program
  mkdir -p "$stage/examples/usr/bin"
  small_program pause.c "$stage/examples/usr/bin/pause"
  for program in echo_direct feed_reader podlanectl bench_rtt bench_naive_relay bench_flood bench_lane_flood bench_tcp; do
    [[ ! -x $bin/$program ]] || place examples "$bin/$program" "/usr/bin/$program"
  done
  oci_image "$stage/examples" "podlane.io/examples:$tag" "$output/examples.tar" \
    '{"Entrypoint":["/usr/bin/echo_direct"],"Env":["PATH=/usr/bin"],"User":"65534:65534"}'
}

for image in "${images[@]}"; do
  "image_$image"
  printf '%-9s %8d KiB archive %8d KiB unpacked\n' "$image" "$(($(stat -c %s "$output/$image.tar") / 1024))" \
    "$(du -sk --apparent-size "$stage/$image" | cut -f1)"
done
