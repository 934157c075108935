// NextHops: which MAC address a packet goes to. A bounded cache over what the device plugin tells; one thread, the one
// that moves the packets. No allocation after construction.
//
// Rule: multicast and broadcast have computed addresses; a destination in one of the lane's subnets (or IPv6 link-local) is
// its own next hop; everything else goes to the first gateway of its family. An unknown next hop is asked for once, and
// asked again only when it was forgotten (forget()); meanwhile packets to it are the caller's to drop: nothing is queued.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/lane/handover_msg.hpp"
#include "lib/net/addr.hpp"
#include "lib/podlane/packet.hpp"

namespace podlane {

// "02:00:00:00:00:01", either case. Empty when it is not one.
std::optional<MacAddress> parse_mac(std::string_view text);

IpKey ip_key_of(const net::IpAddress& address);
std::string to_string(const IpKey& key);

enum class HopState : std::uint8_t {
  kKnown,    // The MAC address is there.
  kAsk,      // Not known: the caller asks for `next_hop` now. Later look-ups say kWaiting.
  kWaiting,  // Asked for.
  kNoRoute,  // Outside of the subnets, and no gateway of that family.
};

struct Hop {
  HopState state = HopState::kNoRoute;
  MacAddress mac{};
  IpKey next_hop;  // Of kAsk.
};

class NextHops {
 public:
  static constexpr std::size_t kSets = 64, kWays = 4;  // 256 next hops: a lane talks to few.

  static Result<NextHops> create(const lane::LaneDescription& description);

  Hop find(const IpKey& destination, bool is_v4);

  void learn(const IpKey& ip, const MacAddress& mac);
  void forget(const IpKey& ip);  // Does not answer, or the asking got lost: the next packet asks again.

 private:
  struct Subnet {
    IpKey network, mask;
    bool is_v4 = false;
  };
  enum class EntryState : std::uint8_t { kEmpty, kWaiting, kKnown };
  struct Entry {
    IpKey ip;
    EntryState state = EntryState::kEmpty;
    MacAddress mac{};
  };
  std::optional<IpKey> next_hop_of(const IpKey& destination, bool is_v4) const;
  std::optional<MacAddress> computed_mac(const IpKey& destination, bool is_v4) const;
  Entry* entry_of(const IpKey& ip);
  Entry& make_entry(const IpKey& ip);

  std::vector<Subnet> subnets_;
  std::vector<IpKey> broadcasts_;
  std::optional<IpKey> gateway_v4_, gateway_v6_;
  std::array<std::array<Entry, kWays>, kSets> sets_{};
  std::uint32_t next_victim_ = 0;
  IpKey memo_destination_;  // The last destination that was found, and its MAC: a flow asks for the same again and again.
  MacAddress memo_mac_{};
  bool memo_valid_ = false;
};

}  // namespace podlane
