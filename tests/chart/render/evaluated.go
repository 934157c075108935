// What the admission policies were evaluated with. The evaluation takes Kubernetes' own API server library and minutes to build,
// so that it is run when a policy changes (tests/chart/admission.sh --offline) and leaves this digest; a test sees a policy or a
// table that changed since.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"

	"sigs.k8s.io/yaml"
)

func EvaluatedDigest(source string) (string, error) {
	chart, err := LoadChart(filepath.Join(source, "charts/podlane"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	values, err := filepath.Glob(filepath.Join(source, "tests/chart/admission/values/*.yaml"))
	if err != nil {
		return "", err
	}
	sort.Strings(values)
	for _, path := range values {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		over, err := ReadValues(text)
		if err != nil {
			return "", err
		}
		rendered, err := chart.Render(Request{Release: Release{Name: "podlane", Namespace: "podlane-system", Service: "Helm"},
			Capabilities: Cluster(36), Values: over})
		if err != nil {
			return "", err
		}
		for _, name := range []string{"mutatingadmissionpolicy.yaml", "validatingadmissionpolicy.yaml"} {
			for _, part := range regexp.MustCompile(`(?m)^---\s*$`).Split(rendered["templates/"+name], -1) {
				one := map[string]interface{}{}
				if err := yaml.Unmarshal([]byte(part), &one); err != nil {
					return "", err
				}
				// Labels change with the version of the chart; they mean nothing here.
				spec, err := json.Marshal([]interface{}{filepath.Base(path), one["apiVersion"], one["kind"], one["spec"]})
				if err != nil {
					return "", err
				}
				sum.Write(spec)
			}
		}
	}
	for _, name := range []string{"tests/chart/admission/cases.json", "tests/unit/lane/annotations_cases.json"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
