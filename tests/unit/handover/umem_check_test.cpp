#include "deviceplugin/handover/umem_check.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/lane/umem_memory.hpp"

namespace podlane::dp {
namespace {

TEST(UmemBytes, AreRoundedUpToThePage) {
  using lane::HugePages;
  EXPECT_EQ(lane::umem_bytes({.frames = 4096, .frame_size_bytes = 2048}), 8U << 20);
  EXPECT_EQ(lane::umem_bytes({.frames = 3, .frame_size_bytes = 2048}), 8192U);
  EXPECT_EQ(lane::umem_bytes({.frames = 4096, .frame_size_bytes = 2048, .huge_pages = HugePages::k2Mi}), 8U << 20);
  EXPECT_EQ(lane::umem_bytes({.frames = 4097, .frame_size_bytes = 2048, .huge_pages = HugePages::k2Mi}), 10U << 20);
  EXPECT_EQ(lane::umem_bytes({.frames = 1, .frame_size_bytes = 2048, .huge_pages = HugePages::k1Gi}), 1U << 30);
}

TEST(UmemMemory, WhatTheClientMakesPassesTheDaemonsCheck) {
  for (const std::uint32_t frames : {1U, 3U, 512U, 4096U}) {
    const lane::UmemShape shape{.frames = frames, .frame_size_bytes = 2048};
    auto umem = lane::UmemMemory::create(shape);
    ASSERT_TRUE(umem) << umem.error().message();
    EXPECT_TRUE(check_umem(umem->memfd(), shape)) << check_umem(umem->memfd(), shape).error().message();
    umem->memory()[umem->size() - 1] = std::byte{7};
    EXPECT_NE(::ftruncate(umem->memfd(), 0), 0) << "sealed";
    lane::UmemMemory moved = std::move(*umem);
    EXPECT_FALSE(umem->valid());
    EXPECT_EQ(moved.memory()[moved.size() - 1], std::byte{7});
  }
}

TEST(UmemMemory, HugePagesOrWordsThatNameThem) {
  const lane::UmemShape shape{.frames = 512, .frame_size_bytes = 4096, .huge_pages = lane::HugePages::k2Mi};
  auto umem = lane::UmemMemory::create(shape);
  if (umem) {
    EXPECT_TRUE(check_umem(umem->memfd(), shape));
    lane::UmemShape small = shape;
    small.huge_pages = lane::HugePages::kNone;
    EXPECT_FALSE(check_umem(umem->memfd(), small));
  } else {
    EXPECT_NE(umem.error().message().find("hugePages 2Mi"), std::string::npos) << umem.error().message();
  }
}

TEST(CheckUmem, RefusesInWords) {
  const lane::UmemShape shape{.frames = 512, .frame_size_bytes = 2048};
  const std::size_t size = 512 * 2048;
  struct Case {
    const char* name;
    std::size_t size;
    int seals;
    bool touch;
    const char* says;
  };
  constexpr int kGood = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
  for (const Case& c : {Case{"no seals", size, 0, true, "must be sealed"},
                        Case{"no shrink seal", size, F_SEAL_SEAL | F_SEAL_GROW, true, "must be sealed"},
                        Case{"no grow seal", size, F_SEAL_SEAL | F_SEAL_SHRINK, true, "must be sealed"},
                        Case{"no seal seal", size, F_SEAL_GROW | F_SEAL_SHRINK, true, "must be sealed"},
                        Case{"write seal", size, kGood | F_SEAL_WRITE, true, "without a write seal"},
                        Case{"one byte short", size - 1, kGood, true, "need exactly 1048576"},
                        Case{"one byte long", size + 1, kGood, true, "need exactly 1048576"},
                        Case{"untouched", size, kGood, false, "never touched"}}) {
    SCOPED_TRACE(c.name);
    const UniqueFd fd(::memfd_create("umem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(c.size)), 0);
    if (c.touch) {
      ASSERT_EQ(::fallocate(fd.get(), 0, 0, static_cast<off_t>(c.size)), 0);
    }
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, c.seals), 0);
    const auto checked = check_umem(fd.get(), shape);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code(), Errc::kInvalid);
    EXPECT_NE(checked.error().message().find(c.says), std::string::npos) << checked.error().message();
  }
}

}  // namespace
}  // namespace podlane::dp
