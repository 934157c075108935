// A chart as Helm 4 loads it: metadata, values, schema, files; values laid over each other as Helm does it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// Values is what {{ .Values }} gives.
type Values map[string]interface{}

// Metadata has the fields of Chart.yaml that templates may name. A field that Helm does not know is an error there too.
type Metadata struct {
	Name, Version, AppVersion, KubeVersion, Description, Type, APIVersion string
	Keywords                                                              []string
}

type Chart struct {
	Metadata  Metadata
	Values    Values
	Schema    []byte
	Templates map[string]string // By path below the chart: "templates/daemonset.yaml".
	Files     Files
}

// Files is what {{ .Files }} gives: everything but templates, values and metadata.
type Files map[string][]byte

func (files Files) Get(name string) string      { return string(files[name]) }
func (files Files) GetBytes(name string) []byte { return files[name] }
func (files Files) Lines(name string) []string {
	return strings.Split(strings.TrimSuffix(string(files[name]), "\n"), "\n")
}
func (files Files) Glob(pattern string) Files {
	found := Files{}
	for name, data := range files {
		if ok, _ := filepath.Match(pattern, name); ok {
			found[name] = data
		}
	}
	return found
}

func LoadChart(directory string) (*Chart, error) {
	chart := &Chart{Templates: map[string]string{}, Files: Files{}}
	err := filepath.Walk(directory, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		switch {
		case name == "Chart.yaml":
			return yaml.UnmarshalStrict(data, &chart.Metadata)
		case name == "values.yaml":
			// Helm keeps the numbers of a chart's own values as they are written.
			return yaml.Unmarshal(data, &chart.Values, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d })
		case name == "values.schema.json":
			chart.Schema = data
		case strings.HasPrefix(name, "templates/"):
			chart.Templates[name] = string(data)
		case name != ".helmignore":
			chart.Files[name] = data
		}
		return nil
	})
	return chart, err
}

// ReadValues reads a file as `helm -f` does.
func ReadValues(data []byte) (Values, error) {
	values := Values{}
	err := yaml.Unmarshal(data, &values)
	return values, err
}

// Coalesce lays over over under: objects key by key, everything else whole; null takes a key away.
func Coalesce(under, over Values) Values {
	result := Values{}
	for key, value := range under {
		result[key] = value
	}
	for key, value := range over {
		if value == nil {
			if _, known := under[key]; known {
				delete(result, key)
				continue
			}
		}
		above, aboveIsObject := value.(map[string]interface{})
		below, belowIsObject := under[key].(map[string]interface{})
		if aboveIsObject && belowIsObject {
			result[key] = map[string]interface{}(Coalesce(below, above))
		} else {
			result[key] = value
		}
	}
	return result
}

// Validate checks values against the chart's schema, as install, upgrade, template and lint do.
func (chart *Chart) Validate(values Values) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(chart.Schema), gojsonschema.NewBytesLoader(text))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if result.Valid() {
		return nil
	}
	var lines []string
	for _, problem := range result.Errors() {
		lines = append(lines, problem.String())
	}
	return errors.New(strings.Join(lines, "\n"))
}
