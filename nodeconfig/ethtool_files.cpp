#include "nodeconfig/ethtool_files.hpp"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <vector>

#include "lib/base/unique_fd.hpp"
#include "nodeconfig/cpu_set.hpp"

namespace podlane::nodeconfig {

namespace {

// One number of one of ethtool's structures. Large enough for each of them.
struct Request {
  alignas(8) std::array<std::byte, 256> bytes{};
  std::uint32_t at(std::size_t offset) const {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  }
  void set(std::size_t offset, std::uint32_t value) { std::memcpy(bytes.data() + offset, &value, sizeof(value)); }
};
static_assert(sizeof(ethtool_coalesce) <= sizeof(Request) && sizeof(ethtool_channels) <= sizeof(Request) &&
              sizeof(ethtool_ringparam) <= sizeof(Request) && sizeof(ethtool_drvinfo) <= sizeof(Request));

struct Field {
  std::string_view name;
  std::uint32_t get, set;  // 0 for set: read only.
  std::size_t offset;
  std::uint32_t flag = 0;      // One bit of the number.
  std::size_t capability = 0;  // Number that is 0 where the driver has no such thing; 0: it always has.
};

constexpr std::uint32_t kMaxRssEntries = 1 << 16;
constexpr std::size_t kValue = offsetof(ethtool_value, data);
constexpr std::array kFields = {
    Field{"channels/combined", ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS, offsetof(ethtool_channels, combined_count), 0,
          offsetof(ethtool_channels, max_combined)},
    Field{"channels/combined-max", ETHTOOL_GCHANNELS, 0, offsetof(ethtool_channels, max_combined)},
    Field{"channels/rx", ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS, offsetof(ethtool_channels, rx_count), 0,
          offsetof(ethtool_channels, max_rx)},
    Field{"channels/rx-max", ETHTOOL_GCHANNELS, 0, offsetof(ethtool_channels, max_rx)},
    Field{"channels/tx", ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS, offsetof(ethtool_channels, tx_count), 0,
          offsetof(ethtool_channels, max_tx)},
    Field{"channels/tx-max", ETHTOOL_GCHANNELS, 0, offsetof(ethtool_channels, max_tx)},
    Field{"rings/rx", ETHTOOL_GRINGPARAM, ETHTOOL_SRINGPARAM, offsetof(ethtool_ringparam, rx_pending), 0,
          offsetof(ethtool_ringparam, rx_max_pending)},
    Field{"rings/rx-max", ETHTOOL_GRINGPARAM, 0, offsetof(ethtool_ringparam, rx_max_pending)},
    Field{"rings/tx", ETHTOOL_GRINGPARAM, ETHTOOL_SRINGPARAM, offsetof(ethtool_ringparam, tx_pending), 0,
          offsetof(ethtool_ringparam, tx_max_pending)},
    Field{"rings/tx-max", ETHTOOL_GRINGPARAM, 0, offsetof(ethtool_ringparam, tx_max_pending)},
    Field{"coalesce/rx-usecs", ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE, offsetof(ethtool_coalesce, rx_coalesce_usecs)},
    Field{"coalesce/tx-usecs", ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE, offsetof(ethtool_coalesce, tx_coalesce_usecs)},
    Field{"coalesce/adaptive-rx", ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE,
          offsetof(ethtool_coalesce, use_adaptive_rx_coalesce)},
    Field{"coalesce/adaptive-tx", ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE,
          offsetof(ethtool_coalesce, use_adaptive_tx_coalesce)},
    Field{"pause/rx", ETHTOOL_GPAUSEPARAM, 0, offsetof(ethtool_pauseparam, rx_pause)},
    Field{"pause/tx", ETHTOOL_GPAUSEPARAM, 0, offsetof(ethtool_pauseparam, tx_pause)},
    Field{"features/gro", ETHTOOL_GGRO, ETHTOOL_SGRO, kValue},
    Field{"features/lro", ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, kValue, ETH_FLAG_LRO},
    Field{"features/ntuple", ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, kValue, ETH_FLAG_NTUPLE},
};

// `data` begins with the command, as each of ethtool's structures does.
Result<void> call(std::string_view ifname, void* data, std::string_view path) {
  ifreq in{};
  if (ifname.empty() || ifname.size() >= sizeof(in.ifr_name)) {
    errno = ENODEV;
    return fail_errno("ethtool", path);
  }
  std::memcpy(in.ifr_name, ifname.data(), ifname.size());
  in.ifr_data = static_cast<char*>(data);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail_errno("socket");
  if (::ioctl(socket.get(), SIOCETHTOOL, &in) != 0) return fail_errno("ethtool", path);
  return {};
}

Result<void> call(std::string_view ifname, std::uint32_t command, Request& request, std::string_view path) {
  request.set(0, command);
  return call(ifname, request.bytes.data(), path);
}

// The queues that RSS spreads packets over, as a list: the indirection table names each of them some times.
Result<std::string> read_rss_queues(std::string_view ifname, std::string_view path) {
  std::vector<std::uint32_t> request = {ETHTOOL_GRXFHINDIR, 0};  // struct ethtool_rxfh_indir; size 0 asks for the size.
  PODLANE_TRY(call(ifname, request.data(), path));
  const std::uint32_t size = std::min(request[1], kMaxRssEntries);
  request.assign(2 + std::size_t{size}, 0);
  request[0] = ETHTOOL_GRXFHINDIR;
  request[1] = size;
  PODLANE_TRY(call(ifname, request.data(), path));
  CpuSet queues;  // Numbers in the kernel's list form, whatever they count.
  for (std::size_t i = 2; i < request.size(); ++i) queues.add(std::min(request[i], CpuSet::kMax - 1));
  return queues.list();
}

struct Place {
  std::string_view ifname;
  const Field* field;
};

Result<Place> place_of(std::string_view path) {
  const std::string_view rest = path.substr(std::min(kEthtoolRoot.size(), path.size()));
  const std::size_t slash = rest.find('/');
  const std::string_view name = slash == rest.npos ? "" : rest.substr(slash + 1);
  const auto field = std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.name == name; });
  if (field == kFields.end()) {
    errno = ENOENT;
    return fail_errno("ethtool", path);
  }
  return Place{rest.substr(0, slash), &*field};
}

Result<Request> get(const Place& place, std::string_view path) {
  Request request;
  PODLANE_TRY(call(place.ifname, place.field->get, request, path));
  if (place.field->capability != 0 && request.at(place.field->capability) == 0) {
    errno = EOPNOTSUPP;
    return fail_errno("ethtool", path);
  }
  return request;
}

}  // namespace

Result<std::string> read_ethtool(std::string_view path) {
  if (path.ends_with("/driver/firmware-version")) {
    const std::string_view rest = path.substr(std::min(kEthtoolRoot.size(), path.size()));
    Request request;
    PODLANE_TRY(call(rest.substr(0, rest.find('/')), ETHTOOL_GDRVINFO, request, path));
    const char* const text =
        reinterpret_cast<const char*>(request.bytes.data()) + offsetof(ethtool_drvinfo, fw_version);
    return std::string(text, ::strnlen(text, sizeof(ethtool_drvinfo::fw_version)));
  }
  if (path.ends_with("/rss/queues")) {
    const std::string_view rest = path.substr(std::min(kEthtoolRoot.size(), path.size()));
    return read_rss_queues(rest.substr(0, rest.find('/')), path);
  }
  PODLANE_TRY_ASSIGN(const Place place, place_of(path));
  PODLANE_TRY_ASSIGN(const Request request, get(place, path));
  const std::uint32_t value = request.at(place.field->offset);
  if (place.field->flag != 0) return std::string((value & place.field->flag) != 0 ? "1" : "0");
  return std::to_string(value);
}

Result<void> write_ethtool(std::string_view path, std::string_view text) {
  PODLANE_TRY_ASSIGN(const Place place, place_of(path));
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || place.field->set == 0) {
    errno = EINVAL;
    return fail_errno("ethtool", path);
  }
  PODLANE_TRY_ASSIGN(Request request, get(place, path));  // The other numbers of the structure stay as they are.
  if (place.field->flag != 0) {
    const std::uint32_t flags = request.at(place.field->offset);
    value = value != 0 ? flags | place.field->flag : flags & ~place.field->flag;
  }
  request.set(place.field->offset, value);
  return call(place.ifname, place.field->set, request, path);
}

}  // namespace podlane::nodeconfig
