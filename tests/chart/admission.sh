#!/usr/bin/env bash
# Tries the admission policies with the table of pods (admission/cases.json) and the table of annotations that the C++ reader has.
#
#   tests/chart/admission.sh --offline            Kubernetes' own API server library, as Debian's newer suite packages it for Go, and
#                                                 that suite's Go, unpacked into build/cache. The first run builds for minutes. When all
#                                                 passes it writes admission/evaluated.txt, which ctest -R chart_render compares.
#   tests/chart/admission.sh --kubeconfig FILE    a real API server, 1.36 or later, by kubectl: installs the policies under their own
#                                                 names, makes pods by dry run alone, and takes the policies away again.
set -euo pipefail
PODLANE_SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
export PODLANE_SOURCE
here=$PODLANE_SOURCE/tests/chart/admission
rows=$PODLANE_SOURCE/tests/unit/lane/annotations_cases.json
source "$PODLANE_SOURCE/scripts/lib/packages.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rendered VALUES_NAME KUBERNETES: into $work/rendered/VALUES_NAME.
render() {
  (source "$PODLANE_SOURCE/tests/chart/go.sh" && cd "$PODLANE_SOURCE/tests/chart/render" && go run . "$@")
}
render_all() {
  local values
  for values in "$here"/values/*.yaml; do
    render --values "$values" "$PODLANE_SOURCE/charts/podlane" "$work/rendered/$(basename "$values" .yaml)"
  done
}

# What evaluate/ and its imports are in; nothing of it is installed.
go_packages=(
  golang-cel-cel-go-dev golang-cel-expr-dev golang-github-antlr4-go-antlr-dev golang-github-beorn7-perks-dev
  golang-github-blang-semver-dev golang-github-cenkalti-backoff-v5-dev golang-github-cespare-xxhash-v2-dev
  golang-github-davecgh-go-spew-dev golang-github-emicklei-go-restful-dev golang-github-evanphx-json-patch-dev
  golang-github-felixge-httpsnoop-dev golang-github-fsnotify-fsnotify-dev golang-github-fxamacker-cbor-dev
  golang-github-go-logr-logr-dev golang-github-go-logr-stdr-dev golang-github-go-openapi-jsonpointer-dev
  golang-github-go-openapi-jsonreference-dev golang-github-go-openapi-swag-dev golang-github-golang-protobuf-1-5-dev
  golang-github-google-gnostic-models-dev golang-github-google-uuid-dev golang-github-grpc-ecosystem-grpc-gateway-dev
  golang-github-json-iterator-go-dev golang-github-modern-go-concurrent-dev golang-github-modern-go-reflect2-dev
  golang-github-munnerz-goautoneg-dev golang-github-pkg-errors-dev golang-github-pmezard-go-difflib-dev
  golang-github-prometheus-client-golang-dev golang-github-prometheus-client-model-dev golang-github-prometheus-common-dev
  golang-github-prometheus-procfs-dev golang-github-spf13-cobra-dev golang-github-spf13-pflag-dev golang-github-x448-float16-dev
  golang-golang-x-exp-dev golang-golang-x-net-dev golang-golang-x-oauth2-dev golang-golang-x-oauth2-google-dev
  golang-golang-x-sync-dev golang-golang-x-sys-dev golang-golang-x-term-dev golang-golang-x-text-dev golang-golang-x-time-dev
  golang-google-genproto-dev golang-google-grpc-dev golang-google-protobuf-dev golang-gopkg-inf.v0-dev golang-gopkg-yaml.v2-dev
  golang-gopkg-yaml.v3-dev golang-k8s-api-dev golang-k8s-apimachinery-dev golang-k8s-apiserver-dev golang-k8s-client-go-dev
  golang-k8s-component-base-dev golang-k8s-klog-dev golang-k8s-kube-openapi-dev golang-k8s-sigs-apiserver-network-proxy-dev
  golang-k8s-sigs-json-dev golang-k8s-sigs-randfill-dev golang-k8s-sigs-structured-merge-diff-v6-dev golang-k8s-sigs-yaml-dev
  golang-k8s-utils-dev golang-opentelemetry-contrib-dev golang-opentelemetry-otel-dev golang-opentelemetry-proto-dev
)

unpack_apiserver() {
  local dir=$package_cache/apiserver go
  [[ -e $dir/complete ]] && return
  packages_suite "$dir" sid
  # Whatever Go the suite's golang-go stands for.
  go=$(apt-cache "${packages_options[@]}" depends golang-go | sed -nE 's/^ *Depends: (golang-[0-9.]+)-go$/\1/p' | head -n 1)
  (cd "$dir/archives" && apt-get download "${packages_options[@]}" "$go-go" "$go-src" "${go_packages[@]}" >/dev/null)
  rm -rf "$dir/apt"
  packages_unpack apiserver
}

offline() {
  unpack_apiserver
  local root=$package_cache/apiserver/root goroot
  goroot=$(echo "$root"/usr/lib/go-*)
  (
    cd "$here/evaluate"
    export PATH=$goroot/bin:$PATH GOROOT=$goroot GO111MODULE=off GOPATH=$root/usr/share/gocode GOFLAGS= CGO_ENABLED=0
    export GOCACHE=$package_cache/apiserver/go GOTOOLCHAIN=local
    nice go vet .
    nice go build -o "$work/evaluate" .
  )
  render_all
  "$work/evaluate" "$here/cases.json" "$rows" "$work/rendered"
  render --evaluated "$PODLANE_SOURCE" >"$here/evaluated.txt"
}

# within WANT GOT: an object may have more keys (the API server's defaults), a list and resources may not.
within='def within($w; $g):
  if $w == null then true
  elif ($w | type) == "object" then ($g | type) == "object" and
    all($w | keys[]; . as $k | within($w[$k]; $g[$k])
      and (if ($k == "limits" or $k == "requests") and $w[$k] != null then ($w[$k] | keys) == ($g[$k] | keys) else true end))
  elif ($w | type) == "array" then ($g | type) == "array" and ($w | length) == ($g | length)
    and all(range($w | length); . as $i | within($w[$i]; $g[$i]))
  else $w == $g end;'

passed=0 failed=0
fail() { failed=$((failed + 1)) && echo "FAIL $1: $2"; }
pass() { passed=$((passed + 1)); }

# One case on standard input: name, pod, same, out, refused; "grammar" takes "not built yet" for an admission.
server_case() {
  local one name answer word
  one=$(cat)
  name=$(jq -r .name <<<"$one")
  if answer=$(jq .pod <<<"$one" | kubectl create --dry-run=server -o json -f - 2>&1); then
    if jq -e '.refused' <<<"$one" >/dev/null; then fail "$name" "is admitted"
    elif jq -e '.same' <<<"$one" >/dev/null &&
      ! jq -en --argjson one "$one" --argjson got "$answer" "$within within(\$one.pod.spec; \$got.spec)
        and ([\$got.spec.initContainers[]?] | length) == ([\$one.pod.spec.initContainers[]?] | length)" >/dev/null; then
      fail "$name" "is changed: $(jq -c .spec <<<"$answer")"
    elif ! jq -en --argjson one "$one" --argjson got "$answer" "$within within(\$one.out; \$got.spec)" >/dev/null; then
      fail "$name" "became $(jq -c .spec <<<"$answer")"
    else pass; fi
  elif ! jq -e '.refused' <<<"$one" >/dev/null; then
    if jq -e '.grammar' <<<"$one" >/dev/null && [[ $answer == *"not built yet"* ]]; then pass; else fail "$name" "$answer"; fi
  else
    while read -r word; do
      [[ $answer == *"$word"* ]] || { fail "$name" "'$word' is not in: $answer"; return; }
    done < <(jq -r '.refused[]' <<<"$one")
    pass
  fi
}

# The table of annotations as cases.
row_cases() {
  jq -c '.[] | {name: "\(.key) \(.value)", values: (if .pod.kinds.feed == "queue" then "queue" else "pools" end), grammar: true,
    refused: (if .ok then null else (.message_names // []) end),
    pod: {apiVersion: "v1", kind: "Pod",
      metadata: {name: "p", namespace: "default", annotations: ({"podlane.io/lanes": (.pod.lanes // "feed")} + {(.key): .value})},
      spec: {containers: [(.pod.containers // ["engine"])[] | {name: ., image: "i",
        resources: {limits: {cpu: "1", memory: "64Mi"}, requests: {cpu: "1", memory: "64Mi"}}}]}}}' "$rows"
}

server() {
  export KUBECONFIG=$1
  local values one
  render_all
  kubectl version >/dev/null
  for values in "$here"/values/*.yaml; do
    values=$(basename "$values" .yaml)
    cat "$work/rendered/$values"/*admissionpolicy.yaml >"$work/policies.yaml"
    kubectl apply -f "$work/policies.yaml" >/dev/null
    trap 'kubectl delete --ignore-not-found -f "$work/policies.yaml" >/dev/null; rm -rf "$work"' EXIT
    # The API server takes a policy up some time after it was written.
    for one in {1..30}; do
      jq -n '{apiVersion:"v1",kind:"Pod",metadata:{name:"p",namespace:"default",annotations:{"podlane.io/status":"x"}},spec:{containers:[{name:"c",image:"i"}]}}' |
        kubectl create --dry-run=server -f - >/dev/null 2>&1 || break
      sleep 1
    done
    sleep 2
    while read -r one; do server_case <<<"$one"; done < <(
      jq -c --arg values "$values" '.[] | select((.values // "pools") == $values)' "$here/cases.json"
      row_cases | jq -c --arg values "$values" 'select(.values == $values)'
    )
    kubectl delete --ignore-not-found -f "$work/policies.yaml" >/dev/null
  done
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}

case ${1:-} in
  --offline) offline ;;
  --kubeconfig) server "${2:?--kubeconfig needs a file}" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
