// Renders a chart's templates with Go's text/template and sprig, which are Helm's own engine, and the functions that
// Helm adds. Where Helm quietly writes nothing for a value that is not there, this keeps "<no value>" for the tests.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type Release struct {
	Name, Namespace, Service string
	IsInstall, IsUpgrade     bool
	Revision                 int
}

type KubeVersion struct{ Version, Major, Minor string }

func (version KubeVersion) String() string     { return version.Version }
func (version KubeVersion) GitVersion() string { return version.Version }

type APIVersions []string

// Has takes "group/version" and "group/version/Kind", as Helm's does.
func (versions APIVersions) Has(name string) bool {
	for _, version := range versions {
		if version == name {
			return true
		}
	}
	return false
}

type Capabilities struct {
	KubeVersion KubeVersion
	APIVersions APIVersions
}

type Request struct {
	Release      Release
	Capabilities Capabilities
	Values       Values // Over the chart's.
}

// Cluster is what a cluster of that minor version, 1.<minor>, says of itself.
func Cluster(minor int) Capabilities {
	versions := APIVersions{"v1", "apps/v1", "apps/v1/DaemonSet", "batch/v1", "rbac.authorization.k8s.io/v1",
		"scheduling.k8s.io/v1", "policy/v1"}
	if minor >= 30 {
		versions = append(versions, "admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
			"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding")
	}
	if minor >= 36 {
		versions = append(versions, "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
			"admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding")
	}
	return Capabilities{KubeVersion: KubeVersion{fmt.Sprintf("v1.%d.2", minor), "1", fmt.Sprint(minor)}, APIVersions: versions}
}

// Render gives each template's text by its path. Templates whose name begins with "_" are for the others.
func (chart *Chart) Render(request Request) (map[string]string, error) {
	values := Coalesce(chart.Values, request.Values)
	if err := chart.Validate(values); err != nil {
		return nil, err
	}
	root := template.New("podlane").Option("missingkey=zero")
	root.Funcs(functions(root))
	names := make([]string, 0, len(chart.Templates))
	for name := range chart.Templates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := root.New(full(chart, name)).Parse(chart.Templates[name]); err != nil {
			return nil, err
		}
	}
	rendered := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, full(chart, name), map[string]interface{}{
			"Values": values, "Chart": chart.Metadata, "Files": chart.Files, "Release": request.Release,
			"Capabilities": request.Capabilities,
			"Template":     map[string]interface{}{"Name": full(chart, name), "BasePath": chart.Metadata.Name + "/templates"},
		})
		if err != nil {
			return nil, err
		}
		rendered[name] = text.String()
	}
	return rendered, nil
}

func full(chart *Chart, name string) string { return chart.Metadata.Name + "/" + name }

func functions(root *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	// Helm takes these away: a chart must not read the environment of who installs it.
	delete(all, "env")
	delete(all, "expandenv")
	for name, function := range (template.FuncMap{
		"toYaml":        toYaml,
		"fromYaml":      fromYaml,
		"fromYamlArray": fromYamlArray,
		"toJson":        toJSON,
		"fromJson":      fromJSON,
		// As `helm template` and a first install see it: nothing is there.
		"lookup": func(apiVersion, kind, namespace, name string) map[string]interface{} { return map[string]interface{}{} },
		"required": func(message string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
		"include": func(name string, data interface{}) (string, error) {
			var text bytes.Buffer
			err := root.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"tpl": func(text string, data interface{}) (string, error) {
			clone, err := root.Clone()
			if err != nil {
				return "", err
			}
			parsed, err := clone.New("tpl").Parse(text)
			if err != nil {
				return "", err
			}
			var result bytes.Buffer
			err = parsed.Execute(&result, data)
			return result.String(), err
		},
	}) {
		all[name] = function
	}
	return all
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func fromYaml(text string) map[string]interface{} {
	value := map[string]interface{}{}
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		value["Error"] = err.Error()
	}
	return value
}

func fromYamlArray(text string) []interface{} {
	value := []interface{}{}
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return []interface{}{err.Error()}
	}
	return value
}

func toJSON(value interface{}) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func fromJSON(text string) map[string]interface{} {
	value := map[string]interface{}{}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		value["Error"] = err.Error()
	}
	return value
}
