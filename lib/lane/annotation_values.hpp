// Readers for the values of single annotations; annotations.cpp joins them. Their messages begin with what is wrong in
// the value; the caller puts the key in front. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/lane/annotations.hpp"

namespace podlane::lane {

struct PoolCount {
  std::string pool;
  std::uint32_t count = 1;
};

Result<std::vector<PoolCount>> parse_lanes_value(std::string_view value);
Result<Path> parse_path_value(std::string_view value);
Result<Mode> parse_mode_value(std::string_view value);
Result<std::vector<std::vector<net::IpPrefix>>> parse_addresses_value(std::string_view value);  // One entry per lane.
Result<std::vector<FlowRule>> parse_flows_value(std::string_view value);
Result<std::vector<RewriteRule>> parse_rewrite_value(std::string_view value);
Result<std::string> parse_container_value(std::string_view value, const std::vector<std::string>& containers);
Result<std::string> parse_secret_value(std::string_view value);

std::string in_quotes(std::string_view text);  // 'text', cut to a length fit for a message.

}  // namespace podlane::lane
