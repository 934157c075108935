// What ADD prints, in the version that was asked for. No I/O; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cni/spec/cni_error.hpp"
#include "cni/spec/version.hpp"
#include "lib/json/json.hpp"
#include "lib/net/addr.hpp"

namespace podlane::cni {

struct ResultInterface {
  std::string name;
  std::string sandbox;      // CNI_NETNS
  std::uint32_t mtu = 0;    // From 1.1.0 on, as the two below.
  std::string socket_path;  // Empty: none.
  std::string pci_id;
};
struct ResultAddress {
  net::IpPrefix address;
  std::optional<net::IpAddress> gateway;
  std::size_t interface = 0;  // Index in the interfaces of the result.
};
struct ResultRoute {
  net::IpPrefix destination;
  std::optional<net::IpAddress> gateway;
};

// prevResult in the version asked for and otherwise untouched, unknown keys included.
CniResult<json::Value> take_over(const json::Value& prev_result, Version version);
void append_interface(json::Value& result, const ResultInterface& interface, Version version);

json::Value own_result(const std::vector<ResultInterface>& interfaces, const std::vector<ResultAddress>& addresses,
                       const std::vector<ResultRoute>& routes, const std::optional<json::Value>& dns, Version version);

// The part of an IPAM plugin's ADD result that we use.
struct IpamResult {
  std::vector<ResultAddress> addresses;
  std::vector<ResultRoute> routes;
  std::optional<json::Value> dns;
};
Result<IpamResult> parse_ipam_result(std::string_view text);

}  // namespace podlane::cni
