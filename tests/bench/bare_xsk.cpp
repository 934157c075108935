#include "tests/bench/bare_xsk.hpp"

#include <linux/bpf.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace podlane::bench {
namespace {

void check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

BareXsk::BareXsk(const std::string& device) {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  ::setrlimit(RLIMIT_MEMLOCK, &unlimited);  // May fail; the kernel then charges the limit that there is.
  socket_.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  check(socket_.valid(), "socket(AF_XDP)");
  constexpr std::size_t kBytes = std::size_t{kFrames} * kFrameBytes;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  check(memory != MAP_FAILED, "mmap of the UMEM");
  umem_ = static_cast<std::uint8_t*>(memory);
  xdp_umem_reg registration{};
  registration.addr = address_of(memory);
  registration.len = kBytes;
  registration.chunk_size = kFrameBytes;
  check(::setsockopt(socket_.get(), SOL_XDP, XDP_UMEM_REG, &registration, sizeof(registration)) == 0, "XDP_UMEM_REG");
  map_rings();

  for (std::uint32_t i = 0; i < kFrames / 2; ++i) {
    static_cast<std::uint64_t*>(fill_.entries)[i] = std::uint64_t{i} * kFrameBytes;
  }
  __atomic_store_n(fill_.producer, kFrames / 2, __ATOMIC_RELEASE);

  sockaddr_xdp where{};
  where.sxdp_family = AF_XDP;
  where.sxdp_flags = XDP_COPY;
  where.sxdp_ifindex = ::if_nametoindex(device.c_str());
  check(where.sxdp_ifindex != 0, "if_nametoindex");
  check(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0, "bind(AF_XDP)");
  attach(device);
}

void BareXsk::map_rings() {
  constexpr std::uint32_t kSize = kRingSize;
  for (const int option : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING}) {
    check(::setsockopt(socket_.get(), SOL_XDP, option, &kSize, sizeof(kSize)) == 0, "ring size");
  }
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof(offsets);
  check(::getsockopt(socket_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) == 0, "XDP_MMAP_OFFSETS");
  const auto map = [&](const xdp_ring_offset& at, std::size_t entry_bytes, off_t page) {
    void* memory = ::mmap(nullptr, at.desc + std::size_t{kSize} * entry_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, socket_.get(), page);
    check(memory != MAP_FAILED, "mmap of a ring");
    auto* base = static_cast<std::uint8_t*>(memory);
    return BareRing{reinterpret_cast<std::uint32_t*>(base + at.producer),
                    reinterpret_cast<std::uint32_t*>(base + at.consumer), base + at.desc, kSize - 1};
  };
  rx_ = map(offsets.rx, sizeof(xdp_desc), XDP_PGOFF_RX_RING);
  tx_ = map(offsets.tx, sizeof(xdp_desc), XDP_PGOFF_TX_RING);
  fill_ = map(offsets.fr, sizeof(std::uint64_t), static_cast<off_t>(XDP_UMEM_PGOFF_FILL_RING));
  completion_ = map(offsets.cr, sizeof(std::uint64_t), static_cast<off_t>(XDP_UMEM_PGOFF_COMPLETION_RING));
}

void BareXsk::attach(const std::string& device) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_XSKMAP;
  attributes.key_size = attributes.value_size = sizeof(std::uint32_t);
  attributes.max_entries = 1;
  map_.reset(bpf(BPF_MAP_CREATE, attributes));
  check(map_.valid(), "BPF_MAP_CREATE");
  const std::uint32_t key = 0, value = static_cast<std::uint32_t>(socket_.get());
  attributes = {};
  attributes.map_fd = static_cast<std::uint32_t>(map_.get());
  attributes.key = address_of(&key);
  attributes.value = address_of(&value);
  check(bpf(BPF_MAP_UPDATE_ELEM, attributes) == 0, "BPF_MAP_UPDATE_ELEM");

  // return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS): every frame, ARP included, goes to the socket.
  const bpf_insn program[] = {
      {BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, offsetof(xdp_md, rx_queue_index), 0},
      {BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_.get()},
      {0, 0, 0, 0, 0},
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, XDP_PASS},
      {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  static constexpr char kLicense[] = "GPL";
  attributes = {};
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.insns = address_of(program);
  attributes.insn_cnt = sizeof(program) / sizeof(program[0]);
  attributes.license = address_of(kLicense);
  attributes.expected_attach_type = BPF_XDP;
  program_.reset(bpf(BPF_PROG_LOAD, attributes));
  check(program_.valid(), "BPF_PROG_LOAD");
  attributes = {};
  attributes.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
  attributes.link_create.target_ifindex = ::if_nametoindex(device.c_str());
  attributes.link_create.attach_type = BPF_XDP;
  attributes.link_create.flags = 1U << 2;  // XDP_FLAGS_DRV_MODE
  link_.reset(bpf(BPF_LINK_CREATE, attributes));
  check(link_.valid(), "BPF_LINK_CREATE");
}

void BareXsk::transmit(std::uint32_t length) {
  // The one frame that is in flight has been sent when its completion is there; over a veth that is at once.
  const std::uint32_t completed = __atomic_load_n(completion_.producer, __ATOMIC_ACQUIRE);
  __atomic_store_n(completion_.consumer, completed, __ATOMIC_RELEASE);
  static_cast<xdp_desc*>(tx_.entries)[*tx_.producer & tx_.mask] = {std::uint64_t{kFrames / 2} * kFrameBytes, length, 0};
  __atomic_store_n(tx_.producer, *tx_.producer + 1, __ATOMIC_RELEASE);
  while (::sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0) {
    check(errno == EAGAIN || errno == EBUSY || errno == ENOBUFS, "sendto(AF_XDP)");
  }
}

}  // namespace podlane::bench
