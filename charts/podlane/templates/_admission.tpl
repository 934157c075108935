{{/*
CEL that both admission policies share. How it works: the pools of the values become literals, the annotations become rows
[pool, count, kind, path, mode] of strings, and each policy reads rows. CEL in the API server has no local names inside of an
expression; [x].map(name, …)[0] gives one.
*/}}

{{/* v1, v1beta1 or nothing: which API the injecting policy is written in. */}}
{{- define "podlane.mutatingVersion" -}}
{{- $wanted := .Values.admission.mutating -}}
{{- if eq $wanted "auto" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}v1{{- end -}}
{{- else if ne $wanted "none" -}}
{{- $wanted -}}
{{- end -}}
{{- end -}}

{{/* CPUs as Kubernetes writes them, in thousandths. */}}
{{- define "podlane.milliCpus" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text -}}{{ trimSuffix "m" $text }}{{- else -}}{{ mul (int64 $text) 1000 }}{{- end -}}
{{- end -}}

{{/* {"feed":"queue"} */}}
{{- define "podlane.cel.kinds" -}}
{{- $kinds := dict -}}
{{- range .Values.pools }}{{ $_ := set $kinds .name .lane }}{{ end -}}
{{- toJson $kinds -}}
{{- end -}}

{{/* The mode of a pool whose pods do not say. */}}
{{- define "podlane.cel.modes" -}}
{{- $modes := dict -}}
{{- range .Values.pools }}{{ $_ := set $modes .name (.mode | default "interrupt") }}{{ end -}}
{{- toJson $modes -}}
{{- end -}}

{{/* {"feed/spinning":1000}: what one lane costs the relay. */}}
{{- define "podlane.cel.milliCpus" -}}
{{- $cpus := dict -}}
{{- range $pool := .Values.pools -}}
{{- range $mode, $cpu := merge (dict) ($pool.relayCpus | default dict) $.Values.relay.cpus -}}
{{- $_ := set $cpus (printf "%s/%s" $pool.name $mode) (include "podlane.milliCpus" $cpu | int64) -}}
{{- end -}}
{{- end -}}
{{- toJson $cpus -}}
{{- end -}}

{{/* Packet memory of one lane in bytes, of the pools that want pages of one kind; 0 for the others. Whole pages, as the
program rounds them. Call: (list . "none" 4096). */}}
{{- define "podlane.cel.umemBytes" -}}
{{- $root := index . 0 -}}
{{- $pages := index . 1 -}}
{{- $page := index . 2 | int64 -}}
{{- $bytes := dict -}}
{{- range $root.Values.pools -}}
{{- $size := 0 -}}
{{- if and (ne .lane "tun") (eq (.hugePages | default "none") $pages) -}}
{{- $size = mul (.frames | default 4096 | int64) (.frameSize | default 2048 | int64) -}}
{{- $size = mul (div (add $size (sub $page 1)) $page) $page -}}
{{- end -}}
{{- $_ := set $bytes .name ($size | int64) -}}
{{- end -}}
{{- toJson $bytes -}}
{{- end -}}

{{- define "podlane.cel.poolName" -}}
[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?
{{- end -}}
{{- define "podlane.cel.lanesItem" -}}
[ \t]*{{ include "podlane.cel.poolName" . }}[ \t]*(=[ \t]*([1-9]|[1-5][0-9]|6[0-4])[ \t]*)?
{{- end -}}

{{/* Pods of these namespaces alone are looked at. */}}
{{- define "podlane.admission.namespaces" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- toYaml (append .Values.admission.excludedNamespaces .Release.Namespace | uniq) | nindent 8 }}
{{- end -}}

{{- define "podlane.admission.variables" -}}
- name: annotations
  expression: object.metadata.annotations
- name: lanes
  expression: "'podlane.io/lanes' in variables.annotations ? string(variables.annotations['podlane.io/lanes']) : ''"
# The bounds keep CEL's work bounded: the API server stops an expression that costs too much.
- name: lanesAreRight
  expression: >-
    variables.lanes.size() <= 4096 && variables.lanes.split(',').size() <= 64 &&
    variables.lanes.matches(r'^{{ include "podlane.cel.lanesItem" . }}(,{{ include "podlane.cel.lanesItem" . }})*$')
# [["feed", "2"], ["orders", "1"]]
- name: items
  expression: |-
    !variables.lanesAreRight ? [] :
      variables.lanes.split(',').map(i, (i.contains('=') ? i : i + '=1').split('=').map(t, t.trim()))
- name: kinds
  expression: {{ include "podlane.cel.kinds" . | squote }}
- name: modes
  expression: {{ include "podlane.cel.modes" . | squote }}
# [pool, count, kind, path, mode]. Kind '': the chart has no such pool. Path 'none': a tun lane takes none.
- name: rows
  expression: |-
    variables.items.map(i, [i[0], i[1],
      i[0] in variables.kinds ? string(variables.kinds[i[0]]) : '',
      i[0] in variables.kinds && variables.kinds[i[0]] == 'tun' ? 'none' :
        ('podlane.io/path.' + i[0]) in variables.annotations ? string(variables.annotations['podlane.io/path.' + i[0]]) :
        'podlane.io/path' in variables.annotations ? string(variables.annotations['podlane.io/path']) : 'relay',
      ('podlane.io/mode.' + i[0]) in variables.annotations ? string(variables.annotations['podlane.io/mode.' + i[0]]) :
        'podlane.io/mode' in variables.annotations ? string(variables.annotations['podlane.io/mode']) :
        i[0] in variables.modes ? string(variables.modes[i[0]]) : 'interrupt'])
- name: containers
  expression: "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"
# Who uses the lanes that no relay serves.
- name: target
  expression: |-
    'podlane.io/container' in variables.annotations ? string(variables.annotations['podlane.io/container'])
      : string(object.spec.containers[0].name)
- name: targetIsThere
  expression: variables.containers.exists(c, c.name == variables.target)
{{- end -}}
