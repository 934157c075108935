#include "lib/net/ethtool.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "lib/base/unique_fd.hpp"

namespace podlane::net {

namespace {

struct OffloadCommands {
  std::string_view name;
  std::uint32_t get;
  std::uint32_t set;
};

OffloadCommands commands_of(Offload offload) {
  switch (offload) {
    case Offload::kTxChecksum: return {"tx checksum offload", ETHTOOL_GTXCSUM, ETHTOOL_STXCSUM};
    case Offload::kTso: return {"TSO", ETHTOOL_GTSO, ETHTOOL_STSO};
    case Offload::kGso: return {"GSO", ETHTOOL_GGSO, ETHTOOL_SGSO};
    case Offload::kGro: return {"GRO", ETHTOOL_GGRO, ETHTOOL_SGRO};
  }
  return {"GRO", ETHTOOL_GGRO, ETHTOOL_SGRO};
}

Result<void> run_ioctl(const std::string& ifname, void* command, std::string_view what) {
  ifreq request{};
  if (ifname.empty() || ifname.size() >= sizeof(request.ifr_name)) {
    return fail(Errc::kInvalid, "interface name '" + ifname + "' must have 1 to 15 bytes");
  }
  ifname.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  request.ifr_data = static_cast<char*>(command);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("socket");
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return fail_errno(what, ifname);
  return {};
}

}  // namespace

Result<bool> offload_in_force(const std::string& ifname, Offload offload) {
  const OffloadCommands commands = commands_of(offload);
  ethtool_value value{.cmd = commands.get, .data = 0};
  PODLANE_TRY(run_ioctl(ifname, &value, "read " + std::string(commands.name)));
  return value.data != 0;
}

Result<void> set_offload(const std::string& ifname, Offload offload, bool on) {
  const OffloadCommands commands = commands_of(offload);
  ethtool_value value{.cmd = commands.set, .data = on ? 1U : 0U};
  PODLANE_TRY(run_ioctl(ifname, &value, "set " + std::string(commands.name)));
  PODLANE_TRY_ASSIGN(const bool now, offload_in_force(ifname, offload));
  if (now == on) return {};
  return fail(Errc::kUnsupported, ifname + ": " + std::string(commands.name) + " stays " + (now ? "on" : "off"));
}

Result<std::uint32_t> rx_channels(const std::string& ifname) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  PODLANE_TRY(run_ioctl(ifname, &channels, "read channels"));
  return channels.rx_count + channels.combined_count;
}

Result<std::string> driver_name(const std::string& ifname) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  PODLANE_TRY(run_ioctl(ifname, &info, "read driver"));
  return std::string(info.driver, ::strnlen(info.driver, sizeof(info.driver)));
}

}  // namespace podlane::net
