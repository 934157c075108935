// The chart as Helm would install it: what is rendered, what is refused, and what must agree with the rest of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var source = func() string {
	if path := os.Getenv("PODLANE_SOURCE"); path != "" {
		return path
	}
	return "../../.."
}()

type object = map[string]interface{}

func loadChart(t *testing.T) *Chart {
	t.Helper()
	chart, err := LoadChart(filepath.Join(source, "charts/podlane"))
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func parseValues(t *testing.T, text string) Values {
	t.Helper()
	values, err := ReadValues([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return values
}

func render(t *testing.T, values string, minor int) (map[string]string, error) {
	t.Helper()
	return loadChart(t).Render(Request{
		Release:      Release{Name: "podlane", Namespace: "podlane-system", Service: "Helm", IsInstall: true, Revision: 1},
		Capabilities: Cluster(minor), Values: parseValues(t, values)})
}

func mustRender(t *testing.T, values string, minor int) map[string]string {
	t.Helper()
	rendered, err := render(t, values, minor)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// documents gives the objects of all templates but the notes.
func documents(t *testing.T, rendered map[string]string) []object {
	t.Helper()
	var found []object
	for name, text := range rendered {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, part := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
			one := object{}
			if err := yaml.UnmarshalStrict([]byte(part), &one); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, part)
			}
			if len(one) > 0 {
				found = append(found, one)
			}
		}
	}
	return found
}

func at(value interface{}, path ...string) interface{} {
	for _, key := range path {
		inner, ok := value.(object)
		if !ok {
			return nil
		}
		value = inner[key]
	}
	return value
}

func items(value interface{}, path ...string) []interface{} {
	list, _ := at(value, path...).([]interface{})
	return list
}

func ofKind(objects []object, kind string) []object {
	var found []object
	for _, one := range objects {
		if one["kind"] == kind {
			found = append(found, one)
		}
	}
	return found
}

func theDaemonSet(t *testing.T, rendered map[string]string) object {
	t.Helper()
	found := ofKind(documents(t, rendered), "DaemonSet")
	if len(found) != 1 {
		t.Fatalf("%d DaemonSets", len(found))
	}
	return found[0]
}

func containers(daemonSet object) []interface{} {
	pod := at(daemonSet, "spec", "template", "spec")
	return append(append([]interface{}{}, items(pod, "initContainers")...), items(pod, "containers")...)
}

const twoPools = `
pools:
  - { name: feed, lane: queue, devices: { names: [ens1f0] }, trusted: true, subnets: [10.9.0.0/24], gateway: 10.9.0.1,
      frames: 8192, frameSize: 2048, hugePages: 2Mi, relayCpus: { spinning: 1, interrupt: 250m },
      ipam: { type: host-local, ranges: [[{ subnet: 10.9.0.0/24 }]] } }
  - { name: vpn, lane: tun, lanes: 16 }
`

const onloadPool = `
  - { name: accel, lane: onload, lanes: 4, mode: adaptive, interface: ens1f1, env: { EF_POLL_USEC: 100 } }
`

const everything = twoPools + onloadPool + `
devicePlugin: { http: { address: node }, logLevel: debug }
nodeConfig: { profile: { mode: enforce, memory: { numaBalancing: "off" } }, logLevel: debug }
priorityClass: { create: true, name: podlane, value: 1000000000 }
imagePullSecrets: [{ name: registry }]
nodeSelector: { podlane: "yes" }
affinity: { nodeAffinity: {} }
podLabels: { team: a }
podAnnotations: { note: b }
serviceAccount: { annotations: { a: b } }
metrics: { podMonitor: { enabled: true, labels: { release: prometheus } }, dashboard: { enabled: true, annotations: { folder: x } } }
networkAttachmentDefinitions:
  - { name: vpn, namespace: default, resourceName: podlane.io/vpn, config: { select: all, tun: { owner: 65534 } } }
  - { name: bare }
`

var shapes = map[string]string{"no pools": "", "two pools": twoPools, "everything": everything}

// What Kubernetes 1.36 and the two operators serve.
var served = map[string]bool{
	"v1 ServiceAccount": true, "v1 ConfigMap": true, "apps/v1 DaemonSet": true, "scheduling.k8s.io/v1 PriorityClass": true,
	"monitoring.coreos.com/v1 PodMonitor": true, "k8s.cni.cncf.io/v1 NetworkAttachmentDefinition": true,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":           true,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":    true,
	"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":             true,
	"admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding":      true,
	"admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy":        true,
	"admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding": true,
}

func TestEveryObjectIsWhole(t *testing.T) {
	for name, values := range shapes {
		t.Run(name, func(t *testing.T) {
			rendered := mustRender(t, values, 36)
			for file, text := range rendered {
				if strings.Contains(text, "<no value>") {
					t.Errorf("%s names a value that is not there", file)
				}
			}
			seen := map[string]bool{}
			for _, one := range documents(t, rendered) {
				what := fmt.Sprintf("%v %v %v", one["apiVersion"], one["kind"], at(one, "metadata", "name"))
				if seen[what] {
					t.Errorf("%s is there twice", what)
				}
				seen[what] = true
				if !served[fmt.Sprintf("%v %v", one["apiVersion"], one["kind"])] {
					t.Errorf("%s: no cluster is known to serve that", what)
				}
				labels, _ := at(one, "metadata", "labels").(object)
				for _, label := range []string{"name", "instance", "part-of", "version", "managed-by"} {
					if value, ok := labels["app.kubernetes.io/"+label].(string); !ok || value == "" || len(value) > 63 {
						t.Errorf("%s: label app.kubernetes.io/%s is %v", what, label, labels["app.kubernetes.io/"+label])
					}
				}
				namespace := at(one, "metadata", "namespace")
				clusterWide := one["kind"] == "PriorityClass" || strings.Contains(what, "AdmissionPolicy")
				if (namespace == nil) != clusterWide {
					t.Errorf("%s: namespace is %v", what, namespace)
				}
			}
		})
	}
}

func TestDaemonSetHoldsTogether(t *testing.T) {
	for name, values := range shapes {
		t.Run(name, func(t *testing.T) {
			rendered := mustRender(t, values, 36)
			all := documents(t, rendered)
			daemonSet := theDaemonSet(t, rendered)
			pod := at(daemonSet, "spec", "template", "spec")

			labels := at(daemonSet, "spec", "template", "metadata", "labels").(object)
			for key, value := range at(daemonSet, "spec", "selector", "matchLabels").(object) {
				if labels[key] != value {
					t.Errorf("selector %s=%v does not find the pods", key, value)
				}
			}
			named := func(kind string, name interface{}) bool {
				for _, one := range ofKind(all, kind) {
					if at(one, "metadata", "name") == name {
						return true
					}
				}
				return false
			}
			if !named("ServiceAccount", at(pod, "serviceAccountName")) {
				t.Errorf("no service account %v", at(pod, "serviceAccountName"))
			}
			class := at(pod, "priorityClassName").(string)
			if !strings.HasPrefix(class, "system-") && !named("PriorityClass", class) {
				t.Errorf("no priority class %v", class)
			}
			volumes, mounted := map[string]object{}, map[string]bool{}
			for _, volume := range items(pod, "volumes") {
				volumes[at(volume, "name").(string)] = volume.(object)
				if config := at(volume, "configMap", "name"); config != nil && !named("ConfigMap", config) {
					t.Errorf("no ConfigMap %v", config)
				}
			}
			for _, container := range containers(daemonSet) {
				paths := map[string]bool{}
				for _, mount := range items(container, "volumeMounts") {
					volume := volumes[at(mount, "name").(string)]
					if volume == nil {
						t.Errorf("%v mounts %v, which is no volume", at(container, "name"), at(mount, "name"))
						continue
					}
					mounted[at(mount, "name").(string)] = true
					path := at(mount, "mountPath").(string)
					if paths[path] {
						t.Errorf("%v mounts %s twice", at(container, "name"), path)
					}
					paths[path] = true
					// The kubelet and the runtime are told paths: they must be the same inside and outside, but for what is
					// only looked at below --host-root, and what node config finds and sets below --root.
					if host := at(volume, "hostPath", "path"); host != nil && host != path &&
						!(path == fmt.Sprintf("/host%v", host) && (at(mount, "readOnly") == true || at(container, "name") == "nodeconfig")) {
						t.Errorf("%v: %v of the node is %v inside", at(container, "name"), host, path)
					}
				}
				ports := map[interface{}]bool{}
				for _, port := range items(container, "ports") {
					ports[at(port, "containerPort")] = true
				}
				for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
					if port := at(container, probe, "httpGet", "port"); port != nil && !ports[port] {
						t.Errorf("%v: %s asks port %v, which the container does not open", at(container, "name"), probe, port)
					}
				}
				if at(container, "resources", "limits", "memory") == nil || at(container, "resources", "requests", "cpu") == nil {
					t.Errorf("%v has no memory limit or no CPU request", at(container, "name"))
				}
			}
			for name := range volumes {
				if !mounted[name] {
					t.Errorf("volume %s is mounted nowhere", name)
				}
			}
		})
	}
}

// Root in the host's network, but with named capabilities and nothing more.
func TestContainersAskForNoMoreThanTheyName(t *testing.T) {
	rendered := mustRender(t, everything, 36)
	daemonSet := theDaemonSet(t, rendered)
	pod := at(daemonSet, "spec", "template", "spec").(object)
	for _, key := range []string{"hostPID", "hostIPC", "shareProcessNamespace"} {
		if pod[key] != nil {
			t.Errorf("%s is there", key)
		}
	}
	for _, container := range containers(daemonSet) {
		context := at(container, "securityContext").(object)
		if context["privileged"] != nil || context["allowPrivilegeEscalation"] != false ||
			context["readOnlyRootFilesystem"] != true || at(context, "seccompProfile", "type") != "RuntimeDefault" ||
			fmt.Sprint(at(context, "capabilities", "drop")) != "[ALL]" {
			t.Errorf("%v: %v", at(container, "name"), context)
		}
	}
	lists := strings.Split(rendered["templates/daemonset.yaml"], " add:\n")[1:]
	if len(lists) != 2 {
		t.Errorf("%d containers with capabilities", len(lists))
	}
	for _, list := range lists {
		for _, line := range strings.Split(list, "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "- ") {
				break
			}
			if !strings.Contains(line, "#") {
				t.Errorf("a capability without its reason: %s", line)
			}
		}
	}
}

// What node config needs, by what its profile asks for (measured: docs/security.md).
func TestNodeConfigHasWhatItsProfileNeeds(t *testing.T) {
	for _, row := range []struct {
		profile, capabilities string
		writes                bool
	}{
		{"", "", false},
		{"{ cpus: { lanes: 2-3 } }", "", false},
		{"{ mode: observe, memory: { numaBalancing: 'off' } }", "", false},
		{"{ mode: enforce }", "[NET_ADMIN]", true},
		{"{ mode: enforce, memory: null }", "[NET_ADMIN]", true},
		{"{ mode: enforce, memory: { numaBalancing: leave, thp: madvise } }", "[NET_ADMIN]", true},
		{"{ mode: enforce, memory: { numaBalancing: 'off' } }", "[NET_ADMIN SYS_ADMIN]", true},
	} {
		values := ""
		if row.profile != "" {
			values = "nodeConfig: { profile: " + row.profile + " }\n"
		}
		rendered := mustRender(t, values, 36)
		var found object
		for _, container := range containers(theDaemonSet(t, rendered)) {
			if at(container, "name") == "nodeconfig" {
				found = container.(object)
			}
		}
		if (found != nil) != (row.profile != "") {
			t.Errorf("%q: container %v", row.profile, found)
			continue
		}
		if found == nil {
			continue
		}
		if got := at(found, "securityContext", "capabilities", "add"); got != nil && fmt.Sprint(got) != row.capabilities ||
			got == nil && row.capabilities != "" {
			t.Errorf("%q: capabilities %v, not %s", row.profile, got, row.capabilities)
		}
		for _, mount := range items(found, "volumeMounts") {
			path := at(mount, "mountPath")
			if written := at(mount, "readOnly") != true; written != (path == "/run/podlane" || row.writes && (path == "/host/proc" || path == "/host/sys")) {
				t.Errorf("%q: %v writable: %v", row.profile, path, written)
			}
		}
		var profile object
		for _, one := range ofKind(documents(t, rendered), "ConfigMap") {
			if at(one, "metadata", "name") == "podlane-profile" {
				if err := json.Unmarshal([]byte(at(one, "data").(object)["node-profile.json"].(string)), &profile); err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := parseValues(t, "profile: "+row.profile)["profile"]; fmt.Sprint(profile) != fmt.Sprint(want) {
			t.Errorf("the profile is %v, not %v", profile, want)
		}
	}
	// A change of settings rolls no pod; the daemon watches its file.
	one := mustRender(t, "nodeConfig: { profile: { mode: enforce, memory: { thp: madvise } } }", 36)
	other := mustRender(t, "nodeConfig: { profile: { mode: enforce, memory: { thp: never } } }", 36)
	if one["templates/daemonset.yaml"] != other["templates/daemonset.yaml"] {
		t.Error("another setting, another DaemonSet")
	}
	// Before an uninstall everything is taken back, and the pod is ready when it is.
	leaving := mustRender(t, "nodeConfig: { profile: { mode: enforce, memory: { thp: never } } }\nuninstall: { prepare: true }", 36)
	if !strings.Contains(leaving["templates/configmap-profile.yaml"], "\"mode\": \"enforce\"\n    }") || strings.Contains(leaving["templates/configmap-profile.yaml"], "thp") {
		t.Errorf("the profile before an uninstall: %s", leaving["templates/configmap-profile.yaml"])
	}
	if !strings.Contains(leaving["templates/daemonset.yaml"], `["/usr/bin/podlane-nodeconfig", "plan", "--root=/host", "--run-dir=/run/podlane"]`) {
		t.Error("nobody waits until the settings are taken back")
	}
}

func TestProfileSchemaIsThatOfNodeConfig(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(source, "docs/node-profile.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, chart := object{}, object{}
	for schema, text := range map[*object][]byte{&page: text, &chart: loadChart(t).Schema} {
		if err := json.Unmarshal(text, schema); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"type", "additionalProperties", "properties"} {
		if fmt.Sprint(page[key]) != fmt.Sprint(at(chart, "definitions", "nodeProfile").(object)[key]) {
			t.Errorf("%s of a profile are not those of docs/node-profile.schema.json", key)
		}
	}
	if fmt.Sprint(page["$defs"]) != fmt.Sprint(chart["$defs"]) {
		t.Error("$defs are not those of docs/node-profile.schema.json")
	}
}

// No part talks to the API server: no token, and so no role. Whoever adds a client adds its rights here.
func TestRightsAreThoseThatAreUsed(t *testing.T) {
	rendered := mustRender(t, everything, 36)
	for _, one := range documents(t, rendered) {
		if strings.Contains(one["kind"].(string), "Role") {
			t.Errorf("%v %v grants what nobody uses", one["kind"], at(one, "metadata", "name"))
		}
		if one["kind"] == "ServiceAccount" && one["automountServiceAccountToken"] != false {
			t.Error("the service account hands out its token")
		}
	}
	if at(theDaemonSet(t, rendered), "spec", "template", "spec", "automountServiceAccountToken") != false {
		t.Error("the pods mount a token")
	}
}

func TestConfigurationIsThePoolsAndRollsThePods(t *testing.T) {
	checksum := func(values string) interface{} {
		return at(theDaemonSet(t, mustRender(t, values, 36)), "spec", "template", "metadata", "annotations").(object)["checksum/config"]
	}
	config := func(values string) object {
		text := at(ofKind(documents(t, mustRender(t, values, 36)), "ConfigMap")[0], "data").(object)["podlane.json"].(string)
		read := object{}
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return read
	}
	if got := config(""); fmt.Sprint(got) != "map[pools:[]]" {
		t.Errorf("no pools: %v", got)
	}
	want := parseValues(t, twoPools)["pools"]
	if got := config(twoPools)["pools"]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("pools are %v\nnot %v", got, want)
	}
	if checksum("") == checksum(twoPools) {
		t.Error("other pools, same checksum")
	}
	if checksum(twoPools) != checksum(twoPools+"podLabels: { a: b }\n") {
		t.Error("same pools, other checksum")
	}
}

// Only a node's pools of kind onload need a look at its devices and libraries.
func TestOnloadPoolsSeeTheHost(t *testing.T) {
	for values, wanted := range map[string]bool{twoPools: false, twoPools + onloadPool: true} {
		text := ""
		for _, one := range mustRender(t, values, 36) {
			text += one
		}
		for _, line := range []string{"- --host-root=/host", "mountPath: /host/dev", "mountPath: /host/usr", "{ path: /usr, type: Directory }"} {
			if strings.Contains(text, line) != wanted {
				t.Errorf("%q is there: %v", line, !wanted)
			}
		}
	}
}

func TestNotesSayWhatToDoNext(t *testing.T) {
	without, with := mustRender(t, "", 36)["templates/NOTES.txt"], mustRender(t, twoPools, 36)["templates/NOTES.txt"]
	if !strings.Contains(without, "NO POOLS") || strings.Contains(with, "NO POOLS") {
		t.Error("NO POOLS is said when there are some, or not when there are none")
	}
	if !strings.Contains(with, "podlane.io/vpn  kind tun, 16 lanes") || !strings.Contains(with, "rollout status daemonset/podlane") {
		t.Error(with)
	}
}

func TestNamesOfTheRelease(t *testing.T) {
	for _, row := range []struct{ release, values, want string }{
		{"podlane", "", "podlane"},
		{"prod", "", "prod-podlane"},
		{"my-podlane", "", "my-podlane"},
		{"prod", "fullnameOverride: lanes", "lanes"},
		{"prod", "nameOverride: x", "prod-x"},
		{strings.Repeat("a", 53), "", strings.Repeat("a", 51)},
	} {
		rendered, err := loadChart(t).Render(Request{Release: Release{Name: row.release, Namespace: "n", Service: "Helm"},
			Capabilities: Cluster(36), Values: parseValues(t, row.values)})
		if err != nil {
			t.Fatal(err)
		}
		if got := at(theDaemonSet(t, rendered), "metadata", "name"); got != row.want {
			t.Errorf("release %s, %s: %v, not %s", row.release, row.values, got, row.want)
		}
	}
}

// Each row is refused, by the schema or by a template, in words that hold these.
func TestBadValuesAreRefused(t *testing.T) {
	pool := func(text string) string { return "pools: [{ " + text + " }]" }
	veth := "name: a, lane: veth, lanes: 4, devices: { names: [e0] }, subnets: [10.0.0.0/24]"
	for _, row := range []struct {
		name, values string
		words        []string
	}{
		{"unknown key", "pool: []", []string{"pool", "not allowed"}},
		{"unknown inner key", "image: { tags: x }", []string{"tags"}},
		{"typo in a pool", pool(veth + ", frame: 4096"), []string{"frame"}},
		{"pools as an object", "pools: { feed: {} }", []string{"pools", "array"}},
		{"name in capitals", pool("name: Feed, lane: tun, lanes: 1"), []string{"name"}},
		{"name of 49 letters", pool("name: " + strings.Repeat("a", 49) + ", lane: tun, lanes: 1"), []string{"name"}},
		{"no name", pool("lane: tun, lanes: 1"), []string{"name"}},
		{"two pools of one name", "pools: [{ name: a, lane: tun, lanes: 1 }, { name: a, lane: tun, lanes: 2 }]", []string{"pools[1].name", "unique"}},
		{"kind that is not built", pool("name: a, lane: device"), []string{"lane"}},
		{"tun without lanes", pool("name: a, lane: tun"), []string{"lanes"}},
		{"onload without lanes", pool("name: a, lane: onload"), []string{"lanes"}},
		{"onload with subnets", pool("name: a, lane: onload, lanes: 1, subnets: [10.9.0.0/24]"), []string{"pools.0"}},
		{"option that is none of Onload's", pool("name: a, lane: onload, lanes: 1, env: { ef_poll: 1 }"), []string{"env"}},
		{"tun with an environment", pool("name: a, lane: tun, lanes: 1, env: { EF_POLL_USEC: 1 }"), []string{"pools.0"}},
		{"tun that is adaptive", pool("name: a, lane: tun, lanes: 1, mode: adaptive"), []string{"mode"}},
		{"tun with devices", pool("name: a, lane: tun, lanes: 1, devices: { names: [e0] }"), []string{"pools.0"}},
		{"queue without trust", pool("name: a, lane: queue, devices: { names: [e0] }, subnets: [10.0.0.0/24]"), []string{"trusted"}},
		{"queue with lanes", pool("name: a, lane: queue, trusted: true, lanes: 2, devices: { names: [e0] }, subnets: [10.0.0.0/24]"), []string{"pools.0"}},
		{"veth on two NICs", pool("name: a, lane: veth, lanes: 4, devices: { names: [e0, e1] }, subnets: [10.0.0.0/24]"), []string{"names"}},
		{"0 lanes", pool("name: a, lane: tun, lanes: 0"), []string{"lanes"}},
		{"1025 lanes", pool("name: a, lane: tun, lanes: 1025"), []string{"lanes"}},
		{"lanes in quotes", pool("name: a, lane: tun, lanes: '4'"), []string{"lanes", "integer"}},
		{"frames no power of two", pool(veth + ", frames: 5000"), []string{"frames"}},
		{"both gateways", pool(veth + ", gateway: 10.0.0.1, gateways: [10.0.0.1]"), []string{"pools.0"}},
		{"half a CPU for spinning", pool(veth + ", relayCpus: { spinning: 500m }"), []string{"spinning"}},
		{"mode that is not built", pool(veth + ", mode: adaptive"), []string{"mode"}},
		{"interface name too long", pool("name: a, lane: veth, lanes: 4, devices: { names: [abcdefghijklmnop] }, subnets: [10.0.0.0/24]"), []string{"names"}},
		{"relative path", "node: { runDir: run/podlane }", []string{"runDir"}},
		{"pull policy", "image: { pullPolicy: Sometimes }", []string{"pullPolicy"}},
		{"digest", "image: { digest: sha256:12 }", []string{"digest"}},
		{"port", "devicePlugin: { http: { port: 70000 } }", []string{"port"}},
		{"address", "devicePlugin: { http: { address: localhost } }", []string{"address"}},
		{"log level", "devicePlugin: { logLevel: trace }", []string{"logLevel"}},
		{"priority of the system's own", "priorityClass: { create: true }", []string{"priorityClass"}},
		{"PodMonitor without a way to the port", "metrics: { podMonitor: { enabled: true } }", []string{"devicePlugin.http.address", "node"}},
		{"attachment of another type", "networkAttachmentDefinitions: [{ name: a, config: { type: bridge } }]", []string{"networkAttachmentDefinitions.0"}},
		{"entry of another type", "cni: { entry: { type: bridge } }", []string{"entry"}},
		{"typo in the profile", "nodeConfig: { profile: { hugePages: [] } }", []string{"hugePages"}},
		{"off without quotes", "nodeConfig: { profile: { memory: { numaBalancing: off } } }", []string{"numaBalancing"}},
		{"mode of the profile", "nodeConfig: { profile: { mode: force } }", []string{"mode"}},
		{"0 huge pages of no size", "nodeConfig: { profile: { hugepages: [{ count: 0 }] } }", []string{"size"}},
		{"way to install", "cni: { install: symlink }", []string{"install"}},
		{"surge", "updateStrategy: { rollingUpdate: { maxSurge: 1 } }", []string{"rollingUpdate"}},
		{"required object taken away", "image: null", []string{"image"}},
	} {
		_, err := render(t, row.values, 36)
		if err == nil {
			t.Errorf("%s: is taken", row.name)
			continue
		}
		for _, word := range row.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in: %v", row.name, word, err)
			}
		}
	}
}

// values.yaml, the schema and the parser of the device plugin know the same keys.
func TestKeysAgree(t *testing.T) {
	chart := loadChart(t)
	schema := object{}
	if err := json.Unmarshal(chart.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	resolve := func(value interface{}) interface{} {
		if name, ok := at(value, "$ref").(string); ok {
			return at(schema, "definitions", strings.TrimPrefix(name, "#/definitions/"))
		}
		return value
	}
	var compare func(path string, values object, properties object)
	compare = func(path string, values object, properties object) {
		for key := range properties {
			if _, ok := values[key]; !ok && path+key != "global" {
				t.Errorf("%s%s is in the schema and not in values.yaml", path, key)
			}
		}
		for key, value := range values {
			inner, ok := value.(object)
			innerProperties, strict := at(resolve(properties[key]), "properties").(object)
			if ok && strict && len(inner) > 0 {
				compare(path+key+".", inner, innerProperties)
			}
		}
	}
	compare("", object(chart.Values), at(schema, "properties").(object))

	text, err := os.ReadFile(filepath.Join(source, "deviceplugin/inventory/config_keys.hpp"))
	if err != nil {
		t.Fatal(err)
	}
	var parser, ours []string
	for _, match := range regexp.MustCompile(`\{"(\w+)", (?:true|false)`).FindAllSubmatch(text, -1) {
		parser = append(parser, string(match[1]))
	}
	for key := range at(schema, "definitions", "pool", "properties").(object) {
		ours = append(ours, key)
	}
	sort.Strings(parser)
	sort.Strings(ours)
	if fmt.Sprint(parser) != fmt.Sprint(ours) {
		t.Errorf("a pool's keys: the device plugin reads %v\nthe chart takes %v", parser, ours)
	}
	// Helm compiles patterns with Go's regexp, which has no look-ahead.
	var patterns func(value interface{})
	patterns = func(value interface{}) {
		switch value := value.(type) {
		case object:
			if pattern, ok := value["pattern"].(string); ok {
				if _, err := regexp.Compile(pattern); err != nil {
					t.Errorf("pattern %s: %v", pattern, err)
				}
			}
			for _, inner := range value {
				patterns(inner)
			}
		case []interface{}:
			for _, inner := range value {
				patterns(inner)
			}
		}
	}
	patterns(schema)
}

func TestEveryValueIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(source, "charts/podlane/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		key := regexp.MustCompile(`^([a-zA-Z]+):`).FindStringSubmatch(line)
		if key == nil {
			continue
		}
		// Its own comment, its neighbour's, or those of its inner keys.
		documented := false
		for above := i - 1; above >= 0 && lines[above] != ""; above-- {
			documented = documented || strings.HasPrefix(lines[above], "#")
		}
		for below := i + 1; below < len(lines) && strings.HasPrefix(lines[below], " "); below++ {
			documented = documented || strings.HasPrefix(strings.TrimSpace(lines[below]), "#")
		}
		if !documented && !strings.Contains(line, "Labels") && !strings.Contains(line, "Annotations") {
			t.Errorf("%s has no comment", key[1])
		}
	}
}

func TestDashboardShowsMetricsThatExist(t *testing.T) {
	dashboard, err := os.ReadFile(filepath.Join(source, "charts/podlane/files/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(source, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Fatal("the dashboard is no JSON")
	}
	metrics := regexp.MustCompile(`podlane_[a-z_]+`).FindAllString(string(dashboard), -1)
	if len(metrics) < 10 {
		t.Fatalf("only %v", metrics)
	}
	for _, metric := range metrics {
		if !strings.Contains(string(page), "| `"+metric+"` |") {
			t.Errorf("docs/metrics.md has no %s", metric)
		}
	}
	config := ofKind(documents(t, mustRender(t, everything, 36)), "ConfigMap")
	for _, one := range config {
		if at(one, "metadata", "name") == "podlane-dashboard" {
			if text := at(one, "data").(object)["podlane.json"].(string); strings.TrimSpace(text) != strings.TrimSpace(string(dashboard)) {
				t.Error("the ConfigMap holds another text")
			}
			return
		}
	}
	t.Error("no ConfigMap podlane-dashboard")
}

func TestImagesAreThoseOfTheScript(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(source, "scripts/images.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range regexp.MustCompile(`(podlane\.io/[a-z]+):([a-z]+)`).FindAllStringSubmatch(strings.Join(texts(mustRender(t, twoPools, 36)), "\n"), -1) {
		if !strings.Contains(string(script), `"`+image[1]+`:$tag"`) || !strings.Contains(string(script), "{PODLANE_TAG:-"+image[2]+"}") {
			t.Errorf("scripts/images.sh makes no %s", image[0])
		}
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	text := mustRender(t, "image: { digest: '"+digest+"' }", 36)["templates/daemonset.yaml"]
	if !strings.Contains(text, "image: podlane.io/node@"+digest) {
		t.Error("a digest is not used")
	}
}

func texts(rendered map[string]string) []string {
	var all []string
	for name, text := range rendered {
		if !strings.HasSuffix(name, ".txt") {
			all = append(all, text)
		}
	}
	return all
}

func TestNodeAddressOfTheMetrics(t *testing.T) {
	text := mustRender(t, "devicePlugin: { http: { address: node, port: 9999 } }", 36)["templates/daemonset.yaml"]
	for _, part := range []string{"--http=$(HOST_IP):9999", "fieldPath: status.hostIP", "{ port: 9999, path: /healthz }", "hostPort: 9999"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not there", part)
		}
	}
	text = mustRender(t, "devicePlugin: { http: { address: 0.0.0.0 } }", 36)["templates/daemonset.yaml"]
	if !strings.Contains(text, "{ host: 127.0.0.1, port: 9470, path: /readyz }") {
		t.Error("0.0.0.0 is no address to ask")
	}
}

// The plain YAML in manifests/ is what the chart gives with manifests/values.yaml: tests/chart/manifests.sh writes it anew.
func TestManifestsAreTheChartRendered(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(source, "manifests/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := loadChart(t).Render(ManifestRequest(parseValues(t, string(text))))
	if err != nil {
		t.Fatal(err)
	}
	want := Manifests(rendered)
	for name, body := range want {
		got, err := os.ReadFile(filepath.Join(source, "manifests", name))
		if err != nil {
			t.Error(err)
		} else if string(got) != body {
			t.Errorf("manifests/%s is not what the chart gives: run tests/chart/manifests.sh", name)
		}
	}
	kustomization, err := os.ReadFile(filepath.Join(source, "manifests/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	base := object{}
	if err := yaml.UnmarshalStrict(kustomization, &base); err != nil {
		t.Fatal(err)
	}
	listed := fmt.Sprint(items(base, "resources"))
	there, err := filepath.Glob(filepath.Join(source, "manifests/[0-9]*.yaml"))
	if err != nil || len(there) != len(items(base, "resources")) {
		t.Errorf("kustomization.yaml lists %s, there are %v", listed, there)
	}
	for _, path := range there {
		name := filepath.Base(path)
		if _, ours := want[name]; !ours && name != "00-namespace.yaml" {
			t.Errorf("manifests/%s comes from nowhere", name)
		}
		if !strings.Contains(listed, name) {
			t.Errorf("kustomization.yaml does not list %s", name)
		}
	}
}

func TestAdmissionPoliciesWereEvaluatedAsTheyAre(t *testing.T) {
	sum, err := EvaluatedDigest(source)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(source, "tests/chart/admission/evaluated.txt"))
	if err != nil || strings.TrimSpace(string(text)) != sum {
		t.Errorf("a policy or a table changed since it was evaluated (%s, now %s): run tests/chart/admission.sh --offline", text, sum)
	}
}

func TestAdmissionByVersionOfTheCluster(t *testing.T) {
	for _, row := range []struct {
		name, values         string
		minor                int
		mutating, validating string
	}{
		{"1.36", twoPools, 36, "v1", "v1"},
		{"1.35", twoPools, 35, "", "v1"},
		{"1.35 with v1beta1", twoPools + "admission: { mutating: v1beta1 }", 35, "v1beta1", "v1"},
		{"helm template without a cluster", twoPools + "admission: { mutating: v1, validating: v1 }", 29, "v1", "v1"},
		{"switched off", twoPools + "admission: { mutating: none, validating: none }", 36, "", ""},
		{"no pools: nothing to put in", "", 36, "", "v1"},
	} {
		all := documents(t, mustRender(t, row.values, row.minor))
		for kind, want := range map[string]string{"MutatingAdmissionPolicy": row.mutating, "ValidatingAdmissionPolicy": row.validating} {
			policies, bindings := ofKind(all, kind), ofKind(all, kind+"Binding")
			if want == "" {
				if len(policies)+len(bindings) != 0 {
					t.Errorf("%s: %s is there", row.name, kind)
				}
				continue
			}
			if len(policies) != 1 || len(bindings) != 1 || policies[0]["apiVersion"] != "admissionregistration.k8s.io/"+want ||
				bindings[0]["apiVersion"] != policies[0]["apiVersion"] || at(bindings[0], "spec", "policyName") != at(policies[0], "metadata", "name") {
				t.Errorf("%s: %v, bound by %v", row.name, policies, bindings)
			}
		}
	}
	for _, kind := range []string{"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"} {
		policy := ofKind(documents(t, mustRender(t, twoPools, 36)), kind)[0]
		selector := fmt.Sprint(at(policy, "spec", "matchConstraints", "namespaceSelector"))
		if !strings.Contains(selector, "[kube-system podlane-system]") {
			t.Errorf("%s acts in %s", kind, selector)
		}
	}
}

// The policy refuses what the code refuses: one table, copied.
func TestNotBuiltIsTheTableOfTheCode(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(source, "lib/lane/annotations.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	table := string(code)
	table = table[strings.Index(table, "kNotBuilt{{"):]
	table = table[:strings.Index(table, "}};")]
	var ofCode []string
	for _, row := range regexp.MustCompile(`\{"([^"]*)", "([^"]*)",\s*"([^"]*)"\}`).FindAllStringSubmatch(table, -1) {
		ofCode = append(ofCode, fmt.Sprint(row[1:]))
	}
	text, err := os.ReadFile(filepath.Join(source, "charts/podlane/files/not-built.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	if err := yaml.UnmarshalStrict(text, &rows); err != nil {
		t.Fatal(err)
	}
	var ofChart []string
	for _, row := range rows {
		ofChart = append(ofChart, fmt.Sprint(row))
	}
	if len(ofCode) != strings.Count(table, "{\"") || fmt.Sprint(ofCode) != fmt.Sprint(ofChart) {
		t.Errorf("the code has %v\nthe chart has %v", ofCode, ofChart)
	}
}

func TestInstallerIsToldWhatTheValuesSay(t *testing.T) {
	for _, row := range []struct{ name, values, want string }{
		{"default", "", `run --method=edit --bin-dir=/opt/cni/bin --conf-dir=/etc/cni/net.d --cache-dir=/var/lib/cni --run-dir=/run/podlane --entry={"tun":{"name":"lane0"}}`},
		{"drop-in on k3s", "cni: { install: drop-in, entry: { logLevel: debug } }\nnode: { cniConfDir: /k/net.d, cniBinDir: /k/bin }",
			`run --method=drop-in --bin-dir=/k/bin --conf-dir=/k/net.d --cache-dir=/var/lib/cni --run-dir=/run/podlane --entry={"logLevel":"debug","tun":{"name":"lane0"}}`},
		{"the plugin hears of directories elsewhere", "node: { runDir: /r, stateDir: /s }",
			`run --method=edit --bin-dir=/opt/cni/bin --conf-dir=/etc/cni/net.d --cache-dir=/var/lib/cni --run-dir=/r --entry={"runDir":"/r","stateDir":"/s","tun":{"name":"lane0"}}`},
		{"before uninstall", twoPools + "uninstall: { prepare: true }",
			`run --method=edit --bin-dir=/opt/cni/bin --conf-dir=/etc/cni/net.d --cache-dir=/var/lib/cni --run-dir=/run/podlane --entry={"tun":{"name":"lane0"}} --uninstall`},
	} {
		rendered := mustRender(t, row.values, 36)
		installer := items(at(theDaemonSet(t, rendered), "spec", "template", "spec"), "initContainers")[0]
		var words []string
		for _, word := range items(installer, "command") {
			words = append(words, word.(string))
		}
		if got := strings.Join(words, " "); got != "/usr/bin/podlane-cni-installer "+row.want {
			t.Errorf("%s: %s", row.name, got)
		}
		if strings.Contains(row.values, "prepare") && !strings.Contains(rendered["templates/configmap.yaml"], `"pools": []`) {
			t.Error("before uninstall no NIC must be used")
		}
	}
}

// Samples speak of the pools that the rendered manifests have, and meet the restricted profile.
func TestSamplesFitTheManifests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(source, "manifests/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pools := map[string]bool{}
	for _, pool := range items(object(parseValues(t, string(text))), "pools") {
		pools[at(pool, "name").(string)] = true
	}
	samples, err := filepath.Glob(filepath.Join(source, "manifests/samples/*.yaml"))
	if err != nil || len(samples) < 4 {
		t.Fatalf("%v: %v", samples, err)
	}
	for _, path := range samples {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pod := object{}
		if err := yaml.UnmarshalStrict(text, &pod); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		annotations := at(pod, "metadata", "annotations").(object)
		for _, item := range strings.Split(annotations["podlane.io/lanes"].(string), ",") {
			parts := append(strings.SplitN(item, "=", 2), "1")
			if !pools[parts[0]] {
				t.Errorf("%s: pool %s is not in manifests/values.yaml", path, parts[0])
			}
			for _, container := range append(items(pod, "spec", "initContainers"), items(pod, "spec", "containers")...) {
				limits, _ := at(container, "resources", "limits").(object)
				if held, ok := limits["podlane.io/"+parts[0]]; ok && fmt.Sprint(held) != parts[1] {
					t.Errorf("%s: holds %v of %s", path, held, item)
				}
				context, _ := at(container, "securityContext").(object)
				if context["allowPrivilegeEscalation"] != false || fmt.Sprint(at(context, "capabilities", "drop")) != "[ALL]" ||
					at(pod, "spec", "securityContext", "runAsNonRoot") != true ||
					at(pod, "spec", "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
					t.Errorf("%s: %v is not restricted", path, at(container, "name"))
				}
			}
		}
	}
}
