// evaluate CASES RENDERED: the table of pods, CASES (cases.json), and the table of annotations that the C++ reader has too,
// against the policies that were rendered to RENDERED/<values>/.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

type object = map[string]interface{}

// Case is a pod and what becomes of it: refused in words that hold Refused, or with the parts in Out.
type Case struct {
	Name    string
	Values  string
	Pod     json.RawMessage
	Out     object
	Same    bool
	Refused []string
}

type Row struct {
	Key, Value   string
	OK           bool     `json:"ok"`
	MessageNames []string `json:"message_names"`
	Pod          struct {
		Containers []string
		Lanes      string
		Kinds      map[string]string
	}
}

var failures, passes int

func check(name string, problem string) {
	if problem == "" {
		passes++
		return
	}
	failures++
	fmt.Printf("FAIL %s: %s\n", name, problem)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: evaluate CASES ANNOTATIONS RENDERED")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "evaluate:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed\n", passes, failures)
	if failures > 0 || passes == 0 {
		os.Exit(1)
	}
}

func run(casesPath, rowsPath, rendered string) error {
	loaded := map[string]*Policies{}
	policies := func(values string) (*Policies, error) {
		if found := loaded[values]; found != nil {
			return found, nil
		}
		one, err := Load(filepath.Join(rendered, values, "mutatingadmissionpolicy.yaml"), filepath.Join(rendered, values, "validatingadmissionpolicy.yaml"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", values, err)
		}
		loaded[values] = one
		return one, nil
	}
	var cases []Case
	if err := read(casesPath, &cases); err != nil {
		return err
	}
	for _, one := range cases {
		if one.Values == "" {
			one.Values = "pools"
		}
		chosen, err := policies(one.Values)
		if err != nil {
			return err
		}
		check(one.Name, judge(chosen, one))
	}
	var rows []Row
	if err := read(rowsPath, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		values := "pools"
		if row.Pod.Kinds["feed"] == "queue" {
			values = "queue"
		}
		chosen, err := policies(values)
		if err != nil {
			return err
		}
		check(row.Key+" "+row.Value, judgeRow(chosen, row))
	}
	return nil
}

func read(path string, into interface{}) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func holds(text string, words []string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Sprintf("%q is not in: %s", word, text)
		}
	}
	return ""
}

func judge(policies *Policies, one Case) string {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(one.Pod, pod); err != nil {
		return err.Error()
	}
	pod.Kind, pod.APIVersion = "Pod", "v1"
	out, refusal, err := policies.Admit(pod)
	switch {
	case err != nil:
		return err.Error()
	case len(one.Refused) > 0 && refusal == "":
		return "is admitted"
	case len(one.Refused) > 0:
		return holds(refusal, one.Refused)
	case refusal != "":
		return "is refused: " + refusal
	case one.Same && text(out.Spec) != text(pod.Spec):
		return "is changed to " + text(out.Spec)
	}
	spec := object{}
	if err := json.Unmarshal([]byte(text(out.Spec)), &spec); err != nil {
		return err.Error()
	}
	return within("spec", one.Out, spec)
}

// within says where got lacks something of want: an object may have more keys (the API server's defaults), a list and
// resources may not.
func within(path string, want, got interface{}) string {
	switch want := want.(type) {
	case nil:
		return ""
	case object:
		have, ok := got.(object)
		if !ok {
			return fmt.Sprintf("%s is %s", path, text(got))
		}
		for key, value := range want {
			if problem := within(path+"."+key, value, have[key]); problem != "" {
				return problem
			}
		}
		if (strings.HasSuffix(path, ".limits") || strings.HasSuffix(path, ".requests")) && len(have) != len(want) {
			return fmt.Sprintf("%s is %s, wanted %s", path, text(got), text(want))
		}
		return ""
	case []interface{}:
		have, ok := got.([]interface{})
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s is %s, wanted %s", path, text(got), text(want))
		}
		for i := range want {
			if problem := within(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); problem != "" {
				return problem
			}
		}
		return ""
	}
	if text(want) != text(got) {
		return fmt.Sprintf("%s is %s, wanted %s", path, text(got), text(want))
	}
	return ""
}

// A row speaks of the grammar: what is not built yet is refused after it.
func judgeRow(policies *Policies, row Row) string {
	lanes, containers := row.Pod.Lanes, row.Pod.Containers
	if lanes == "" {
		lanes = "feed"
	}
	if len(containers) == 0 {
		containers = []string{"engine"}
	}
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "p", "namespace": "default",
		"annotations": object{"podlane.io/lanes": lanes}}}
	pod["metadata"].(object)["annotations"].(object)[row.Key] = row.Value
	list := []interface{}{}
	for _, name := range containers {
		amounts := object{"cpu": "1", "memory": "64Mi"}
		list = append(list, object{"name": name, "image": "i", "resources": object{"limits": amounts, "requests": amounts}})
	}
	pod["spec"] = object{"containers": list}
	typed := &corev1.Pod{}
	if err := json.Unmarshal([]byte(text(pod)), typed); err != nil {
		return err.Error()
	}
	_, refusal, err := policies.Admit(typed)
	switch {
	case err != nil:
		return err.Error()
	case row.OK && refusal != "" && !strings.Contains(refusal, "not built yet"):
		return "is refused: " + refusal
	case !row.OK && refusal == "":
		return "is admitted"
	case !row.OK && strings.Contains(refusal, "not built yet"):
		return "is refused for another reason: " + refusal
	case !row.OK:
		return holds(refusal, row.MessageNames)
	}
	return ""
}
