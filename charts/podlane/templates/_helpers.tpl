{{- define "podlane.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the release's objects: the release's name alone where that says podlane already. 51: names of pods and of
controller revisions add up to 11 characters, and a label's value ends at 63. */}}
{{- define "podlane.fullname" -}}
{{- $name := include "podlane.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 51 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 51 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 51 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A DaemonSet's selector cannot be changed: nothing of a version may stand here. */}}
{{- define "podlane.selectorLabels" -}}
app.kubernetes.io/name: {{ include "podlane.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "podlane.labels" -}}
{{ include "podlane.selectorLabels" . }}
app.kubernetes.io/part-of: podlane
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- if eq .Release.Service "Helm" }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
{{- end -}}

{{- define "podlane.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "podlane.fullname" .) -}}
{{- end -}}

{{/* An image's reference: repository:tag, or repository@digest where a digest is given. */}}
{{- define "podlane.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}

{{/* What the device plugin reads: JSON, as it is mounted. YAML takes a bare off for false. */}}
{{- define "podlane.config" -}}
{{- $pools := list -}}
{{- range ternary (list) .Values.pools .Values.uninstall.prepare -}}
{{- $pool := deepCopy . -}}
{{- if and (hasKey . "zeroCopy") (not .zeroCopy) }}{{ $_ := set $pool "zeroCopy" "off" }}{{ end -}}
{{- $pools = append $pools $pool -}}
{{- end -}}
{{- dict "pools" $pools | toPrettyJson -}}
{{- end -}}

{{/* The node profile, or nothing. Before an uninstall one without settings: node config then takes back what it set. */}}
{{- define "podlane.profile" -}}
{{- with .Values.nodeConfig.profile -}}
{{- ternary (dict "mode" "enforce") . (and $.Values.uninstall.prepare (eq (toString .mode) "enforce")) | toPrettyJson -}}
{{- end -}}
{{- end -}}

{{/* The installer's command line. The CNI binary's own defaults are not written into its entry. */}}
{{- define "podlane.installerCommand" -}}
{{- $node := .Values.node -}}
{{- $entry := deepCopy .Values.cni.entry -}}
{{- if and (ne $node.runDir "/run/podlane") (not (hasKey $entry "runDir")) }}{{ $_ := set $entry "runDir" $node.runDir }}{{ end -}}
{{- if and (ne $node.stateDir "/var/lib/podlane") (not (hasKey $entry "stateDir")) }}{{ $_ := set $entry "stateDir" $node.stateDir }}{{ end -}}
{{- $command := list "/usr/bin/podlane-cni-installer" "run" (printf "--method=%s" .Values.cni.install)
      (printf "--bin-dir=%s" $node.cniBinDir) (printf "--conf-dir=%s" $node.cniConfDir) (printf "--cache-dir=%s" $node.cniStateDir)
      (printf "--run-dir=%s" $node.runDir) (printf "--entry=%s" (toJson $entry)) -}}
{{- if .Values.uninstall.prepare }}{{ $command = append $command "--uninstall" }}{{ end -}}
{{- toJson $command -}}
{{- end -}}

{{/* ADDRESS:PORT for --http, and the probes' host: none means the pod's own address, which is the node's. */}}
{{- define "podlane.httpListen" -}}
{{- if eq .Values.devicePlugin.http.address "node" -}}
$(HOST_IP):{{ .Values.devicePlugin.http.port }}
{{- else -}}
{{ .Values.devicePlugin.http.address }}:{{ .Values.devicePlugin.http.port }}
{{- end -}}
{{- end -}}
{{- define "podlane.httpGet" -}}
{{- $http := .root.Values.devicePlugin.http -}}
{ {{ if ne $http.address "node" }}host: {{ ternary "127.0.0.1" $http.address (eq $http.address "0.0.0.0") }}, {{ end }}port: {{ $http.port }}, path: {{ .path }} }
{{- end -}}
