#!/usr/bin/env bash
# Runs the Go tests of one folder here: run.sh FOLDER [go test flags…].
set -euo pipefail
PODLANE_SOURCE=${PODLANE_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export PODLANE_SOURCE
source "$PODLANE_SOURCE/tests/chart/go.sh"
folder=$1
shift
cd "$PODLANE_SOURCE/tests/chart/$folder"
unformatted=$(gofmt -l .)
[[ -z $unformatted ]] || { echo "not as gofmt writes it: $unformatted" >&2; exit 1; }
go vet .
exec go test "$@" .
