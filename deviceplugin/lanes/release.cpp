// Undoing: from a bound lane back to a reserved one, from there to free. Each step tolerates that its object is gone; a
// step that fails does not keep the next ones from being tried, and the record stays until all have succeeded, so that
// the next DEL or reconcile tries again.
#include <net/if.h>
#include <unistd.h>

#include <algorithm>

#include "deviceplugin/lanes/table.hpp"
#include "lib/base/file.hpp"

namespace podlane::dp {

namespace {

struct FirstError {
  void note(Result<void> result, std::string_view operation, const std::string& device) {
    if (!result && !error) error = std::move(result).error().with(operation, device);
  }
  std::optional<Error> error;
};

// The name is random enough to be ours alone. A renamed link is known by our alias; an index alone proves nothing, it may
// be another link's by now.
Result<void> delete_lane_veth(const LaneRecord& record) {
  if (record.host.veth_host_name.empty()) return {};
  const unsigned by_name = ::if_nametoindex(record.host.veth_host_name.c_str());
  if (by_name != 0) return delete_link(IfIndex(static_cast<int>(by_name)));
  PODLANE_TRY_ASSIGN(const auto veths, our_veths());
  for (const auto& [host_end, device] : veths) {
    if (device == record.device && host_end == record.host.veth_host) PODLANE_TRY(delete_link(host_end));
  }
  return {};
}

// Addresses with the same last 24 bits share a solicited-node group, and the kernel does not count our joins.
bool is_last_of_group(LaneStore& store, const Lane& leaving, const AddressBytes& address) {
  for (const auto& [device, lane] : store.lanes()) {
    if (&lane == &leaving || !lane.is_bound() || lane.record.host.nic != leaving.record.host.nic) continue;
    for (const std::string& other : lane.record.tun.addresses) {
      const auto bytes = address_bytes(other);
      if (bytes && other.find(':') != std::string::npos && std::equal(bytes->end() - 3, bytes->end(), address.end() - 3)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<void> Table::unbind(const std::string& device, const lane::Attachment* only_of) {
  LaneRecord record;
  std::vector<AddressBytes> steered;
  std::vector<std::string> groups;
  const bool is_bound = in_state([&](LaneStore& store) {
    Lane* const lane = store.find(device);
    if (lane == nullptr || !lane->is_bound()) return false;
    if (only_of != nullptr && lane->record.owner.attachment != *only_of) return false;
    record = lane->record;
    for (const std::string& address : record.tun.addresses) {
      // Taken over by another lane since (its owner came while ours was dying): not ours to clear.
      if (store.holder_of({address}, *lane) != nullptr) continue;
      const auto bytes = address_bytes(address);
      if (!bytes) continue;
      steered.push_back(*bytes);
      if (address.find(':') != std::string::npos && is_last_of_group(store, *lane, *bytes)) groups.push_back(address);
    }
    return true;
  });
  if (!is_bound) return {};

  FirstError first;
  const bool on_nic = record.kind != lane::Kind::kTun;
  if (on_nic) {
    first.note(steer([&](bpf::Steering& steering) -> Result<void> {
                 for (const AddressBytes& address : steered) PODLANE_TRY(steering.clear_lane(record.host.nic, address));
                 PODLANE_TRY(steering.clear_socket(record.slot));
                 if (record.host.veth_host.value != 0) return steering.forget_veth_host_end(record.host.veth_host);
                 return {};
               }),
               "clear the steering of", device);
    for (const std::string& group : groups) {
      auto left = leave_solicited_node(record.host.nic, without_prefix(group));
      // The NIC took its memberships with it when it went.
      if (!left && left.error().code() == Errc::kNotFound) left = {};
      first.note(std::move(left), "leave a group for", device);
    }
    unwatch_lane(record);
    first.note(delete_lane_veth(record), "delete the veth of", device);
  }
  if (first.error) return std::unexpected(std::move(*first.error).as(Errc::kIo));

  // Ends the session of the owner that goes; the directory stays in the pod's mount and serves the next sandbox.
  handover_->stop_serving(device);
  const auto forget_owner = [&](LaneStore& store) -> Result<void> {
    PODLANE_TRY(store.unbind(*store.find(device)));
    lanes_changed();
    return {};
  };
  PODLANE_TRY(in_state(forget_owner));
  PODLANE_TRY(make_directories(record.directory));
  return handover_->serve(device, record.lane_directory());
}

Result<void> Table::release(const std::string& device) {
  LaneRecord record;
  in_state([&](LaneStore& store) {
    if (const Lane* const lane = store.find(device)) record = lane->record;
  });
  if (record.state == LaneState::kFree) return {};
  handover_->stop_serving(device);
  (void)::unlink((record.lane_directory() + "/handover.sock").c_str());
  (void)::rmdir(record.lane_directory().c_str());
  (void)::rmdir(record.directory.c_str());  // Fails while another lane of the same Allocate is in it.
  const auto clear_slot = [&](bpf::Steering& steering) -> Result<void> {
    PODLANE_TRY(steering.clear_socket(record.slot));
    return steering.clear_counters(record.slot);
  };
  PODLANE_TRY(steer(clear_slot));
  return in_state([&](LaneStore& store) -> Result<void> {
    PODLANE_TRY(store.release(device));
    lanes_changed();
    return {};
  });
}

Result<void> Table::detach(const lane::Attachment& attachment) {
  PODLANE_TRY_ASSIGN(const Claim turn, attachment_claims_.claim({name_of(attachment)}, kClaimWait));
  std::vector<std::string> devices;
  in_state([&](LaneStore& store) {
    for (const Lane* const lane : store.of_attachment(attachment)) devices.push_back(lane->spec.id);
  });
  if (devices.empty()) return {};
  PODLANE_TRY_ASSIGN(const Claim claim, claims_.claim(devices, kClaimWait));
  std::optional<Error> error;
  for (const std::string& device : devices) {
    if (auto undone = unbind(device, &attachment); !undone && !error) error = std::move(undone).error();
  }
  if (error) return std::unexpected(std::move(*error));
  return {};
}

}  // namespace podlane::dp
