// other_steering: puts another build of the NIC's program on its pinned link, as an older or newer podlane would have left
// it; the maps stay. For the test of an upgrade.
//   other_steering OBJECT BPFFS_DIRECTORY IFINDEX
// Prints the tag of the program that was there and of the one that is there now.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/base/unique_fd.hpp"

namespace {

using podlane::UniqueFd;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::string tag_of(int program) {
  bpf_prog_info info{};
  __u32 length = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &length) != 0) die("BPF_OBJ_GET_INFO_BY_FD");
  std::string text;
  char hex[3];
  for (const unsigned char byte : info.tag) {
    std::snprintf(hex, sizeof(hex), "%02x", byte);
    text += hex;
  }
  return text;
}

std::string tag_of_link(int link) {
  bpf_link_info info{};
  __u32 length = sizeof(info);
  if (::bpf_obj_get_info_by_fd(link, &info, &length) != 0) die("BPF_OBJ_GET_INFO_BY_FD of the link");
  const UniqueFd program(::bpf_prog_get_fd_by_id(info.prog_id));
  if (!program.valid()) die("BPF_PROG_GET_FD_BY_ID");
  return tag_of(program.get());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: other_steering OBJECT BPFFS_DIRECTORY IFINDEX\n");
    return 2;
  }
  const std::string directory = argv[2];
  bpf_object* object = ::bpf_object__open_file(argv[1], nullptr);
  if (object == nullptr) die(argv[1]);
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    const UniqueFd pinned(::bpf_obj_get((directory + "/" + ::bpf_map__name(map)).c_str()));
    if (pinned.valid() && ::bpf_map__reuse_fd(map, pinned.get()) != 0) die(::bpf_map__name(map));
  }
  if (::bpf_object__load(object) != 0) die("load");
  const bpf_program* program = ::bpf_object__find_program_by_name(object, "lane_steer");
  const UniqueFd link(::bpf_obj_get((directory + "/nic-" + argv[3]).c_str()));
  if (program == nullptr || !link.valid()) die("the pinned link");
  const std::string before = tag_of_link(link.get());
  if (::bpf_link_update(link.get(), ::bpf_program__fd(program), nullptr) != 0) die("BPF_LINK_UPDATE");
  std::printf("%s %s\n", before.c_str(), tag_of_link(link.get()).c_str());
  ::bpf_object__close(object);
}
