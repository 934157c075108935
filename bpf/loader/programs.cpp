#include "bpf/loader/programs.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "lane_steer.skel.h"
#include "veth_host.skel.h"
#include "veth_pod.skel.h"

namespace podlane::bpf {

namespace {

// Kernels before 6.4 refuse a log buffer that is too small instead of keeping the log's end (kernel/bpf/log.c). The
// pages are touched only when a load fails.
constexpr std::size_t kLogBytes = 1 << 20;
constexpr std::size_t kLogTailBytes = 4000;

// What of a skeleton differs from program to program.
template <typename Skeleton>
struct Operations {
  const char* name;
  Skeleton* (*open)(const bpf_object_open_opts*);
  int (*load)(Skeleton*);
  void (*destroy)(Skeleton*);
  bpf_program* (*program)(Skeleton*);
};

Error load_error(const char* name, const char* log) {
  Error error = Error::from_errno(errno, "load BPF program", name);
  std::string text(log);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.empty()) return error;
  if (text.size() > kLogTailBytes) text.erase(0, text.size() - kLogTailBytes);
  return std::move(error).with("verifier says \"" + text + "\"");
}

template <typename Skeleton>
Result<UniqueFd> load(const Operations<Skeleton>& operations, const PinnedMaps& maps) {
  const auto log = std::make_unique_for_overwrite<char[]>(kLogBytes);
  log[0] = '\0';
  LIBBPF_OPTS(bpf_object_open_opts, options, .kernel_log_buf = log.get(), .kernel_log_size = kLogBytes);
  const std::unique_ptr<Skeleton, void (*)(Skeleton*)> skeleton(operations.open(&options), operations.destroy);
  if (!skeleton) return std::unexpected(load_error(operations.name, log.get()));
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton->obj) {
    const int fd = maps.fd_by_name(::bpf_map__name(map));
    if (fd < 0) continue;  // The program's own read-only data.
    if (::bpf_map__reuse_fd(map, fd) != 0) return fail_errno("share BPF map", ::bpf_map__name(map));
  }
  if (operations.load(skeleton.get()) != 0) return std::unexpected(load_error(operations.name, log.get()));
  // The skeleton closes its own descriptor; the copy keeps the program.
  UniqueFd fd(::fcntl(::bpf_program__fd(operations.program(skeleton.get())), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("fcntl F_DUPFD_CLOEXEC");
  return fd;
}

}  // namespace

Result<UniqueFd> load_lane_steer(const PinnedMaps& maps) {
  constexpr Operations<lane_steer> kOperations = {"lane_steer", lane_steer__open_opts, lane_steer__load,
                                                  lane_steer__destroy,
                                                  [](lane_steer* skeleton) { return skeleton->progs.lane_steer; }};
  return load(kOperations, maps);
}

Result<UniqueFd> load_veth_host(const PinnedMaps& maps) {
  constexpr Operations<veth_host> kOperations = {"veth_host", veth_host__open_opts, veth_host__load, veth_host__destroy,
                                                 [](veth_host* skeleton) { return skeleton->progs.veth_host; }};
  return load(kOperations, maps);
}

Result<UniqueFd> load_veth_pod(const PinnedMaps& maps) {
  constexpr Operations<veth_pod> kOperations = {"veth_pod", veth_pod__open_opts, veth_pod__load, veth_pod__destroy,
                                                [](veth_pod* skeleton) { return skeleton->progs.veth_pod; }};
  return load(kOperations, maps);
}

Result<std::uint32_t> program_id(int program_fd) {
  bpf_prog_info info{};
  __u32 length = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program_fd, &info, &length) != 0) return fail_errno("read BPF program info");
  return info.id;
}

std::string program_name(std::uint32_t id) {
  const UniqueFd fd(::bpf_prog_get_fd_by_id(id));
  bpf_prog_info info{};
  __u32 length = sizeof(info);
  if (!fd.valid() || ::bpf_obj_get_info_by_fd(fd.get(), &info, &length) != 0) return {};
  return info.name;
}

std::string describe_program(std::uint32_t id) {
  const std::string name = program_name(id);
  return "program " + std::to_string(id) + (name.empty() ? "" : " \"" + name + "\"");
}

}  // namespace podlane::bpf
