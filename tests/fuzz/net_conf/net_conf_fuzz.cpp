// NetConf, prevResult and an IPAM plugin's result from arbitrary bytes: no crash, no leak, and what is taken can be printed.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cni/spec/add_result.hpp"
#include "cni/spec/net_conf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using podlane::cni::Strictness;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Strictness strictness : {Strictness::kStrict, Strictness::kTolerant}) {
    const auto conf = podlane::cni::parse_net_conf(text, strictness);
    if (!conf || !conf->prev_result) continue;
    auto result = podlane::cni::take_over(*conf->prev_result, conf->version);
    if (!result) continue;
    podlane::cni::append_interface(*result, {.name = "lane0", .sandbox = "/run/netns/x"}, conf->version);
    (void)podlane::json::dump(*result);
  }
  (void)podlane::cni::parse_ipam_result(text);
  return 0;
}
