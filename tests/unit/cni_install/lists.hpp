// Lists of the field, in the manner of their owners: blanks, order, numbers and unknown keys differ on purpose.
#pragma once

#include <string_view>

namespace podlane::test {

struct List {
  const char* name;
  const char* file;  // As its owner names it.
  std::string_view text;
};

inline constexpr List kLists[] = {
    {"bridge", "10-bridge.conflist", R"({
  "cniVersion": "1.0.0",
  "name": "bridge",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": true,
      "ipam": { "type": "host-local", "ranges": [ [ { "subnet": "10.244.0.0/24" } ] ], "routes": [ { "dst": "0.0.0.0/0" } ] }
    },
    {
      "type": "portmap",
      "capabilities": { "portMappings": true }
    }
  ]
}
)"},
    {"ptp on one line, without a last line break", "10-base.conflist",
     R"({"cniVersion":"0.4.0","name":"base","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.244.0.0/24"}}]})"},
    {"Calico-like", "10-calico.conflist", R"({
  "name": "k8s-pod-network",
  "cniVersion": "0.3.1",
  "plugins": [{"container_settings":{"allow_ip_forwarding":false},"datastore_type":"kubernetes","ipam":{"assign_ipv4":"true","type":"calico-ipam"},
    "kubernetes":{"kubeconfig":"/etc/cni/net.d/calico-kubeconfig"},"log_level":"Info","mtu":0,"nodename_file_optional":false,"policy":{"type":"k8s"},"type":"calico"},
  {"capabilities":{"bandwidth":true},"type":"bandwidth"},{"capabilities":{"portMappings":true},"snat":true,"type":"portmap"}]
})"},
    {"Cilium-like", "05-cilium.conflist",
     "\n{\n  \"cniVersion\": \"0.3.1\",\n  \"name\": \"cilium\",\n  \"plugins\": [\n    {\n       \"type\": "
     "\"cilium-cni\",\n"
     "       \"enable-debug\": false,\n       \"log-file\": \"/var/run/cilium/cilium-cni.log\"\n    }\n  ]\n}\n"},
    {"k3s: flannel with tabs, a big number and unknown keys", "10-flannel.conflist",
     "{\n\t\"name\":\"cbr0\",\n\t\"cniVersion\":\"1.0.0\",\n\t\"x\": 12345678901234567890123,\n\t\"y\": "
     "1.50e+3,\n\t\"plugins\":[\n\t\t{\n\t\t\t\"type\":\"flannel\",\n"
     "\t\t\t\"delegate\":{\"hairpinMode\":true,\"forceAddress\":true,\"isDefaultGateway\":true}\n\t\t},\n\t\t{\"type\":"
     "\"portmap\",\"capabilities\":{\"portMappings\":true}},\n"
     "\t\t{\n\t\t\t\"type\":\"bandwidth\",\n\t\t\t\"capabilities\":{\n\t\t\t\t\"bandwidth\":true\n\t\t\t}\n\t\t}\n\t]"
     "\n}\n"},
    {"RKE2: canal, with keys behind the plugins", "10-canal.conflist",
     R"({ "name" : "k8s-pod-network", "cniVersion" : "1.1.0", "cniVersions" : ["1.0.0","1.1.0"],
 "plugins" : [ { "type" : "calico", "policy" : { "type" : "k8s" } } , { "type" : "portmap", "snat" : true } ] , "disableCheck" : true })"},
};

}  // namespace podlane::test
