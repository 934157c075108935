# Helpers of the scripts: sourced, never run. Bash 5. A script that sources this has `set -euo pipefail` in force.
#
# Undo stack: `defer COMMAND…` after each step that made something; run_deferred undoes in reverse order, once, whatever
# fails in between. The caller sets the trap, because only it knows which signals end it.

set -Eeuo pipefail
trap 'printf "error: %s line %s: %s\n" "${BASH_SOURCE[0]:-$0}" "$LINENO" "$BASH_COMMAND" >&2' ERR

PODLANE_SOURCE=${PODLANE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}

say() { printf '%s\n' "$*"; }
note() { printf '== %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

deferred_commands=()
defer() {
  local quoted
  printf -v quoted '%q ' "$@"
  deferred_commands+=("$quoted")
}
run_deferred() {
  local at
  for ((at = ${#deferred_commands[@]} - 1; at >= 0; at--)); do
    eval "${deferred_commands[at]}" || warn "cleaning up: ${deferred_commands[at]}failed"
  done
  deferred_commands=()
}

# eventually SECONDS COMMAND…: true as soon as the command succeeds.
eventually() {
  local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000))
  shift
  until "$@" >/dev/null 2>&1; do
    ((${EPOCHREALTIME/./} < deadline)) || return 1
    sleep 0.05
  done
}

# stop_process PID [SECONDS]: TERM, then KILL. The process must be a child of this shell.
stop_process() {
  local pid=$1 seconds=${2:-5}
  kill -TERM "$pid" 2>/dev/null || return 0
  eventually "$seconds" process_ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
process_ended() {
  local state
  state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || return 0
  [[ -z $state || $state == Z ]]
}

need_root() { [[ $(id -u) == 0 ]] || die "$(basename "$0") makes namespaces and interfaces: run it as root"; }
