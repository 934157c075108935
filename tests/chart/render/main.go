// render [FLAGS] CHART OUTPUT writes each rendered template that is not empty to OUTPUT, under its own name; with
// --manifests under the names of manifests/.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type files []string

func (list *files) String() string         { return strings.Join(*list, ",") }
func (list *files) Set(value string) error { *list = append(*list, value); return nil }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	var valueFiles files
	flags := flag.NewFlagSet("render", flag.ExitOnError)
	flags.Var(&valueFiles, "values", "values over the chart's; may come more than once")
	release := flags.String("release", "podlane", "name of the release")
	namespace := flags.String("namespace", "podlane-system", "namespace of the release")
	service := flags.String("service", "Helm", "label managed-by")
	manifests := flags.Bool("manifests", false, "as manifests/ holds them")
	digest := flags.Bool("evaluated", false, "print the digest of tests/chart/admission/evaluated.txt; the argument is the repository")
	kubernetes := flags.String("kubernetes", "1.36", "version of the cluster")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *digest && flags.NArg() == 1 {
		sum, err := EvaluatedDigest(flags.Arg(0))
		fmt.Println(sum)
		return err
	}
	if flags.NArg() != 2 {
		return fmt.Errorf("usage: render [FLAGS] CHART OUTPUT")
	}
	minor, err := strconv.Atoi(strings.TrimPrefix(*kubernetes, "1."))
	if err != nil {
		return fmt.Errorf("--kubernetes %q must be such as 1.36", *kubernetes)
	}
	chart, err := LoadChart(flags.Arg(0))
	if err != nil {
		return err
	}
	values := Values{}
	for _, name := range valueFiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		more, err := ReadValues(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		values = Coalesce(values, more)
	}
	request := Request{
		Release:      Release{Name: *release, Namespace: *namespace, Service: *service, IsInstall: true, Revision: 1},
		Capabilities: Cluster(minor), Values: values}
	if *manifests {
		request = ManifestRequest(values)
	}
	rendered, err := chart.Render(request)
	if err != nil {
		return err
	}
	if *manifests {
		rendered = Manifests(rendered)
	}
	for name, text := range rendered {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := os.MkdirAll(flags.Arg(1), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(flags.Arg(1), filepath.Base(name)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
