#include "cni/spec/add_result.hpp"

namespace podlane::cni {

namespace {

// Up to 0.4.0 each address says its family; from 1.0.0 on the key is gone.
void put_family(json::Value& address, bool ipv6, Version version) {
  if (version < Version::k1_0_0) address["version"] = ipv6 ? "6" : "4";
}

Result<std::optional<net::IpAddress>> optional_gateway(const json::Reader& reader, std::string_view key) {
  PODLANE_TRY_ASSIGN(const auto text, reader.optional_string(key));
  if (!text || text->empty()) return std::optional<net::IpAddress>();
  PODLANE_TRY_ASSIGN(const net::IpAddress address, net::parse_ip(*text));
  return std::optional(address);
}

}  // namespace

CniResult<json::Value> take_over(const json::Value& prev_result, Version version) {
  const auto reader = json::Reader::open(prev_result, "prevResult");
  if (!reader) return fail(CniCode::kInvalidConfig, reader.error());
  const auto came = reader->optional_string("cniVersion");
  const auto addresses = reader->optional_objects("ips");
  const auto interfaces = reader->optional_objects("interfaces");
  if (!came) return fail(CniCode::kInvalidConfig, came.error());
  if (!addresses) return fail(CniCode::kInvalidConfig, addresses.error());
  if (!interfaces) return fail(CniCode::kInvalidConfig, interfaces.error());
  json::Value result = prev_result;
  if (*came == to_string(version)) return result;
  // A plugin before us answered in another version than the list's; libcni hands that on as it is.
  result["cniVersion"] = to_string(version);
  if (!result.contains("ips") || !result["ips"].is_array()) return result;
  for (json::Value& address : result["ips"]) {
    const auto it = address.find("address");
    const bool ipv6 = it != address.end() && it->is_string() && it->get<std::string>().find(':') != std::string::npos;
    address.erase("version");
    put_family(address, ipv6, version);
  }
  return result;
}

void append_interface(json::Value& result, const ResultInterface& interface, Version version) {
  json::Value item{{"name", interface.name}, {"sandbox", interface.sandbox}};  // A TUN has no MAC.
  if (version >= Version::k1_1_0) {
    if (interface.mtu != 0) item["mtu"] = interface.mtu;
    if (!interface.socket_path.empty()) item["socketPath"] = interface.socket_path;
    if (!interface.pci_id.empty()) item["pciID"] = interface.pci_id;
  }
  json::Value& interfaces = result["interfaces"];
  if (!interfaces.is_array()) interfaces = json::Value::array();
  interfaces.push_back(std::move(item));
}

json::Value own_result(const std::vector<ResultInterface>& interfaces, const std::vector<ResultAddress>& addresses,
                       const std::vector<ResultRoute>& routes, const std::optional<json::Value>& dns, Version version) {
  json::Value result{{"cniVersion", to_string(version)}, {"interfaces", json::Value::array()}};
  for (const ResultInterface& interface : interfaces) append_interface(result, interface, version);
  result["ips"] = json::Value::array();
  for (const ResultAddress& address : addresses) {
    json::Value item = json::Value::object();
    put_family(item, address.address.family() == net::Family::kIpv6, version);
    item["address"] = address.address.to_string();
    if (address.gateway) item["gateway"] = address.gateway->to_string();
    item["interface"] = address.interface;
    result["ips"].push_back(std::move(item));
  }
  result["routes"] = json::Value::array();
  for (const ResultRoute& route : routes) {
    json::Value item{{"dst", route.destination.to_string()}};
    if (route.gateway) item["gw"] = route.gateway->to_string();
    result["routes"].push_back(std::move(item));
  }
  if (dns) result["dns"] = *dns;
  return result;
}

Result<IpamResult> parse_ipam_result(std::string_view text) {
  PODLANE_TRY_ASSIGN(const json::Value value, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader reader, json::Reader::open(value, ""));
  IpamResult result;
  PODLANE_TRY_ASSIGN(const auto addresses, reader.optional_objects("ips"));
  for (const json::Reader& object : addresses) {
    ResultAddress address;
    PODLANE_TRY_ASSIGN(const std::string prefix, object.string("address"));
    PODLANE_TRY_ASSIGN(address.address, net::parse_ip_prefix(prefix));
    PODLANE_TRY_ASSIGN(address.gateway, optional_gateway(object, "gateway"));
    result.addresses.push_back(address);
  }
  PODLANE_TRY_ASSIGN(const auto routes, reader.optional_objects("routes"));
  for (const json::Reader& object : routes) {
    ResultRoute route;
    PODLANE_TRY_ASSIGN(const std::string destination, object.string("dst"));
    PODLANE_TRY_ASSIGN(route.destination, net::parse_ip_prefix(destination));
    PODLANE_TRY_ASSIGN(route.gateway, optional_gateway(object, "gw"));
    result.routes.push_back(route);
  }
  PODLANE_TRY_ASSIGN(const auto dns, reader.optional_object("dns"));
  if (dns) result.dns = dns->value();
  if (result.addresses.empty()) return podlane::fail(Errc::kProtocol, "the result has no addresses in 'ips'");
  return result;
}

}  // namespace podlane::cni
