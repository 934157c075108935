# The demo's pods and rows. Sourced by demo.sh. A pod is started by one of two back ends ($backend): the test kubelet and
# containerd, or a bare namespace (lanes.sh). Both give: demo_exec POD COMMAND…, demo_pid POD CONTAINER, demo_netns POD.

demo_pool() { [[ $1 == queue ]] && echo feed || echo burst; }
demo_far() { [[ $1 == veth ]] && echo 10.10.0.1 || echo 10.9.0.1; }
demo_wire() { [[ $1 == veth ]] && echo wire-nic1 || echo wire-nic0; }

# demo_pod NAME PATH KIND MODE
demo_pod() {
  local name=$1 path=$2 kind=$3 mode=$4 annotations='{}' pool=
  if [[ $path == relay || $path == direct ]]; then
    pool=$(demo_pool "$kind")
    annotations=$(jq -nc --arg pool "$pool" --arg path "$path" --arg mode "$mode" \
      '{"podlane.io/lanes":$pool,"podlane.io/path":$path,"podlane.io/mode":$mode}')
  fi
  "demo_pod_$backend" "$name" "$path" "$pool" "$annotations"
}

demo_pod_containerd() {
  local name=$1 path=$2 pool=$3 annotations=$4
  jq -n --arg name "$name" --arg path "$path" --arg resource "podlane.io/$pool" --argjson annotations "$annotations" '
    {metadata:{name:$name,annotations:$annotations},
     spec:{containers:[{name:"app",image:"podlane.io/examples:dev",command:["/usr/bin/pause"]}]}}
    | if $path == "direct" then .spec.containers[0].resources = {limits:{($resource):1}} else . end
    | if $path == "relay" then .spec.initContainers = [{name:"podlane-relay",image:"podlane.io/relay:dev",
        restartPolicy:"Always",env:[{name:"PODLANE_CPU",value:"1"}],resources:{limits:{($resource):1,memory:"48Mi"}}}]
      else . end
    | if $path == "naive" then .spec.containers += [{name:"naive",image:"podlane.io/examples:dev",
        command:["/usr/bin/bench_naive_relay","--address","10.8.0.2/24","--to","10.9.0.1:7","--cpu","1"],
        mounts:[{hostPath:"/dev/net/tun",mountPath:"/dev/net/tun",readOnly:false}],
        securityContext:{runAsUser:0,capabilities:{add:["NET_ADMIN"]}}}] else . end' >"$PODLANE_WORK/$name.json"
  kubelet run-pod "$PODLANE_WORK/$name.json" >"$PODLANE_WORK/$name.status"
}
demo_pod_bare() {
  local name=$1 path=$2 pool=$3 annotations=$4
  local bare
  bare_pod "$name" "$annotations" "$pool"
  bare_command "$name"
  case $path in
    relay) "${bare[@]}" "$BIN/podlane-relay" --cpu 1 >"$PODLANE_WORK/$name.log" 2>&1 & ;;
    naive) nsenter --net="/run/netns/$name" "$BIN/bench_naive_relay" --address 10.8.0.2/24 --to 10.9.0.1:7 --cpu 1 & ;;
    *) return 0 ;;
  esac
  echo "$!" >"$PODLANE_WORK/$name.pid"
}

demo_pod_remove() {
  if [[ $backend == containerd ]]; then
    kubelet remove-pod "default/$1" graceSeconds=1 >/dev/null
  else
    [[ ! -e $PODLANE_WORK/$1.pid ]] || stop_process "$(<"$PODLANE_WORK/$1.pid")"
    rm -f "$PODLANE_WORK/$1.pid"
    bare_pod_remove "$1"
  fi
}

demo_exec() {
  local name=$1
  shift
  if [[ $backend == containerd ]]; then
    kubelet exec "default/$name" app timeoutSeconds=120 -- "$@"
  else
    local program=$BIN/$1
    shift
    bare_exec "$name" "$program" "$@"
  fi
}

demo_pid() { # The process beside the program, or nothing.
  if [[ $backend == containerd ]]; then
    kubelet status | jq -r --arg pod "default/$1" \
      '.pods[] | select(.pod == $pod) | .containers[] | select(.name != "app") | .pid // empty'
  else
    [[ ! -e $PODLANE_WORK/$1.pid ]] || cat "$PODLANE_WORK/$1.pid"
  fi
}

demo_netns() {
  if [[ $backend == containerd ]]; then
    kubelet status | jq -r --arg pod "default/$1" '.pods[] | select(.pod == $pod) | .netns'
  else
    echo "/run/netns/$1"
  fi
}

# The lane's address as the device plugin wrote it, once somebody serves the lane.
demo_lane() { jq -re --arg pod "$1" ".lanes[] | select(.pod == \$pod) | $2" /run/podlane/lanes.json; }
demo_lane_serving() { [[ $(demo_lane "$1" .state) == serving ]]; }
demo_lane_address() { demo_lane "$1" '.addresses[0] | split("/")[0]'; }

demo_lane_directory() { # As the program sees it.
  local pool=$2
  if [[ $backend == containerd ]]; then
    echo "/run/podlane/lanes/$pool/0"
  else
    echo "$(sed -n "s/^PODLANE_LANES_${pool^^}=//p" "$PODLANE_WORK/pods/$1.env")/0"
  fi
}

# The demo's question to each way: its round trips, then how many packets a second.
demo_ask() {
  local name=$1 path=$2 kind=$3 wait=$4 far=$5
  case $path in
    plain) demo_exec "$name" podlanectl bench pingpong --json --cpu 0 --count "$count" --wait "$wait" --to "$far:7" ;;
    naive) demo_exec "$name" podlanectl bench pingpong --json --cpu 0 --count "$count" --wait "$wait" --to 10.8.0.9:7 ;;
    relay) demo_exec "$name" podlanectl bench pingpong --json --cpu 0 --count "$count" --wait "$wait" --to "$far:7" \
      --bind "$(demo_lane_address "$name"):40000" ;;
    direct) demo_exec "$name" podlanectl bench pingpong --json --cpu 0 --count "$count" --wait "$wait" --to "$far:7" \
      --lane "$(demo_lane_directory "$name" "$(demo_pool "$kind")")" ;;
  esac
}

demo_flood() {
  local name=$1 path=$2 kind=$3 far=$4
  case $path in
    plain) demo_exec "$name" bench_flood --cpu 0 --to "$far:9" --seconds 1 ;;
    naive) return 0 ;; # It knows one destination port, which echoes.
    relay) demo_exec "$name" bench_flood --cpu 0 --to "$far:9" --seconds 1 --bind "$(demo_lane_address "$name")" ;;
    direct) demo_exec "$name" bench_lane_flood --cpu 0 --to "$far:9" --seconds 1 \
      --lane "$(demo_lane_directory "$name" "$(demo_pool "$kind")")" ;;
  esac
}

wire_packets() { inside far ethtool -S "$1" | sed -n 's/.*rx_queue_0_xdp_packets: //p'; }

demo_row() {
  local path=$1 kind=$2 mode=$3 name far wait=spinning pid= watch=()
  name=$path-$kind-$mode
  far=$(demo_far "$kind")
  [[ $mode == interrupt ]] && wait=blocking
  demo_pod "$name" "$path" "$kind" "$mode"
  if [[ $path == relay ]]; then eventually 10 demo_lane_serving "$name" || die "pod $name: nobody serves its lane"; fi
  pid=$(demo_pid "$name")
  [[ -z $pid ]] || watch=(--pid "$pid")
  demo_ask "$name" "$path" "$kind" "$wait" "$far" >"$PODLANE_WORK/warm" || true # Neighbours known, caches warm.
  watch_start "${watch[@]}"
  demo_ask "$name" "$path" "$kind" "$wait" "$far" >"$PODLANE_WORK/$name.result" || [[ $? == 3 ]] ||
    die "pod $name: no round trips: $(tail -n 2 "$PODLANE_WORK/$name.log" 2>/dev/null)"
  watch_end
  local before after flooded per_second=-
  before=$(wire_packets "$(demo_wire "$kind")")
  flooded=$(demo_flood "$name" "$path" "$kind" "$far" | jq -r '.sent' || true)
  after=$(wire_packets "$(demo_wire "$kind")")
  # A second of sending; what arrived is what the far side's driver counted.
  [[ -z $flooded ]] || per_second=$((after - before))
  proof_capabilities "$name" "$path"
  proof_frames "$name" "$path"
  jq -rn --slurpfile r "$PODLANE_WORK/$name.result" --slurpfile w "$PODLANE_WORK/watch" --arg path "$path" \
    --arg kind "$kind" --arg mode "$mode" --arg rate "$per_second" '
    $r[0] as $r | $w[0] as $w | [$path, $kind, $mode, ($r.rttNs.p50/1000), ($r.rttNs.p99/1000), ($r.rttNs["p99.9"]/1000),
      $rate, ($r.cpuPercent + $w.cpu_percent), ($r.systemCallsPerPacket / 2 + $w.system_calls / ($r.sent * 2))] | @tsv' |
    while IFS=$'\t' read -r p k m a b c rate cpu calls; do
      printf '%-16s %-6s %-10s %8.1f %8.1f %8.1f %10s %6.0f %6.2f\n' "$p" "$k" "$m" "$a" "$b" "$c" "$rate" "$cpu" "$calls"
    done
  demo_pod_remove "$name"
}

# bench_watch in the background, around what the caller does meanwhile.
watch_start() {
  rm -f "$PODLANE_WORK/watch.go"
  mkfifo "$PODLANE_WORK/watch.go" 2>/dev/null || true
  "$BIN/bench_watch" "$@" -- cat "$PODLANE_WORK/watch.go" >"$PODLANE_WORK/watch" &
  WATCH_PID=$!
  exec 7>"$PODLANE_WORK/watch.go"
}
watch_end() {
  exec 7>&-
  wait "$WATCH_PID"
}
