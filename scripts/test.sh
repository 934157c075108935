#!/usr/bin/env bash
# Builds podlane and runs its tests; the last lines are ctest's summary of all of them. Needs root: most suites work
# with real kernel objects in namespaces of their own.
#
#   scripts/test.sh             asan: all suites; tsan: the threaded ones; release: system tests, sizes, architecture, kernels in QEMU
#   scripts/test.sh --fuzz      also each fuzz target for 60 s (PODLANE_FUZZ_SECONDS); so does CI=true
#   scripts/test.sh --tidy      also clang-tidy 19 over everything
#   scripts/test.sh --quick     release alone
#   scripts/test.sh --only RE   of the tests so selected, those whose name (asan.kernel_net) matches
#
# Logs: build/logs. Without root or kernel support a suite fails; it is never skipped (PODLANE_TESTS_REQUIRE).
set -euo pipefail
cd "$(dirname "$0")/.."

fuzz=${CI:-false} tidy=false quick=false only=.
while [ $# -gt 0 ]; do
  case $1 in
    --fuzz) fuzz=true ;;
    --tidy) tidy=true ;;
    --quick) quick=true ;;
    --only) only=${2:?--only needs an expression}; shift ;;
    *) echo "test: unknown argument '$1'; known: --fuzz --tidy --quick --only RE" >&2; exit 2 ;;
  esac
  shift
done
if [ "$(id -u)" != 0 ]; then
  echo "test: needs root (network namespaces, BPF, TUN); run it with sudo or in a privileged container" >&2
  exit 1
fi
scripts/setup.sh

source=$PWD logs=$PWD/build/logs merged=$PWD/build/all
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
export PODLANE_TESTS_REQUIRE=${PODLANE_TESTS_REQUIRE:-kernel,bpf,system}
mkdir -p "$logs" "$merged"
: >"$merged/CTestTestfile.cmake"

# step NAME COMMAND…: one progress line; the log's end is shown when it fails.
step() {
  local name=$1 start=$SECONDS
  shift
  if ! "$@" >"$logs/$name.log" 2>&1; then
    grep -E 'error|Error|FAILED' "$logs/$name.log" | head -n 20 >&2 || true
    tail -n 30 "$logs/$name.log" >&2
    echo "test: $name failed, see build/logs/$name.log" >&2
    exit 1
  fi
  echo "test: $name ($((SECONDS - start)) s)"
}

# All add_test and set_tests_properties lines of a build tree whose test is of one of the labels and matches a name.
# CMake writes one test's two commands on a line each.
tests_of() {  # PRESET LABELS NAMES
  find -H "build/$1" -name CTestTestfile.cmake -exec cat {} + |
    sed -nE 's/^(add_test|set_tests_properties)\((\[=\[)?([A-Za-z0-9_.-]+)(\]=\])?/\1 \3 /p' |
    awk -v preset="$1" -v labels="^($2)\$" -v names="$3" '
      { command = $1; name = $2; rest = substr($0, length(command) + length(name) + 3) }
      command == "add_test" { test[name] = rest }
      command == "set_tests_properties" {
        label = rest; sub(/.*LABELS "/, "", label); sub(/".*/, "", label)
        # BPF maps by name, cgroups and the like are the machine’s own: two presets of one suite must not meet.
        sub(/PROPERTIES/, "PROPERTIES RESOURCE_LOCK \"" name "\"", rest)
        if (name in test && label ~ labels && name ~ names) {
          print "add_test(" preset "." name " " test[name]
          print "set_tests_properties(" preset "." name " " rest
        }
      }' >>"$merged/CTestTestfile.cmake"
}

# Not unit_kubelet: Debian's gRPC is not instrumented, and each of its locks looks like none to TSan.
threaded='relay|handover|lane_table|lanes|deviceplugin|control|neighbo'
configure() { step "configure-$1" cmake --preset "$1"; }
build() { step "build-$1" nice cmake --build "build/$1" -- "${@:2}"; }

configure release
build release
tests_of release 'system|arch|vm' .
if ! $quick; then
  configure asan
  build asan
  tests_of asan 'unit|kernel|bpf' .
  # The scripts that put programs into containers take release ones: images FROM scratch have no sanitizer runtime.
  tests_of asan system daemon
  configure tsan
  # Only what is run is built: TSan makes everything else slower for nothing.
  mapfile -t targets < <(find build/tsan/tests -name CTestTestfile.cmake -exec cat {} + |
    sed -nE 's/^add_test\((\[=\[)?([A-Za-z0-9_.-]+).*/\2/p' | grep -E "$threaded" | grep -Ev '^system' | sort)
  build tsan "${targets[@]}"
  tests_of tsan 'unit|kernel' "$threaded"
fi
if $quick; then tests_of release 'unit|kernel|bpf' .; fi
if [ "$fuzz" = true ] || [ "$fuzz" = 1 ]; then
  configure fuzz
  build fuzz fuzz_all
  tests_of fuzz fuzz .
fi
if $tidy; then
  configure tidy
  build tidy
fi

# TSan of g++ 12 cannot work with addresses as random as newer kernels make them (vm.mmap_rnd_bits above 28).
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}
# Sanitized suites run side by side, also beside whatever else a shared machine does: nothing is late before four times
# the time it has on a quiet one.
export PODLANE_TEST_PATIENCE=${PODLANE_TEST_PATIENCE:-4}
echo "test: running $(grep -c '^add_test' "$merged/CTestTestfile.cmake") test programs; log build/logs/ctest.log"
exec "${fixed_addresses[@]}" ctest --test-dir "$merged" -j "$(nproc)" -R "$only" --output-on-failure \
  --output-log "$logs/ctest.log"
