#include "lib/lane/annotation_values.hpp"

#include <algorithm>
#include <set>

#include "lib/lane/address_rules.hpp"

namespace podlane::lane {

using net::Family;
using net::IpAddress;
using net::IpPrefix;

namespace {

std::unexpected<Error> bad(std::string message) {
  return fail(Errc::kInvalid, std::move(message));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// lower-case letters, digits and '-', a letter or digit at both ends: RFC 1123 label, as Kubernetes names are.
bool is_label(std::string_view text, std::size_t max_bytes) {
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= max_bytes && alphanumeric(text.front()) && alphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return alphanumeric(c) || c == '-'; });
}

Result<std::uint16_t> parse_port(std::string_view text) {
  const auto port = parse_decimal(text);
  if (!port || *port < 1 || *port > 65535) return bad("port " + in_quotes(text) + " must be from 1 to 65535");
  return static_cast<std::uint16_t>(*port);
}

Result<Transport> parse_transport(std::string_view text) {
  if (text == "tcp") return Transport::kTcp;
  if (text == "udp") return Transport::kUdp;
  return bad("protocol " + in_quotes(text) + " must be one of tcp, udp");
}

// Takes an address off the front of text; IPv6 stands in brackets. `item` is the whole for messages.
Result<IpAddress> take_ip(std::string_view& text, std::string_view ends, std::string_view item) {
  const bool bracketed = text.starts_with('[');
  const std::size_t end = bracketed ? text.find(']') : std::min(text.find_first_of(ends), text.size());
  if (end == text.npos) return bad(in_quotes(item) + " has '[' without ']'");
  const std::string_view up_to_source = text.substr(0, text.find('@'));
  if (!bracketed && std::count(up_to_source.begin(), up_to_source.end(), ':') > 1) {
    return bad(in_quotes(item) + ": an IPv6 address must be written in brackets, such as [2001:db8::1]");
  }
  const std::string_view address = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
  text.remove_prefix(bracketed ? end + 1 : end);
  const auto parsed = net::parse_ip(address);
  if (!parsed || (parsed->family == Family::kIpv6) != bracketed) {
    return bad(in_quotes(item) + ": " + in_quotes(address) + " is not an IP address; write 10.1.2.3 or [2001:db8::1]");
  }
  return *parsed;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 100;
  return "'" + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "…'" : "'");
}

Result<void> check_pool_name(std::string_view name) {
  if (is_label(name, 48)) return {};
  if (name.empty()) return bad("a pool's name is expected, got nothing");
  if (name.size() > 48) {
    return bad("pool " + in_quotes(name) + " has " + std::to_string(name.size()) +
               " characters; at most 48 are allowed");
  }
  return bad("pool " + in_quotes(name) +
             " must be of lower case letters, digits and '-', with a letter or digit at both ends");
}

Result<std::vector<PoolCount>> parse_lanes_value(std::string_view value) {
  if (without_blanks(value).empty()) return bad("names no pool; write a pool such as feed, or feed=2,orders");
  std::vector<PoolCount> pools;
  for (const std::string_view item : split(value, ',')) {
    const std::size_t equals = item.find('=');
    PoolCount pool{.pool = std::string(without_blanks(item.substr(0, equals)))};
    PODLANE_TRY(check_pool_name(pool.pool));
    if (equals != item.npos) {
      const std::string_view number = without_blanks(item.substr(equals + 1));
      const auto count = parse_decimal(number);
      if (!count || *count < 1 || *count > kMaxLanesOfPool) {
        return bad("count " + in_quotes(number) + " of pool " + in_quotes(pool.pool) +
                   " must be a whole number from 1 to " + std::to_string(kMaxLanesOfPool));
      }
      pool.count = *count;
    }
    if (std::any_of(pools.begin(), pools.end(), [&](const PoolCount& other) { return other.pool == pool.pool; })) {
      return bad("names pool " + in_quotes(pool.pool) + " twice; write it once with a count, such as " + pool.pool +
                 "=2");
    }
    pools.push_back(std::move(pool));
  }
  return pools;
}

Result<Path> parse_path_value(std::string_view value) {
  for (const Path path : {Path::kRelay, Path::kDirect, Path::kKernel}) {
    if (to_string(path) == value) return path;
  }
  return bad("must be one of relay, direct, kernel");
}

Result<Mode> parse_mode_value(std::string_view value) {
  for (const Mode mode : {Mode::kSpinning, Mode::kInterrupt, Mode::kAdaptive}) {
    if (to_string(mode) == value) return mode;
  }
  return bad("must be one of spinning, interrupt, adaptive");
}

Result<std::vector<std::vector<IpPrefix>>> parse_addresses_value(std::string_view value) {
  std::vector<std::vector<IpPrefix>> lanes;
  std::set<IpAddress> seen;
  for (const std::string_view item : split(value, ',')) {
    std::vector<IpPrefix> lane;
    for (const std::string_view text : split(item, '|')) {
      PODLANE_TRY_ASSIGN(const IpPrefix prefix, net::parse_ip_prefix(text));
      if (prefix.length == 0) return bad(in_quotes(text) + " has a bad prefix length; it must be from 1");
      if (const std::string_view why = why_not_a_host(prefix); !why.empty()) {
        return bad(in_quotes(text) + " is " + std::string(why) + "; a lane needs an address of its own");
      }
      if (!lane.empty() && lane.front().address.family == prefix.address.family) {
        return bad(in_quotes(item) +
                   " has two addresses of one family; a lane takes one of each, lanes are parted by ','");
      }
      if (!seen.insert(prefix.address).second) return bad(in_quotes(text) + " is written twice");
      lane.push_back(prefix);
      if (lane.size() > 2) return bad(in_quotes(item) + " has more than two addresses");
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

namespace {

Result<FlowRule> parse_flow(std::string_view item) {
  const std::size_t slash = item.find('/');
  if (slash == item.npos) return bad(in_quotes(item) + " must be protocol/address, such as udp/239.1.1.1:14310");
  FlowRule flow;
  PODLANE_TRY_ASSIGN(flow.transport, parse_transport(item.substr(0, slash)));
  std::string_view rest = item.substr(slash + 1);
  PODLANE_TRY_ASSIGN(flow.destination.address, take_ip(rest, "/@:", item));
  flow.destination.length = net::bits_of(flow.destination.family());
  if (rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::string_view text = rest.substr(0, std::min(rest.find_first_of("@:"), rest.size()));
    rest.remove_prefix(text.size());
    const auto length = parse_decimal(text);
    const int bits = net::bits_of(flow.destination.family());
    if (!length || *length < 1 || static_cast<int>(*length) > bits) {
      return bad(in_quotes(item) + ": prefix length " + in_quotes(text) + " must be from 1 to " + std::to_string(bits));
    }
    flow.destination.length = static_cast<int>(*length);
    if (has_host_bits(flow.destination)) {
      return bad(in_quotes(item) + " has host bits; the network is " + flow.destination.network().to_string());
    }
  }
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    PODLANE_TRY_ASSIGN(flow.source, take_ip(rest, ":", item));
    if (flow.source->family != flow.destination.address.family) {
      return bad(in_quotes(item) + ": source and destination must be of one family");
    }
  }
  if (rest.empty()) return flow;
  if (!rest.starts_with(':'))
    return bad(in_quotes(item) + ": " + in_quotes(rest) + " is left over; a port begins with ':'");
  rest.remove_prefix(1);
  const std::size_t dash = rest.find('-');
  PODLANE_TRY_ASSIGN(flow.low_port, parse_port(rest.substr(0, dash)));
  flow.high_port = flow.low_port;
  if (dash != rest.npos) {
    PODLANE_TRY_ASSIGN(flow.high_port, parse_port(rest.substr(dash + 1)));
  }
  if (flow.high_port < flow.low_port) return bad(in_quotes(item) + ": the ports must be low-high");
  return flow;
}

Result<RewriteTarget> parse_target(std::string_view text, std::string_view item, std::string_view what) {
  if (text.empty()) return bad(in_quotes(item) + " has no " + std::string(what) + "; write address:port");
  std::string_view rest = text;
  RewriteTarget target;
  PODLANE_TRY_ASSIGN(target.address, take_ip(rest, ":", item));
  if (!rest.starts_with(':')) {
    return bad(in_quotes(item) + ": " + std::string(what) + " " + in_quotes(text) + " has no port; write address:port");
  }
  PODLANE_TRY_ASSIGN(target.port, parse_port(rest.substr(1)));
  return target;
}

Result<RewriteRule> parse_rewrite_rule(std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == item.npos) return bad(in_quotes(item) + " must be address:port=backend:port");
  RewriteRule rule;
  std::string_view left = item.substr(0, equals);
  if (const std::size_t slash = left.find('/'); slash != left.npos) {
    PODLANE_TRY_ASSIGN(rule.transport, parse_transport(left.substr(0, slash)));
    left.remove_prefix(slash + 1);
  }
  PODLANE_TRY_ASSIGN(rule.from, parse_target(left, item, "address to rewrite"));
  for (const std::string_view text : split(item.substr(equals + 1), '|')) {
    PODLANE_TRY_ASSIGN(const RewriteTarget backend, parse_target(text, item, "backend"));
    if (backend.address.family != rule.from.address.family) {
      return bad(in_quotes(item) + ": backend " + in_quotes(text) +
                 " must be of the same address family as the left side");
    }
    rule.backends.push_back(backend);
  }
  return rule;
}

}  // namespace

Result<std::vector<FlowRule>> parse_flows_value(std::string_view value) {
  std::vector<FlowRule> flows;
  for (const std::string_view item : split(value, ',')) {
    PODLANE_TRY_ASSIGN(const FlowRule flow, parse_flow(item));
    flows.push_back(flow);
  }
  return flows;
}

Result<std::vector<RewriteRule>> parse_rewrite_value(std::string_view value) {
  std::vector<RewriteRule> rules;
  std::set<std::pair<RewriteTarget, Transport>> seen;
  for (const std::string_view item : split(value, ',')) {
    PODLANE_TRY_ASSIGN(RewriteRule rule, parse_rewrite_rule(item));
    for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
      if (rule.transport && *rule.transport != transport) continue;
      if (!seen.emplace(rule.from, transport).second) {
        return bad(in_quotes(item) +
                   ": address, port and protocol on the left stand there twice; join the backends with |");
      }
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<std::string> parse_container_value(std::string_view value, const std::vector<std::string>& containers) {
  if (!is_label(value, 63)) return bad("must be the name of a container of the pod");
  if (!containers.empty() && std::find(containers.begin(), containers.end(), value) == containers.end()) {
    std::string list;
    for (const std::string& name : containers) list.append(list.empty() ? "" : ", ").append(name);
    return bad("is not a container of the pod; it has " + list);
  }
  return std::string(value);
}

Result<std::string> parse_secret_value(std::string_view value) {
  // A Secret's name is a DNS subdomain: labels joined by dots, 253 characters in all.
  const auto parts = split(value, '.');
  if (value.size() > 253 || !std::all_of(parts.begin(), parts.end(), [](auto part) { return is_label(part, 63); })) {
    return bad("must be the name of a Secret: lower case letters, digits, '-' and '.', at most 253 characters");
  }
  return std::string(value);
}

}  // namespace podlane::lane
