// manifests/: the chart rendered for those who do not use Helm.
package main

import (
	"path"
	"strings"
)

// Numbers give the order of `kubectl apply -f`; templates that do not stand here are options of the chart alone.
var manifestNames = map[string]string{
	"serviceaccount.yaml":            "10-serviceaccount.yaml",
	"configmap.yaml":                 "20-configmap.yaml",
	"configmap-profile.yaml":         "21-configmap-profile.yaml",
	"daemonset.yaml":                 "30-daemonset.yaml",
	"mutatingadmissionpolicy.yaml":   "40-admission-inject.yaml",
	"validatingadmissionpolicy.yaml": "41-admission-check.yaml",
}

// What the reader of a rendered file must know before anything else.
var warnings = map[string]string{
	"40-admission-inject.yaml": `# Knows the pools of manifests/values.yaml: with others, render anew. Needs Kubernetes 1.36; leave it out below.
`,
	"41-admission-check.yaml": `# Knows the pools of manifests/values.yaml: with others, render anew.
`,
	"20-configmap.yaml": `# EDIT BEFORE USE. Interface, networks and addresses below are examples: manifests/README.md says what to write.
`,
}

func ManifestRequest(values Values) Request {
	return Request{Release: Release{Name: "podlane", Namespace: "podlane-system", Service: "kubectl", IsInstall: true, Revision: 1},
		Capabilities: Cluster(36), Values: values}
}

// Manifests gives the files' bodies by name.
func Manifests(rendered map[string]string) map[string]string {
	bodies := map[string]string{}
	for template, text := range rendered {
		name, wanted := manifestNames[path.Base(template)]
		if wanted && strings.TrimSpace(text) != "" {
			bodies[name] = warnings[name] + "# Rendered from charts/podlane with manifests/values.yaml by tests/chart/manifests.sh: edit those.\n" +
				strings.TrimSpace(text) + "\n"
		}
	}
	return bodies
}
