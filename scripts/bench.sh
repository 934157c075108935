#!/bin/bash
# The benchmarks of design §8: one command, writes docs/benchmarks.md.
#   scripts/bench.sh [--rounds N] [--only WORD] [--build DIRECTORY] [--page FILE] [--pods "100 veth,500 tun"]
# Root, a quiet machine of two CPUs or more. --only runs the rows whose text has the word and writes no page unless --page
# is given. Ends with 1 when a must-row is missed.
source "$(dirname "$0")/lib/lanes.sh"
source "$(dirname "$0")/lib/packages.sh"

pods="100 veth,500 tun,500 veth" rounds=11 only= build=$PODLANE_SOURCE/build/release page=$PODLANE_SOURCE/docs/benchmarks.md
given=("$@")
while (($# > 0)); do
  case $1 in
    --rounds) rounds=$2 && shift ;;
    --only) only=$2 && page= && shift ;;
    --build) build=$2 && shift ;;
    --page) page=$2 && shift ;;
    --pods) pods=$2 && shift ;;
    *) die "unknown option '$1': use --rounds N, --only WORD, --build DIRECTORY, --page FILE, --pods LIST" ;;
  esac
  shift
done

environment() {
  echo "date       $(date -u +%Y-%m-%d)"
  echo "commit     $(git -C "$PODLANE_SOURCE" rev-parse --short HEAD 2>/dev/null || echo unknown), $(sed -n 's/^CMAKE_BUILD_TYPE:.*=//p' "$build/CMakeCache.txt" 2>/dev/null || echo unknown) build"
  echo "kernel     $(uname -r)"
  echo "CPU        $(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), governor $(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo none), isolated: $(cat /sys/devices/system/cpu/isolated 2>/dev/null | grep . || echo none)"
  echo "load       $(cut -d' ' -f1-3 /proc/loadavg) at the start"
  echo "NIC        veth pairs, native XDP, copy mode, GRO on; no busy polling on veth"
  echo "threads    the program on CPU 0, its peer or relay on CPU 1; far side of pods: XDP_TX reflector"
  echo "payload    64 bytes of UDP, one in flight, ${PODLANE_ROUND_TRIPS:-20000} round trips a round; packets a second: 64-byte frames"
}

wanted() { [[ -z $only || $1 == *"$only"* ]]; }
rows=
ratio() { # ratio ROW AGAINST A B ARGUMENTS…
  local row=$1 against=$2 a=$3 b=$4
  shift 4
  wanted "$row" || return 0
  note "$row, against $against"
  "$BIN/podlane-bench" compare --row "$row" --against "$against" --rounds "$rounds" --out "$rows" \
    --a "$PODLANE_SOURCE/scripts/lib/bench_rounds.sh $a" --b "$PODLANE_SOURCE/scripts/lib/bench_rounds.sh $b" "$@" ||
    warn "$row: not measured"
}
cni_ratio() { # cni_ratio ROW AGAINST A_ARGUMENTS B_ARGUMENTS ARGUMENTS…
  local row=$1 against=$2 a=$3 b=$4
  shift 4
  wanted "$row" || return 0
  note "$row, against $against"
  "$BIN/podlane-bench" compare --row "$row" --against "$against" --rounds "$rounds" --out "$rows" \
    --a "$BIN/bench_cni --count 20 --netns /run/netns/cni --cpu 0 $a" \
    --b "$BIN/bench_cni --count 20 --netns /run/netns/cni --cpu 0 $b" "$@" || warn "$row: not measured"
}
value() { # value ROW NUMBER UNIT ARGUMENTS…
  local row=$1 number=$2 unit=$3
  shift 3
  wanted "$row" || return 0
  "$BIN/podlane-bench" value --row "$row" --value "$number" --unit "$unit" --out "$rows" "$@"
}

bench_network() {
  network_start
  # Pairs without podlane: what it stands against must not pay for it.
  node_nic nic2 far 10.12.0.2/24 10.12.0.1/24
  node_nic udp0 far 10.13.0.2/24 10.13.0.1/24
  node_nic bare0 far 10.14.0.2/24 10.14.0.1/24
  node_nic nic3 far 10.15.0.2/24 10.15.0.1/24
  ip address flush dev nic3
  ip link set nic2 xdpdrv object "$BIN/pass.bpf.o" section xdp
  inside far ip link set wire-nic2 xdpdrv object "$BIN/reflect.bpf.o" section xdp
  ip -n far route replace 10.244.0.0/16 via 10.12.0.2
  # Both ends in the node: two pools, one wire.
  ip link add duo0 type veth peer name duo1
  ethtool -K duo0 gro on >/dev/null && ethtool -K duo1 gro on >/dev/null
  ip link set duo0 up && ip link set duo1 up
}
bench_config() {
  daemon_write_config "$PODLANE_WORK/podlane.json"
  local end pool=left at=100
  for end in duo0 duo1; do
    jq --arg pool "$pool" --arg netdev "$end" --arg start "10.11.0.$at" --arg stop "10.11.0.$((at + 50))" '.pools += [{name:$pool,
      lane:"queue",devices:{names:[$netdev]},trusted:true,subnets:["10.11.0.0/24"],
      ipam:{type:"host-local",ranges:[[{subnet:"10.11.0.0/24",rangeStart:$start,rangeEnd:$stop}]]}}]' \
      "$PODLANE_WORK/podlane.json" >"$PODLANE_WORK/.json" && mv "$PODLANE_WORK/.json" "$PODLANE_WORK/podlane.json"
    pool=right at=200
  done
}
relay_pod() { # relay_pod NAME POOL MODE: the relay waits stopped between its rounds.
  bare_pod "$1" "$(annotations relay "$2" "$3")" "$2"
  local bare
  bare_command "$1"
  "${bare[@]}" "$BIN/podlane-relay" --cpu 1 >"$PODLANE_WORK/$1.log" 2>&1 &
  echo "$!" >"$PODLANE_WORK/$1.pid"
  defer stop_process "$!"
  eventually 10 serving "$1" || die "relay of $1: $(tail -n 2 "$PODLANE_WORK/$1.log")"
  kill -STOP "$!"
}
relay_pod_remove() {
  kill -KILL "$(<"$PODLANE_WORK/$1.pid")"
  bare_pod_remove "$1"
}
serving() { [[ $(jq -r --arg pod "$1" '.lanes[] | select(.pod == $pod) | .state' /run/podlane/lanes.json) == serving ]]; }
annotations() { jq -nc --arg path "$1" --arg pool "$2" --arg mode "$3" '{"podlane.io/lanes":$pool,"podlane.io/path":$path,"podlane.io/mode":$mode}'; }

bench_allocate() {
  wanted "Allocate, 500 lanes" || return 0
  local round turns="$PODLANE_WORK/allocate.jsonl"
  note "Allocate, 500 lanes"
  for ((round = 0; round < rounds; round++)); do
    "$BIN/bench_allocate" --socket "$kubelet_dir/device-plugins/podlane-burst.sock" --count 500 --cpu 0 >>"$turns"
    # Lanes that were taken are given back slowly, when nobody has them: start from nothing again.
    daemon_stop
    find /run/podlane -mindepth 1 -delete
    daemon_start
  done
  value "Allocate, 500 lanes one after the other, p50, median of $rounds rounds" \
    "$(jq -s 'map(.p50_ns) | sort | .[length / 2 | floor] / 1e3 | round / 1e3' "$turns")" ms
  value "Allocate, 500 lanes one after the other, p99, median of $rounds rounds" \
    "$(jq -s 'map(.p99_ns) | sort | .[length / 2 | floor] / 1e3 | round / 1e3' "$turns")" ms --must 1
}

bench_ways() {
  bare_pod plain '{}'
  bare_pod naive '{}'
  nsenter --net=/run/netns/naive "$BIN/bench_naive_relay" --address 10.8.0.2/24 --to 10.12.0.1:7 --cpu 1 &
  echo "$!" >"$PODLANE_WORK/naive.pid"
  defer stop_process "$!"
  bare_pod left "$(annotations direct left spinning)" left
  bare_pod right "$(annotations direct right spinning)" right
  bare_pod dv "$(annotations direct burst spinning)" burst

  ratio "direct, both ends, one veth pair, spinning" "kernel UDP on a pair of the same make, spinning" direct-pair udp-pair \
    --must 0.75 --report 0.6 --reason "a bare ring loop on such a pair is at about 0.62 of kernel UDP here; both spend their time in the veth, its NAPI and the copy into the other CPU's ring"
  ratio "direct, both ends" "a bare hand-written ring loop" direct-pair ring-pair --report 1.10 \
    --reason "perf, cpu-clock: beside what both have, the first touch of the frame in parse_ip_packet (4 %), refill and receive (6 %), UDP and IP checksums, and lane_steer's look-up of the address on either end"

  bare_pod dq "$(annotations direct feed spinning)" feed
  ratio "direct on a queue lane" "a pod by kernel routing" direct-queue routed --must 0.85 --report 0.75
  bare_pod_remove dq
  ratio "direct on a veth lane" "a pod by kernel routing" direct-veth routed --report 1.15

  relay_pod rq feed spinning
  ratio "relay on a queue lane, unmodified program" "a pod by kernel routing" relay-queue routed --report 1.1 \
    --reason "each packet crosses the kernel's border three times more (TUN read, ring kick, TUN write) and changes CPU twice; perf, cpu-clock, of the worker: 23 % at the entries of readv, write and sendto, 24 % in softirqs with interrupts off, 12 % in the TUN; of our own code nothing above 2.2 %"
  ratio "relay on a queue lane, unmodified program" "a naive blocking TUN relay" relay-queue naive --must 0.6
  if [[ -e $package_cache/dpdk/complete ]]; then
    ratio "relay, packets a second, 64-byte frames" "DPDK testpmd between net_af_xdp and net_tap, same core" \
      relay-flood testpmd-flood --metric per_second --at-least --must 1.0 --report 1.5
  fi
  relay_pod_remove rq
  relay_pod ri feed interrupt
  ratio "relay on a queue lane, interrupt" "a naive blocking TUN relay, blocking program" relay-queue-interrupt naive-blocking
  relay_pod_remove ri
  relay_pod rv burst spinning
  relay_pod ri burst interrupt
  ratio "relay on a veth lane, spinning" "the same, interrupt" relay-veth relay-veth-interrupt
  relay_pod_remove rv
  relay_pod_remove ri
}

bench_cni() {
  ip netns add cni
  local dir=$PODLANE_WORK/cni plugins=$package_cache/cni-plugins/root/usr/lib/cni
  mkdir -p "$dir"
  echo '{"cniVersion":"1.0.0","name":"bench","type":"podlane","select":"all","tun":{"name":"tun0","owner":65534},"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/cni"}],"ips":[]}}' >"$dir/chained"
  echo '{"cniVersion":"1.0.0","name":"bench","type":"tap"}' >"$dir/tap"
  local ipam='"ipam":{"type":"host-local","ranges":[[{"subnet":"10.16.0.0/24"}]]}'
  echo '{"cniVersion":"1.0.0","name":"alone","type":"podlane","tun":{"owner":65534},'"$ipam"'}' >"$dir/alone"
  echo '{"cniVersion":"1.0.0","name":"ptp","type":"ptp",'"$ipam"'}' >"$dir/ptp"
  if [[ -e $package_cache/cni-plugins/complete ]]; then
    cni_ratio "CNI ADD, chained TUN, no IPAM" "reference tap (containernetworking-plugins 1.9)" \
      "--plugin /opt/cni/bin/podlane --conf $dir/chained" "--plugin $plugins/tap --conf $dir/tap --ifname tap0" \
      --must 0.5 --report 0.2
  fi
  cni_ratio "CNI ADD with host-local" "ptp + host-local" \
    "--plugin /opt/cni/bin/podlane --conf $dir/alone --ifname tun0" "--plugin /usr/lib/cni/ptp --conf $dir/ptp" --must 0.6
}

bench_sizes() {
  local mb=1048576 stage=$PODLANE_WORK/podlane.stripped
  strip -o "$stage" "$BIN/podlane"
  value "podlane, the CNI binary" "$(jq -n "$(stat -c %s "$stage") / $mb * 100 | round / 100")" MB --must 2
  local image limit
  for image in relay:4 node:40; do
    limit=${image#*:} image=${image%:*}
    value "$image image" "$(jq -n "$(unpacked "$image") / $mb * 100 | round / 100")" MB --must "$limit"
  done
  value "device plugin, RSS with the lanes of these benchmarks" \
    "$(jq -n "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon_pid)/status") / 1024 * 10 | round / 10")" MB --must 25
}
unpacked() { # Bytes of an image's layer, unpacked.
  tar -xf "$build/images/$1.tar" --wildcards '*blobs/sha256/*' --to-command='gzip -dc 2>/dev/null | wc -c' 2>/dev/null | sort -n | tail -n 1
}

bench_many_pods() { # 100 pods at once, then 500 lanes: one JSON line each.
  local what list
  IFS=, read -ra list <<<"$pods"
  for what in "${list[@]}"; do
    wanted "$what lanes" || continue
    note "$what lanes"
    PODLANE_PODS=${what% *} BURST_KIND=${what#* } "$PODLANE_SOURCE/tests/system/containerd/hundred_pods_test.sh" | tee >(cat >&2) | grep '^{"pods"' >>"$PODLANE_MANY" ||
      warn "$what lanes: no result"
  done
}

if ! node_inside; then
  "$PODLANE_SOURCE/scripts/setup.sh"
  [[ -x $build/bin/podlane ]] || (cd "$PODLANE_SOURCE" && cmake --preset release >/dev/null && cmake --build "$build" --target demo_parts >/dev/null)
  export PODLANE_BIN=$build/bin
  "$PODLANE_SOURCE/scripts/images.sh" "$build" "$build/images" >/dev/null
  # Here, as there is no network inside.
  packages_stock dpdk dpdk-dev librte-net-af-xdp23 librte-net-tap23 || warn "no DPDK can be had: the page has no row of testpmd"
  packages_newer cni-plugins sid containernetworking-plugins || warn "no newer CNI plugins can be had: the page has no row of tap"
  PODLANE_MANY=$(mktemp)
  export PODLANE_MANY PODLANE_SOURCE
  trap 'rm -f "$PODLANE_MANY"' EXIT
  bench_many_pods
  status=0
  node_run "${given[@]}" || status=$?
  exit "$status"
fi

node_setup
rows=$PODLANE_WORK/rows.jsonl
: >"$rows"
environment | tee "$PODLANE_WORK/environment"
bench_network
cni_install
kubelet_start
defer kubelet_stop
export BURST_LANES=500
bench_config
daemon_start
defer daemon_stop
bench_allocate
bench_ways
bench_cni
bench_sizes
while read -r line; do
  what="$(jq -r '"\(.pods) \(.kind) lanes in as many pods"' <<<"$line")"
  value "$what: failures and leaks" "$(jq .failures <<<"$line")" "" --must 0
  value "$what: all ADDs, up to 100 at once" "$(jq .add_ms <<<"$line")" ms
  value "$what: device plugin, RSS" "$(jq '.daemon_rss_kib / 1024 * 10 | round / 10' <<<"$line")" MB --must 25
  value "$what: device plugin, memory of its control group" \
    "$(jq '.daemon_group_kib / 1024 * 10 | round / 10' <<<"$line")" MB --must 40
done <"$PODLANE_MANY"
status=0
"$BIN/podlane-bench" page --rows "$rows" --environment "$PODLANE_WORK/environment" >"$PODLANE_WORK/page" || status=$?
if [[ -n $page ]]; then cat "$PODLANE_WORK/page" >"$page"; else cat "$PODLANE_WORK/page"; fi
exit "$status"
