#!/usr/bin/env bash
# Renders manifests/ from charts/podlane anew.
set -euo pipefail
PODLANE_SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
source "$PODLANE_SOURCE/tests/chart/go.sh"
cd "$PODLANE_SOURCE/tests/chart/render"
go run . --manifests --values "$PODLANE_SOURCE/manifests/values.yaml" "$PODLANE_SOURCE/charts/podlane" "$PODLANE_SOURCE/manifests"
