#include "lib/lane/umem_memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace podlane::lane {

namespace {

std::size_t page_bytes(HugePages huge_pages) {
  switch (huge_pages) {
    case HugePages::k2Mi: return std::size_t{2} << 20;
    case HugePages::k1Gi: return std::size_t{1} << 30;
    case HugePages::kNone: break;
  }
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

unsigned huge_flags(HugePages huge_pages) {
  switch (huge_pages) {
    case HugePages::k2Mi: return MFD_HUGETLB | MFD_HUGE_2MB;
    case HugePages::k1Gi: return MFD_HUGETLB | MFD_HUGE_1GB;
    case HugePages::kNone: break;
  }
  return 0;
}

Result<UniqueFd> make_memfd(const UmemShape& shape) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | huge_flags(shape.huge_pages);
  // Nodes with vm.memfd_noexec=2 refuse a memfd without this flag; kernels before 6.3 do not know it (memfd_create(2)).
  UniqueFd fd(::memfd_create("podlane-umem", flags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd.reset(::memfd_create("podlane-umem", flags));
  if (!fd.valid()) return fail_errno("memfd_create", "hugePages " + std::string(to_string(shape.huge_pages)));
  return fd;
}

}  // namespace

std::size_t umem_bytes(const UmemShape& shape) {
  const std::size_t page = page_bytes(shape.huge_pages);
  const std::size_t bytes = std::size_t{shape.frames} * shape.frame_size_bytes;
  return (bytes + page - 1) / page * page;
}

Result<UmemMemory> UmemMemory::create(const UmemShape& shape) {
  const std::size_t size = umem_bytes(shape);
  const std::string what = std::to_string(size) + " bytes of UMEM, hugePages " +
                           std::string(to_string(shape.huge_pages));
  UmemMemory umem;
  PODLANE_TRY_ASSIGN(umem.memfd_, make_memfd(shape));
  const int fd = umem.memfd_.get();
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return fail_errno("ftruncate", what);
  // Takes every page now and says so when there are too few. Touching would end in SIGBUS at the huge-page limit.
  while (::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) return fail_errno("fallocate", what);
  }
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) return fail_errno("mmap", what);
  umem.memory_ = static_cast<std::byte*>(memory);
  umem.size_ = size;
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return fail_errno("F_ADD_SEALS", what);
  return umem;
}

UmemMemory::UmemMemory(UmemMemory&& other) noexcept
    : memfd_(std::move(other.memfd_)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

UmemMemory& UmemMemory::operator=(UmemMemory&& other) noexcept {
  if (this == &other) return *this;
  if (memory_ != nullptr) ::munmap(memory_, size_);
  memfd_ = std::move(other.memfd_);
  memory_ = std::exchange(other.memory_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

UmemMemory::~UmemMemory() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

}  // namespace podlane::lane
