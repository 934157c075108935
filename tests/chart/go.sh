# Go of Debian, without modules and without the network: packages come from /usr/share/gocode. Sourced.
export GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= CGO_ENABLED=0
export GOCACHE=${PODLANE_GOCACHE:-${PODLANE_CACHE:-$PODLANE_SOURCE/build/cache}/go}
