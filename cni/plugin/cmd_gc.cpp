// GC: DEL for every attachment of this network that the runtime does not list any more, then GC of the IPAM plugins.
#include <algorithm>
#include <map>

#include "cni/plugin/lane_work.hpp"
#include "cni/plugin/undo.hpp"
#include "cni/plugin/verbs.hpp"
#include "lib/lane/control_client.hpp"

namespace podlane::cni {

namespace {

constexpr std::chrono::milliseconds kGcTimeout{3000};

bool is_valid(const Call& call, const journal::AttachmentKey& key) {
  return std::ranges::any_of(*call.conf.valid_attachments, [&](const AttachmentName& name) {
    return name.container_id == key.container_id && name.ifname == key.ifname;
  });
}

// Of the journal's two places and of the device plugin.
std::vector<journal::AttachmentKey> known_attachments(const Call& call, std::vector<Error>& problems) {
  std::vector<journal::AttachmentKey> keys;
  const auto add = [&](const journal::AttachmentKey& key) {
    if (key.network == call.conf.name && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  };
  const auto note = [&](const std::vector<Error>& errors) {
    problems.insert(problems.end(), errors.begin(), errors.end());
  };
  if (const auto listing = call.journal.list()) {
    for (const auto& record : listing->records) add(record.key);
    note(listing->unreadable);
  } else {
    problems.push_back(listing.error());
  }
  if (const auto listing = call.journal.list_addresses()) {
    for (const auto& record : listing->records) add(record.key);
    note(listing->unreadable);
  } else {
    problems.push_back(listing.error());
  }
  const auto answer = lane::control_call(call.conf.socket, lane::AttachmentsRequest{call.conf.name}, -1,
                                         call.deadline.left(kGcTimeout));
  // Without the device plugin there is nobody to tell; it reconciles when it starts.
  if (answer && !answer->refusal) {
    for (const lane::Attachment& attachment : answer->attachments) {
      add({call.conf.name, attachment.container_id, attachment.ifname});
    }
  }
  return keys;
}

void collect_one(const Call& call, const journal::AttachmentKey& key, std::vector<Error>& problems) {
  const auto lock = call.journal.lock(key, call.deadline.left(std::chrono::milliseconds(500)));
  if (!lock) {
    problems.push_back(lock.error());  // Somebody works on it now: the runtime's DEL, most likely.
    return;
  }
  Remains remains = read_remains(call.journal, key, problems);
  if (!remains.attachment) remains.ask_daemon = true;
  if (remains.netns_path.empty() && remains.addresses) remains.netns_path = remains.addresses->netns_path;
  for (Error& problem : undo(call, remains, Deadline(kDelTimeout), lock->fd())) problems.push_back(std::move(problem));
  (void)call.journal.retire_lock(key, *lock);
  call.log.info("collected", {{"container_id", key.container_id}, {"ifname", key.ifname}});
}

// One GC per IPAM network. A pool's network is shared by all podlane networks, so that its list names every lease that
// is still recorded, whatever network it came by.
void forward(const Call& call, std::vector<Error>& problems) {
  struct Network {
    journal::IpamCall call;
    json::Value valid = json::Value::array();
  };
  std::map<std::string, Network> networks;
  const auto listing = call.journal.list_addresses();
  if (!listing) return;
  // A record that cannot be read may be a living pod's, and the IPAM plugin frees what the list leaves out. The runtime's
  // own list, for our own `ipam` below, does not depend on records.
  const bool is_whole = listing->unreadable.empty();
  for (const journal::AddressRecord& record : is_whole ? listing->records : std::vector<journal::AddressRecord>()) {
    for (const journal::IpamCall& ipam : record.calls) {
      const auto found = ipam.config.find("name");
      if (found == ipam.config.end() || !found->is_string()) continue;
      const std::string name = found->get<std::string>();
      Network& network = networks.try_emplace(name, Network{.call = ipam}).first->second;
      network.valid.push_back({{"containerID", ipam.container_id}, {"ifname", ipam.ifname}});
    }
  }
  if (call.conf.ipam_type) {
    json::Value valid = json::Value::array();
    for (const AttachmentName& name : *call.conf.valid_attachments) {
      valid.push_back({{"containerID", name.container_id}, {"ifname", name.ifname}});
    }
    networks.insert_or_assign(call.conf.name, Network{.call = own_ipam_call(call), .valid = std::move(valid)});
  }
  for (auto& [name, network] : networks) {
    network.call.container_id.clear();
    network.call.ifname.clear();
    network.call.netns_path.clear();
    network.call.args.clear();
    network.call.cni_path = call.args.path.empty() ? network.call.cni_path : call.args.path;
    json::Value& config = network.call.config;
    config["cniVersion"] = to_string(Version::k1_1_0);
    config.erase("prevResult");
    config.erase("runtimeConfig");
    config["cni.dev/valid-attachments"] = network.valid;
    config["cni.dev/attachments"] = network.valid;
    const auto answer = journal::call_ipam(network.call, "GC", {.timeout = call.deadline.left(kGcTimeout)});
    if (!answer && !journal::does_not_know_verb(answer.error())) problems.push_back(answer.error().error);
  }
}

}  // namespace

CniResult<std::string> cmd_gc(const Call& call) {
  if (call.conf.version < Version::k1_1_0) {
    return fail(CniCode::kIncompatibleVersion, "GC needs cniVersion 1.1.0 or later");
  }
  if (!call.conf.valid_attachments) {
    return fail(
        CniCode::kInvalidConfig,
        "cni.dev/valid-attachments is missing; it must be a list of {containerID, ifname}, empty when none is valid");
  }
  std::vector<Error> problems;
  for (const journal::AttachmentKey& key : known_attachments(call, problems)) {
    if (!is_valid(call, key)) collect_one(call, key, problems);
  }
  forward(call, problems);
  if (problems.empty()) return std::string();
  std::string text;
  for (const Error& problem : problems) text.append(text.empty() ? "" : "; ").append(problem.message());
  return fail(CniCode::kInternal, "GC is not complete: " + text);
}

}  // namespace podlane::cni
