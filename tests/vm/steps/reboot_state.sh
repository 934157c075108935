# Sourced by the two steps of the reboot scenario.
# reboot_state: how many leases of lanes, records on disk, records in /run and lanes in use there are; one object.
reboot_state() {
  find /var/lib/cni/networks /var/lib/podlane -type f -size +0 >&2
  jq -nc --argjson leases "$(find /var/lib/cni/networks/ -path '*/podlane-*/10.*' | wc -l)" \
    --argjson disk "$(find /var/lib/podlane/ -name '*.json' | wc -l)" \
    --argjson run "$(find /run/ -path '/run/podlane/*.json' ! -name lanes.json | wc -l)" \
    --argjson used "$(jq '[.lanes[] | select(.pod? // "" != "")] | length' /run/podlane/lanes.json 2>/dev/null || echo 0)" \
    '{leases: $leases, onDisk: $disk, inRun: $run, used: $used}'
}
