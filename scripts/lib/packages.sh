# Debian packages that are not installed, only unpacked into a cache: build/cache/<name>/root, or $PODLANE_CACHE. Sourced.
# A second run finds the cache and needs no network. APT's own configuration of the machine is read, not changed.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package_cache=${PODLANE_CACHE:-$PODLANE_SOURCE/build/cache}

# packages_unpack NAME: unpacks what is in the archives directory, and marks the cache complete.
packages_unpack() {
  local archive dir=$package_cache/$1
  for archive in "$dir"/archives/*.deb; do dpkg -x "$archive" "$dir/root"; done
  rm -rf "$dir/archives"
  touch "$dir/complete"
}

# packages_stock NAME PACKAGE…: from the machine's own suites, with all that is not installed here.
packages_stock() {
  local name=$1 dir=$package_cache/$1
  shift
  [[ -e $dir/complete ]] && return
  rm -rf "$dir" && mkdir -p "$dir/archives/partial" "$dir/root"
  apt-get install -qq -y --download-only --no-install-recommends -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
    -o Dir::Cache::archives="$dir/archives" "$@" >/dev/null || return 1
  packages_unpack "$name"
}

# packages_suite DIRECTORY SUITE: sets packages_options, with which APT sees one suite alone: the machine's configured source
# with that suite's name, in a private APT directory, pinned so low that nothing would ever be installed from it.
packages_suite() {
  local dir=$1 suite=$2
  rm -rf "$dir" && mkdir -p "$dir"/{archives/partial,root,apt/{lists/partial,sources.list.d,preferences.d}}
  packages_newer_sources "$suite" >"$dir/apt/sources.list.d/newer.sources"
  [[ -s $dir/apt/sources.list.d/newer.sources ]] || return 1
  printf 'Package: *\nPin: release n=%s\nPin-Priority: 1\n' "$suite" >"$dir/apt/preferences.d/newer"
  packages_options=(-qq -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o "Dir::State::lists=$dir/apt/lists"
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o "Dir::Etc::sourcelist=/dev/null"
    -o "Dir::Etc::sourceparts=$dir/apt/sources.list.d" -o "Dir::Etc::preferencesparts=$dir/apt/preferences.d")
  apt-get update "${packages_options[@]}" >/dev/null
}

# packages_newer NAME SUITE PACKAGE: one package from a newer suite of the same archive.
packages_newer() {
  local name=$1 suite=$2 package=$3 dir=$package_cache/$1
  [[ -e $dir/complete ]] && return
  packages_suite "$dir" "$suite" || return 1
  (cd "$dir/archives" && apt-get download "${packages_options[@]}" "$package/$suite" >/dev/null) || return 1
  rm -rf "$dir/apt"
  packages_unpack "$name"
}

# packages_kernel NAME SUITE: the suite's current kernel with its modules. linux-image-amd64 is empty; it names the package
# of the current version, which newer suites have divided further.
packages_kernel() {
  local name=$1 suite=$2 dir=$package_cache/$1 found=linux-image-amd64 more
  [[ -e $dir/complete ]] && return
  packages_suite "$dir" "$suite" || return 1
  until [[ $found == "${more:-}" ]]; do
    more=$found
    found=$(apt-cache depends "${packages_options[@]}" $more |
      awk -v known="$more" '$1 == "Depends:" && $2 ~ /^linux-(image|binary|modules)-[0-9]/ { print $2 }
        END { gsub(" ", "\n", known); print known }' | sort -u | tr '\n' ' ' | sed 's/ $//') || return 1
  done
  [[ $found != linux-image-amd64 ]] || return 1
  found=${found//linux-image-amd64/}
  # shellcheck disable=SC2086 # A list of names.
  (cd "$dir/archives" && apt-get download "${packages_options[@]}" $found >/dev/null) || return 1
  rm -rf "$dir/apt"
  packages_unpack "$name"
}

# The machine's own Debian source (deb822 or one-line form) with another suite name; names no host of its own.
packages_newer_sources() {
  local suite=$1 file codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -e $file ]] || continue
    awk -v RS= -v suite="$suite" -v codename="$codename" '
      $0 ~ "\nSuites:[^\n]* ?" codename "( |\n|$)" || $0 ~ "^Suites: " codename {
        gsub(/\nSuites:[^\n]*/, "\nSuites: " suite); print; exit }' "$file" && return
  done
  awk -v suite="$suite" -v codename="$codename" '
    $1 == "deb" { for (i = 2; i <= NF; i++) if ($i == codename) { $i = suite; print; exit } }' /etc/apt/sources.list
}
