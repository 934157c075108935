#include "tests/promises/raw_xsk.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace podlane::test {

namespace {

constexpr std::uint32_t kFrames = 512, kFrameBytes = 2048, kRing = 256;

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what + ": " + ::strerror(errno));
}

std::uint32_t load(std::uint32_t* index) { return std::atomic_ref(*index).load(std::memory_order_acquire); }
void store(std::uint32_t* index, std::uint32_t value) { std::atomic_ref(*index).store(value, std::memory_order_release); }

}  // namespace

RawXsk::RawXsk() : socket_(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)) {
  if (!socket_.valid()) give_up("socket AF_XDP");
}

RawXsk::~RawXsk() {
  close();
  if (memory_ != nullptr) ::munmap(memory_, kFrames * kFrameBytes);
}

void RawXsk::close() {
  for (Ring* ring : {&rx_, &tx_, &fill_, &completion_}) {
    if (ring->mapping != nullptr) ::munmap(ring->mapping, ring->bytes);
    *ring = Ring{};
  }
  socket_.reset();
}

void RawXsk::register_memory() {
  void* area = ::mmap(nullptr, kFrames * kFrameBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) give_up("mmap");
  memory_ = static_cast<char*>(area);
  xdp_umem_reg reg{};
  reg.addr = reinterpret_cast<__u64>(area);
  reg.len = kFrames * kFrameBytes;
  reg.chunk_size = kFrameBytes;
  if (::setsockopt(fd(), SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) != 0) give_up("XDP_UMEM_REG");
}

void RawXsk::size_rings() {
  const int entries = kRing;
  for (const int ring : {XDP_RX_RING, XDP_TX_RING, XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING}) {
    if (::setsockopt(fd(), SOL_XDP, ring, &entries, sizeof(entries)) != 0) give_up("size ring");
  }
}

bool RawXsk::map(Ring& ring, const xdp_ring_offset& offset, std::size_t descriptor_bytes, std::uint64_t page_offset) {
  ring.bytes = offset.desc + kRing * descriptor_bytes;
  void* mapping = ::mmap(nullptr, ring.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd(),
                         static_cast<off_t>(page_offset));
  if (mapping == MAP_FAILED) return false;
  ring.mapping = mapping;
  char* base = static_cast<char*>(mapping);
  ring.producer = reinterpret_cast<std::uint32_t*>(base + offset.producer);
  ring.consumer = reinterpret_cast<std::uint32_t*>(base + offset.consumer);
  ring.descriptors = base + offset.desc;
  return true;
}

bool RawXsk::map_rings() {
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof(offsets);
  if (::getsockopt(fd(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0) give_up("XDP_MMAP_OFFSETS");
  return map(rx_, offsets.rx, sizeof(xdp_desc), XDP_PGOFF_RX_RING) &&
         map(tx_, offsets.tx, sizeof(xdp_desc), XDP_PGOFF_TX_RING) &&
         map(fill_, offsets.fr, sizeof(__u64), XDP_UMEM_PGOFF_FILL_RING) &&
         map(completion_, offsets.cr, sizeof(__u64), XDP_UMEM_PGOFF_COMPLETION_RING);
}

int RawXsk::bind(int ifindex, std::uint32_t queue) {
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_flags = XDP_COPY;
  address.sxdp_ifindex = static_cast<__u32>(ifindex);
  address.sxdp_queue_id = queue;
  return ::bind(fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

void RawXsk::fill() {
  auto* addresses = static_cast<__u64*>(fill_.descriptors);
  for (std::uint32_t i = 0; i < kRing; ++i) addresses[i] = i * kFrameBytes;
  store(fill_.producer, kRing);
}

void RawXsk::set_up(int ifindex, std::uint32_t queue) {
  register_memory();
  size_rings();
  if (!map_rings()) give_up("map rings");
  fill();
  if ((errno = bind(ifindex, queue)) != 0) give_up("bind");
}

std::vector<std::string> RawXsk::receive() {
  std::vector<std::string> frames;
  const auto* descriptors = static_cast<const xdp_desc*>(rx_.descriptors);
  auto* addresses = static_cast<__u64*>(fill_.descriptors);
  std::uint32_t at = *rx_.consumer;
  for (const std::uint32_t end = load(rx_.producer); at != end; ++at) {
    const xdp_desc& descriptor = descriptors[at % kRing];
    frames.emplace_back(memory_ + descriptor.addr, descriptor.len);
    addresses[*fill_.producer % kRing] = descriptor.addr / kFrameBytes * kFrameBytes;
    store(fill_.producer, *fill_.producer + 1);
  }
  store(rx_.consumer, at);
  return frames;
}

void RawXsk::send(const std::string& frame) {
  store(completion_.consumer, load(completion_.producer));
  const std::uint64_t address = (kRing + next_tx_frame_++ % kRing) * kFrameBytes;
  std::memcpy(memory_ + address, frame.data(), frame.size());
  auto& descriptor = static_cast<xdp_desc*>(tx_.descriptors)[*tx_.producer % kRing];
  descriptor = {.addr = address, .len = static_cast<__u32>(frame.size()), .options = 0};
  store(tx_.producer, *tx_.producer + 1);
  if (::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && errno != EAGAIN) give_up("kick");
}

}  // namespace podlane::test
