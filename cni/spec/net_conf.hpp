// NetConf: our object of the config list as it comes on standard input (docs/cni.md). Parsing only; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cni/spec/cni_error.hpp"
#include "cni/spec/version.hpp"
#include "lib/base/log.hpp"
#include "lib/json/json.hpp"
#include "lib/net/addr.hpp"

namespace podlane::cni {

struct TunRoute {
  net::IpPrefix destination;
  std::optional<net::IpAddress> gateway;
};

struct TunOffloads {
  bool checksum = false, tso = false, uso = false;
};

// The object "tun".
struct TunConf {
  std::string name = "lane0";
  std::optional<std::uint32_t> mtu;
  std::uint32_t tx_queue_len = 1000;
  std::uint32_t queues = 1;
  TunOffloads offloads;
  std::vector<net::IpPrefix> addresses;
  std::vector<TunRoute> routes;
  std::optional<std::uint32_t> owner;
};

enum class Select { kAnnotated, kAll };

struct AttachmentName {
  std::string container_id;
  std::string ifname;
  friend auto operator<=>(const AttachmentName&, const AttachmentName&) = default;
};

struct NetConf {
  Version version = Version::k1_1_0;
  std::string name;
  TunConf tun;
  std::optional<Select> select;  // Absent: annotated when chained, all when standalone.
  std::string run_dir = "/run/podlane";
  std::string state_dir = "/var/lib/podlane";
  std::string socket;  // Default: control.sock in run_dir.
  std::string log_file;
  LogLevel log_level = LogLevel::kInfo;
  bool status_from_daemon = false;
  std::optional<std::string> ipam_type;
  std::optional<json::Value> prev_result;
  std::vector<std::pair<std::string, std::string>> annotations;  // podlane.io/ only, without podlane.io/status.
  std::optional<std::vector<AttachmentName>> valid_attachments;  // GC
  json::Value whole;                                             // As it came, for delegation.

  bool annotated() const { return !annotations.empty(); }
};

// kTolerant is for DEL and GC, which must work when the rest was broken since ADD: what is wrong takes its default,
// only JSON, cniVersion and name must be right.
enum class Strictness { kStrict, kTolerant };
CniResult<NetConf> parse_net_conf(std::string_view text, Strictness strictness);

}  // namespace podlane::cni
