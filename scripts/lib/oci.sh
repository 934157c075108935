# Container images without a container builder: an OCI image layout in a tar, one layer, the same bytes from the same
# input (sorted names, no times, no owners). `ctr images import` and every registry tool read it. Sourced.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

oci_tar() { # oci_tar DIRECTORY > archive
  tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -cf - .
}

# oci_blob FILE LAYOUT: moves the file into the layout's blobs; prints its digest.
oci_blob() {
  local digest
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  mv "$1" "$2/blobs/sha256/$digest"
  echo "$digest"
}

# oci_image ROOTFS REFERENCE ARCHIVE CONFIG: CONFIG is the "config" object of the image (Entrypoint, User, …) as JSON.
oci_image() {
  local rootfs=$1 reference=$2 archive=$3 config=$4 layout
  layout=$(mktemp -d)
  mkdir -p "$layout/blobs/sha256"
  find "$rootfs" -type d -exec chmod 755 {} +
  oci_tar "$rootfs" >"$layout/layer"
  local diff_id layer_size layer config_size config_digest manifest_size manifest
  diff_id=$(sha256sum "$layout/layer" | cut -d' ' -f1)
  gzip -n -9 "$layout/layer"
  layer_size=$(stat -c %s "$layout/layer.gz")
  layer=$(oci_blob "$layout/layer.gz" "$layout")
  printf '{"architecture":"amd64","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$config" "$diff_id" >"$layout/config"
  config_size=$(stat -c %s "$layout/config")
  config_digest=$(oci_blob "$layout/config" "$layout")
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
    "$config_digest" "$config_size" "$layer" "$layer_size" >"$layout/manifest"
  manifest_size=$(stat -c %s "$layout/manifest")
  manifest=$(oci_blob "$layout/manifest" "$layout")
  printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"},"platform":{"architecture":"amd64","os":"linux"}}]}' \
    "$manifest" "$manifest_size" "$reference" "${reference##*:}" >"$layout/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  oci_tar "$layout" >"$archive.new"
  mv "$archive.new" "$archive"
  rm -rf "$layout"
}

# oci_add_program ROOTFS FILE PATH: a program with the shared libraries it needs at their own paths, and the loader.
oci_add_program() {
  local rootfs=$1 file=$2 path=$3 library target
  install -D -m 755 "$file" "$rootfs$path"
  if ! ldd "$file" >/dev/null 2>&1; then return; fi  # Static.
  ldd "$file" | grep -q 'not found' && die "$file: $(ldd "$file" | grep 'not found')"
  while read -r library; do
    target=$(realpath "$(dirname "$library")")/$(basename "$library")  # /lib is a link to /usr/lib.
    install -D -m 755 "$(realpath "$library")" "$rootfs$target"
  done < <(ldd "$file" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/[^ ]*ld-linux[^ ]*\).*/\1/p')
  mkdir -p "$rootfs/usr/lib/x86_64-linux-gnu" "$rootfs/usr/lib64"
  [[ -e $rootfs/lib ]] || ln -s usr/lib "$rootfs/lib"
  [[ -e $rootfs/lib64 ]] || ln -s usr/lib64 "$rootfs/lib64"
}
