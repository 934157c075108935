#include "bpf/loader/xdp_link.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "bpf/loader/programs.hpp"

namespace podlane::bpf {

namespace {

constexpr std::string_view kPinPrefix = "nic-";

std::string pin_path(const std::string& directory, IfIndex nic) {
  return directory + "/" + std::string(kPinPrefix) + std::to_string(nic.value);
}

std::string device_name(IfIndex device) {
  char name[IF_NAMESIZE] = {};
  const std::string number = "ifindex " + std::to_string(device.value);
  return ::if_indextoname(static_cast<unsigned>(device.value), name) == nullptr ? number
                                                                               : std::string(name) + " (" + number + ")";
}

Result<bpf_xdp_query_opts> query(IfIndex device) {
  bpf_xdp_query_opts answer{};
  answer.sz = sizeof(answer);
  if (::bpf_xdp_query(device.value, 0, &answer) != 0) return fail_errno("query XDP on", device_name(device));
  return answer;
}

bool attached(const bpf_xdp_query_opts& programs, std::uint32_t id) {
  return id != 0 && (programs.drv_prog_id == id || programs.skb_prog_id == id || programs.hw_prog_id == id);
}

AttachMode mode_of(const bpf_xdp_query_opts& programs, std::uint32_t id) {
  return programs.skb_prog_id == id ? AttachMode::kGeneric : AttachMode::kNative;
}

std::unexpected<Error> foreign(IfIndex device, const bpf_xdp_query_opts& programs) {
  std::string text = device_name(device) + " carries an XDP program of somebody else:";
  for (const std::uint32_t id : {programs.drv_prog_id, programs.skb_prog_id, programs.hw_prog_id}) {
    if (id != 0) text += " " + describe_program(id);
  }
  return fail(Errc::kExists, text + ". Detach it, or take the device out of the pool");
}

// The link at path when it is alive on that very device. A number can come to mean another device: the one that was
// attached moved to another namespace, where it keeps its number and its program. So the program is compared too.
std::optional<UniqueFd> live_link(const std::string& path, IfIndex nic, bpf_link_info& info) {
  UniqueFd link(::bpf_obj_get(path.c_str()));
  __u32 length = sizeof(info);
  if (!link.valid() || ::bpf_obj_get_info_by_fd(link.get(), &info, &length) != 0) return std::nullopt;
  if (info.type != BPF_LINK_TYPE_XDP || static_cast<int>(info.xdp.ifindex) != nic.value) return std::nullopt;
  const auto programs = query(nic);
  if (!programs || !attached(*programs, info.prog_id)) return std::nullopt;
  return link;
}

// Detached by hand, too: another process may hold a descriptor of the link, and the pin is then not the last reference.
Result<void> remove_pin(const std::string& path) {
  const UniqueFd link(::bpf_obj_get(path.c_str()));
  if (link.valid()) ::bpf_link_detach(link.get());
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unpin XDP link", path);
  return {};
}

Result<UniqueFd> make_link(IfIndex nic, int program_fd, AttachMode& mode) {
  LIBBPF_OPTS(bpf_link_create_opts, native, .flags = XDP_FLAGS_DRV_MODE);
  mode = AttachMode::kNative;
  UniqueFd link(::bpf_link_create(program_fd, nic.value, BPF_XDP, &native));
  if (!link.valid() && errno == EOPNOTSUPP) {
    LIBBPF_OPTS(bpf_link_create_opts, generic, .flags = XDP_FLAGS_SKB_MODE);
    mode = AttachMode::kGeneric;
    link.reset(::bpf_link_create(program_fd, nic.value, BPF_XDP, &generic));
  }
  if (link.valid()) return link;
  const int cause = errno;
  const auto programs = query(nic);  // Somebody may have been faster.
  if (programs && (programs->prog_id != 0 || programs->attach_mode == XDP_ATTACHED_MULTI)) return foreign(nic, *programs);
  errno = cause;
  return fail_errno("attach lane_steer to " + device_name(nic),
                    cause == ENODEV ? "" : "the driver may want a smaller MTU or more free queues for XDP");
}

}  // namespace

Result<NicAttachment> attach_pinned_link(const std::string& directory, IfIndex nic, int program_fd) {
  const std::string path = pin_path(directory, nic);
  PODLANE_TRY_ASSIGN(const std::uint32_t ours, program_id(program_fd));
  bpf_link_info info{};
  if (const auto link = live_link(path, nic, info)) {
    if (info.prog_id != ours && ::bpf_link_update(link->get(), program_fd, nullptr) != 0) {
      return fail_errno("replace the program on " + device_name(nic), path);
    }
    PODLANE_TRY_ASSIGN(const bpf_xdp_query_opts programs, query(nic));
    return NicAttachment{.nic = nic, .mode = mode_of(programs, ours), .adopted = true};
  }
  PODLANE_TRY(remove_pin(path));
  PODLANE_TRY_ASSIGN(const bpf_xdp_query_opts programs, query(nic));
  if (programs.prog_id != 0 || programs.attach_mode == XDP_ATTACHED_MULTI) return foreign(nic, programs);
  NicAttachment attachment{.nic = nic, .mode = AttachMode::kNative, .adopted = false};
  PODLANE_TRY_ASSIGN(const UniqueFd link, make_link(nic, program_fd, attachment.mode));
  // Not pinned: the link goes with its descriptor, and the program with it.
  if (::bpf_obj_pin(link.get(), path.c_str()) != 0) return fail_errno("pin XDP link", path);
  return attachment;
}

Result<void> detach_pinned_link(const std::string& directory, IfIndex nic) {
  return remove_pin(pin_path(directory, nic));
}

std::vector<IfIndex> pinned_links(const std::string& directory, bool remove_stale) {
  std::vector<IfIndex> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), ::closedir);
  if (!listing) return found;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPinPrefix)) continue;
    IfIndex nic;
    const auto parsed = std::from_chars(name.data() + kPinPrefix.size(), name.data() + name.size(), nic.value);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) continue;
    const std::string path = directory + "/" + std::string(name);
    bpf_link_info info{};
    if (live_link(path, nic, info)) {
      found.push_back(nic);
    } else if (remove_stale) {
      (void)remove_pin(path);  // Harmless where it stays: the next attach or open tries again.
    }
  }
  return found;
}

Result<void> attach_by_netlink(IfIndex device, int program_fd, const char* own_name) {
  PODLANE_TRY_ASSIGN(const bpf_xdp_query_opts programs, query(device));
  if (programs.prog_id == 0 && programs.attach_mode != XDP_ATTACHED_MULTI) {
    if (::bpf_xdp_attach(device.value, program_fd, XDP_FLAGS_DRV_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr) != 0) {
      return fail_errno(std::string("attach ") + own_name + " to", device_name(device));
    }
    return {};
  }
  if (programs.drv_prog_id == 0 || program_name(programs.drv_prog_id) != own_name) return foreign(device, programs);
  const UniqueFd old(::bpf_prog_get_fd_by_id(programs.drv_prog_id));
  if (!old.valid()) return fail_errno("open", describe_program(programs.drv_prog_id));
  LIBBPF_OPTS(bpf_xdp_attach_opts, options, .old_prog_fd = old.get());
  if (::bpf_xdp_attach(device.value, program_fd, XDP_FLAGS_DRV_MODE, &options) != 0) {
    return fail_errno(std::string("replace ") + own_name + " on", device_name(device));
  }
  return {};
}

}  // namespace podlane::bpf
