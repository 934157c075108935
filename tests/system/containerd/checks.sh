# What the system scripts share: named checks in the style of a test program. Sourced.
source "$PODLANE_SOURCE/scripts/lib/lanes.sh"
source "$PODLANE_SOURCE/scripts/lib/containerd.sh"
source "$PODLANE_SOURCE/scripts/lib/demo_pods.sh"

failures=0
run_case() { # run_case FUNCTION: in this shell, so that it may start what later cases use.
  local status=0 start_us=${EPOCHREALTIME/./}
  case_failed=0
  "$1" || status=$?
  if ((status != 0 || case_failed != 0)); then
    failures=$((failures + 1))
    printf '[  FAILED  ] %s (%d ms)\n' "$1" "$(((${EPOCHREALTIME/./} - start_us) / 1000))"
  else
    printf '[       OK ] %s (%d ms)\n' "$1" "$(((${EPOCHREALTIME/./} - start_us) / 1000))"
  fi
}
expect() { # expect TEXT COMMAND…: the case goes on after a failure.
  local text=$1
  shift
  if ! "$@"; then
    printf '  expected: %s\n    failed: %s\n' "$text" "$*"
    case_failed=1
  fi
}
finish() {
  if ((failures > 0)); then
    for log in deviceplugin kubelet; do
      echo "--- end of $log.log"
      tail -n 15 "$PODLANE_WORK/$log.log" 2>/dev/null || true
    done
    exit 1
  fi
}
# Case functions are called behind ||, where `set -e` is off; each step that must succeed says so.
must() { "$@" || { echo "  failed: $*"; return 1; }; }
