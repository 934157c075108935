#include "deviceplugin/handover/umem_check.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <string>

#include "lib/lane/umem_memory.hpp"

namespace podlane::dp {

namespace {

// Without SHRINK the client could truncate the file under the kernel's feet; SEAL keeps it from adding a write seal,
// which the kernel would have to refuse or wait for while the pages are pinned (memfd_create(2), fcntl(2)).
constexpr int kSealsWanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kSealsRefused = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

std::uint64_t huge_page_bytes(lane::HugePages huge_pages) {
  switch (huge_pages) {
    case lane::HugePages::k2Mi: return std::uint64_t{2} << 20;
    case lane::HugePages::k1Gi: return std::uint64_t{1} << 30;
    case lane::HugePages::kNone: break;
  }
  return 0;
}

Result<void> check_page_size(int memfd, const lane::UmemShape& shape) {
  struct statfs info {};
  if (::fstatfs(memfd, &info) != 0) return fail_errno("fstatfs of the UMEM");
  const std::uint64_t wanted = huge_page_bytes(shape.huge_pages);
  const bool huge = static_cast<std::uint32_t>(info.f_type) == HUGETLBFS_MAGIC;
  if (huge != (wanted != 0) || (huge && static_cast<std::uint64_t>(info.f_bsize) != wanted)) {
    return fail(Errc::kInvalid, "the UMEM's pages are " + std::to_string(info.f_bsize) +
                                    " bytes; hugePages of the pool is " +
                                    std::string(lane::to_string(shape.huge_pages)));
  }
  return {};
}

}  // namespace

bool is_memfd(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

Result<void> check_umem(int memfd, const lane::UmemShape& shape) {
  struct stat info {};
  if (::fstat(memfd, &info) != 0) return fail_errno("fstat of the UMEM");
  const int seals = ::fcntl(memfd, F_GET_SEALS);
  if (!S_ISREG(info.st_mode) || seals < 0) return fail(Errc::kInvalid, "the UMEM descriptor is not a memfd");
  if ((seals & kSealsWanted) != kSealsWanted) {
    return fail(Errc::kInvalid, "the UMEM must be sealed with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL");
  }
  if ((seals & kSealsRefused) != 0 || (::fcntl(memfd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return fail(Errc::kInvalid, "the UMEM must be readable and writable, without a write seal");
  }
  PODLANE_TRY(check_page_size(memfd, shape));
  const std::size_t wanted = lane::umem_bytes(shape);
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) != wanted) {
    return fail(Errc::kInvalid, "the UMEM has " + std::to_string(info.st_size) + " bytes; " +
                                    std::to_string(shape.frames) + " frames of " +
                                    std::to_string(shape.frame_size_bytes) + " need exactly " + std::to_string(wanted));
  }
  // Registering pins every page and would take missing ones on the daemon's account. st_blocks counts 512 bytes (stat(2)).
  // A client that punches holes after this check can shift at most this one UMEM to the daemon until its socket closes.
  if (static_cast<std::size_t>(info.st_blocks) * 512 < wanted) {
    return fail(Errc::kInvalid, "the UMEM has pages that were never touched; touch or fallocate all of it first");
  }
  return {};
}

}  // namespace podlane::dp
