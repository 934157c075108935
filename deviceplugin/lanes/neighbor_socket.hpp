// NeighborSocket: one rtnetlink socket that asks and tells the kernel's neighbour table and hears of its changes. Both
// answers and changes come in by read_all, in the kernel's order. Non-blocking; used by the neighbours' thread alone.
// Kernel: net/core/neighbour.c.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "deviceplugin/lanes/host_side.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/net/addr.hpp"

namespace podlane::dp {

struct NeighborKey {
  IfIndex nic;
  net::IpAddress ip;
  friend auto operator<=>(const NeighborKey&, const NeighborKey&) = default;
};

struct NeighborEntry {
  NeighborKey key;
  std::uint16_t state = 0;  // NUD_*; NUD_NONE and no MAC when it was removed.
  std::optional<MacAddress> mac;
  bool ours = false;  // Made or taken over by podlane, this life or an earlier one.
  bool removed = false;
};

// managed: the kernel keeps it resolved by itself (Linux 5.16). once: the kernel resolves it now (NTF_USE).
enum class Keep { kManaged, kOnce };

class NeighborSocket {
 public:
  static Result<NeighborSocket> open();

  // Each sends one message and returns its sequence number, by which a failure is told to read_all's on_error.
  Result<std::uint32_t> ask(const NeighborKey& key);
  Result<std::uint32_t> keep(const NeighborKey& key, Keep how);
  // For what the kernel cannot learn itself: an answer that went to a lane's address.
  Result<std::uint32_t> teach(const NeighborKey& key, const MacAddress& mac, Keep how);
  Result<std::uint32_t> remove(const NeighborKey& key);
  Result<std::uint32_t> list();  // Of all devices and families.

  // kUnavailable: the kernel had more to tell than the socket could hold; ask again for everything.
  Result<void> read_all(const std::function<void(const NeighborEntry&)>& on_entry,
                        const std::function<void(std::uint32_t sequence, int error)>& on_error);
  int fd() const { return socket_.get(); }

 private:
  explicit NeighborSocket(UniqueFd socket) : socket_(std::move(socket)) {}

  Result<std::uint32_t> send(std::uint16_t type, std::uint16_t flags, const NeighborKey& key, std::uint8_t entry_flags,
                             const std::string& attributes, std::uint16_t state = 0);

  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
};

}  // namespace podlane::dp
