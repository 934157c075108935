#include "cni/spec/net_conf.hpp"

#include "cni/spec/cni_args.hpp"

namespace podlane::cni {

namespace {

constexpr std::string_view kAnnotationsKey = "io.kubernetes.cri.pod-annotations";
constexpr std::string_view kPrefix = "podlane.io/";

// Everything that an operator typed wrongly is CNI's code 7; a key that we do not have is code 2.
CniError config_error(const Error& error) {
  return {CniCode::kInvalidConfig, error.message()};
}

Result<TunOffloads> read_offloads(const json::Reader& tun) {
  PODLANE_TRY_ASSIGN(const auto names, tun.optional_strings("offloads"));
  TunOffloads offloads;
  for (const std::string& name : names) {
    if (name == "checksum") offloads.checksum = true;
    else if (name == "tso") offloads.tso = true;
    else if (name == "uso") offloads.uso = true;
    else return podlane::fail(Errc::kInvalid, "tun.offloads '" + name + "' must be one of checksum, tso, uso");
  }
  if ((offloads.tso || offloads.uso) && !offloads.checksum) {
    return podlane::fail(Errc::kInvalid, "tun.offloads 'tso' and 'uso' need 'checksum' beside them");
  }
  return offloads;
}

Result<std::vector<net::IpPrefix>> read_addresses(const json::Reader& tun) {
  PODLANE_TRY_ASSIGN(const auto texts, tun.optional_strings("addresses"));
  std::vector<net::IpPrefix> addresses;
  for (const std::string& text : texts) {
    auto address = net::parse_ip_prefix(text);
    if (!address) return std::unexpected(std::move(address).error().with("tun.addresses"));
    addresses.push_back(*address);
  }
  return addresses;
}

Result<TunRoute> read_route(const json::Reader& reader) {
  PODLANE_TRY(reader.refuse_unknown({"dst", "gw"}));
  TunRoute route;
  PODLANE_TRY_ASSIGN(const std::string destination, reader.string("dst"));
  auto prefix = net::parse_ip_prefix(destination);
  if (!prefix) return std::unexpected(std::move(prefix).error().with(reader.path_of("dst")));
  if (*prefix != prefix->network()) {
    return podlane::fail(Errc::kInvalid, reader.path_of("dst") + " '" + destination + "' has host bits; it must be '" +
                                             prefix->network().to_string() + "'");
  }
  route.destination = *prefix;
  PODLANE_TRY_ASSIGN(const auto gateway, reader.optional_string("gw"));
  if (!gateway) return route;
  auto address = net::parse_ip(*gateway);
  if (!address) return std::unexpected(std::move(address).error().with(reader.path_of("gw")));
  if (address->family != route.destination.family()) {
    return podlane::fail(Errc::kInvalid, reader.path_of("gw") + " '" + *gateway + "' must be of the family of dst '" +
                                             destination + "'");
  }
  route.gateway = *address;
  return route;
}

Result<TunConf> read_tun_values(const json::Reader& tun) {
  TunConf conf;
  PODLANE_TRY_ASSIGN(const auto name, tun.optional_string("name"));
  conf.name = name.value_or(conf.name);
  if (!is_interface_name(conf.name)) {
    return podlane::fail(Errc::kInvalid, "tun.name '" + conf.name +
                                             "' must be an interface name of 1 to 15 bytes without '/', ':', blanks");
  }
  PODLANE_TRY_ASSIGN(const auto mtu, tun.optional_integer("mtu", 68, 65535));
  if (mtu) conf.mtu = static_cast<std::uint32_t>(*mtu);
  PODLANE_TRY_ASSIGN(const auto tx_queue_len, tun.optional_integer("txQueueLen", 1, 1000000));
  conf.tx_queue_len = static_cast<std::uint32_t>(tx_queue_len.value_or(conf.tx_queue_len));
  PODLANE_TRY_ASSIGN(const auto queues, tun.optional_integer("queues", 1, 256));  // MAX_TAP_QUEUES, drivers/net/tun.c
  conf.queues = static_cast<std::uint32_t>(queues.value_or(conf.queues));
  PODLANE_TRY_ASSIGN(conf.offloads, read_offloads(tun));
  PODLANE_TRY_ASSIGN(conf.addresses, read_addresses(tun));
  PODLANE_TRY_ASSIGN(const auto routes, tun.optional_objects("routes"));
  for (const json::Reader& object : routes) {
    PODLANE_TRY_ASSIGN(TunRoute route, read_route(object));
    conf.routes.push_back(route);
  }
  PODLANE_TRY_ASSIGN(const auto owner,
                     tun.optional_integer("owner", 1, 4294967294));  // -1 is "no owner" to the kernel.
  if (owner) conf.owner = static_cast<std::uint32_t>(*owner);
  return conf;
}

CniResult<TunConf> read_tun(const json::Reader& reader) {
  const auto tun = reader.optional_object("tun");
  if (!tun) return std::unexpected(config_error(tun.error()));
  if (!*tun) return TunConf{};
  // Nobody else writes into our own object: an unknown key there is a typing error.
  const auto known =
      (*tun)->refuse_unknown({"name", "mtu", "txQueueLen", "queues", "offloads", "addresses", "routes", "owner"});
  if (!known) return fail(CniCode::kUnsupportedField, known.error());
  auto conf = read_tun_values(**tun);
  if (!conf) return std::unexpected(config_error(conf.error()));
  return std::move(*conf);
}

Result<std::string> read_absolute_path(const json::Reader& reader, std::string_view key, std::string fallback) {
  PODLANE_TRY_ASSIGN(const auto path, reader.optional_string(key));
  if (!path) return fallback;
  if (!path->starts_with('/')) {
    return podlane::fail(Errc::kInvalid, std::string(key) + " '" + *path + "' must be an absolute path");
  }
  return *path;
}

Result<void> read_settings(const json::Reader& reader, NetConf& conf) {
  PODLANE_TRY_ASSIGN(conf.run_dir, read_absolute_path(reader, "runDir", conf.run_dir));
  PODLANE_TRY_ASSIGN(conf.state_dir, read_absolute_path(reader, "stateDir", conf.state_dir));
  PODLANE_TRY_ASSIGN(conf.socket, read_absolute_path(reader, "socket", conf.run_dir + "/control.sock"));
  PODLANE_TRY_ASSIGN(conf.log_file, read_absolute_path(reader, "logFile", ""));
  PODLANE_TRY_ASSIGN(const auto level, reader.optional_choice("logLevel", {"debug", "info", "warn", "error"}));
  if (level) {
    PODLANE_TRY_ASSIGN(conf.log_level, parse_log_level(*level));
  }
  PODLANE_TRY_ASSIGN(const auto select, reader.optional_choice("select", {"annotated", "all"}));
  if (select) conf.select = *select == "all" ? Select::kAll : Select::kAnnotated;
  PODLANE_TRY_ASSIGN(const auto status, reader.optional_choice("statusPolicy", {"ok", "daemon"}));
  conf.status_from_daemon = status == "daemon";
  return {};
}

// The keys of design §4, and those near them, are judged by the device plugin, which knows the grammar; here only
// what belongs to podlane is picked out.
Result<void> read_annotations(const json::Reader& reader, NetConf& conf) {
  PODLANE_TRY_ASSIGN(const auto runtime, reader.optional_object("runtimeConfig"));
  if (!runtime) return {};
  PODLANE_TRY_ASSIGN(const auto annotations, runtime->optional_object(kAnnotationsKey));
  if (!annotations) return {};
  for (const auto& [key, value] : annotations->value().items()) {
    if (!std::string_view(key).starts_with(kPrefix) || key == "podlane.io/status") continue;
    PODLANE_TRY_ASSIGN(std::string text, annotations->string(key));
    conf.annotations.emplace_back(key, std::move(text));
  }
  return {};
}

Result<void> read_ipam(const json::Reader& reader, NetConf& conf) {
  PODLANE_TRY_ASSIGN(const auto ipam, reader.optional_object("ipam"));
  if (!ipam || ipam->value().empty()) return {};  // "ipam": {} is how operators say that there is none.
  PODLANE_TRY_ASSIGN(const std::string type, ipam->string("type"));
  if (type.empty() || type.find('/') != std::string::npos) {
    return podlane::fail(Errc::kInvalid, "ipam.type '" + type + "' must be the file name of an IPAM plugin");
  }
  conf.ipam_type = type;
  return {};
}

// libcni fills both keys, as the specification and the code had disagreed on the name (containernetworking/cni#1101).
Result<void> read_valid_attachments(const json::Reader& reader, NetConf& conf) {
  const std::string_view key =
      reader.has("cni.dev/valid-attachments") ? "cni.dev/valid-attachments" : "cni.dev/attachments";
  if (!reader.has(key)) return {};
  PODLANE_TRY_ASSIGN(const auto objects, reader.optional_objects(key));
  std::vector<AttachmentName> valid;
  for (const json::Reader& object : objects) {
    AttachmentName name;
    PODLANE_TRY_ASSIGN(name.container_id, object.string("containerID"));
    PODLANE_TRY_ASSIGN(name.ifname, object.string("ifname"));
    valid.push_back(std::move(name));
  }
  conf.valid_attachments = std::move(valid);
  return {};
}

CniResult<void> read_identity(const json::Reader& reader, NetConf& conf) {
  const auto version = reader.optional_string("cniVersion");
  if (!version) return std::unexpected(config_error(version.error()));
  const auto known = parse_version(version->value_or("0.1.0"));  // What CNI takes a missing key for.
  if (!known) {
    return fail(CniCode::kIncompatibleVersion,
                "cniVersion '" + version->value_or("") + "' must be one of 0.3.1, 0.4.0, 1.0.0, 1.1.0");
  }
  conf.version = *known;
  const auto name = reader.string("name");
  if (!name) return std::unexpected(config_error(name.error()));
  if (!is_cni_name(*name)) {
    return fail(CniCode::kInvalidConfig,
                "name '" + *name + "' must begin alphanumeric and hold only alphanumerics, '_', '.', '-'");
  }
  conf.name = *name;
  return {};
}

}  // namespace

CniResult<NetConf> parse_net_conf(std::string_view text, Strictness strictness) {
  auto value = json::parse(text);
  if (!value) return fail(CniCode::kDecoding, value.error());
  NetConf conf;
  conf.whole = std::move(*value);
  const auto reader = json::Reader::open(conf.whole, "");
  if (!reader) return fail(CniCode::kDecoding, reader.error());
  PODLANE_TRY(read_identity(*reader, conf));

  const bool tolerant = strictness == Strictness::kTolerant;
  auto tun = read_tun(*reader);
  if (!tun && !tolerant) return std::unexpected(std::move(tun).error());
  if (tun) conf.tun = std::move(*tun);
  conf.socket = conf.run_dir + "/control.sock";
  for (const auto read : {read_settings, read_annotations, read_ipam, read_valid_attachments}) {
    const auto result = read(*reader, conf);
    if (!result && !tolerant) return std::unexpected(config_error(result.error()));
  }
  const auto previous = reader->optional_object("prevResult");
  if (!previous && !tolerant) return std::unexpected(config_error(previous.error()));
  if (previous && *previous) conf.prev_result = (*previous)->value();
  return conf;
}

}  // namespace podlane::cni
