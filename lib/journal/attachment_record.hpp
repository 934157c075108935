// What is written down of one attachment of a pod to one network, so that DEL, GC or a restart can undo it. Types and
// codec, no I/O. Any thread.
//
// Two records, two lifetimes. AttachmentRecord: kernel objects, which a reboot forgets; on tmpfs. AddressRecord: who
// holds which IPAM lease, which a reboot does not forget; on disk, only when an IPAM plugin was asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/json/json.hpp"

namespace podlane::journal {

// CNI's own key of an attachment.
struct AttachmentKey {
  std::string network;
  std::string container_id;
  std::string ifname;  // CNI_IFNAME, which is the primary's name when chained.
  friend auto operator<=>(const AttachmentKey&, const AttachmentKey&) = default;
};

// The leaf under which everything of the key is kept, without suffix: readable start, then a hash of the whole key.
std::string file_stem_of(const AttachmentKey& key);

// One IPAM plugin's share in an attachment: all that is needed to call it again with the same key.
struct IpamCall {
  std::string plugin;        // ipam.type: a file name, looked for along cni_path.
  std::string cni_path;      // CNI_PATH
  std::string container_id;  // CNI_CONTAINERID
  std::string netns_path;    // CNI_NETNS
  std::string ifname;        // CNI_IFNAME: the lane's interface.
  std::string args;          // CNI_ARGS
  json::Value config;        // Standard input.
};

enum class RecordState {
  kAdding,  // ADD has begun; anything of it may exist.
  kMade,    // Everything in the pod is made and listed.
};

struct LaneRecord {
  std::string pool, device;  // Empty for a plain TUN.
  std::string ifname;        // As planned; the pod may have renamed it.
  int ifindex = 0;           // 0 until it is made.
  std::uint32_t table = 0;   // Of the rules; 0: none.
  std::uint32_t mtu = 0;
  std::uint32_t queues = 1;
  std::uint32_t owner = 0;             // Uid of the TUN's owner.
  std::vector<std::string> addresses;  // CIDR
};

struct AttachmentRecord {
  AttachmentKey key;
  std::string boot_id;
  std::string netns_path;
  std::string pod_namespace, pod_name, pod_uid;
  bool with_daemon = false;  // The device plugin holds lanes for it.
  RecordState state = RecordState::kAdding;
  std::vector<LaneRecord> lanes;
};

struct AddressRecord {
  AttachmentKey key;
  std::string boot_id;
  std::string netns_path;
  std::vector<IpamCall> calls;
};

std::string encode(const AttachmentRecord& record);
Result<AttachmentRecord> decode_attachment_record(std::string_view text);
std::string encode(const AddressRecord& record);
Result<AddressRecord> decode_address_record(std::string_view text);
std::string encode(const AttachmentKey& key);
Result<AttachmentKey> decode_key(std::string_view text);

}  // namespace podlane::journal
