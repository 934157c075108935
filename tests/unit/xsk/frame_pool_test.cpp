#include "lib/xsk/frame_pool.hpp"

#include <gtest/gtest.h>

#include "lib/xsk/umem.hpp"

namespace podlane::xsk {
namespace {

TEST(FramePool, GivesOutEachFrameOnceAndTheLatestFirst) {
  FramePool pool(4, 2048);
  std::uint64_t frames[4], extra = 0;
  for (std::uint64_t& frame : frames) ASSERT_TRUE(pool.take(frame));
  EXPECT_FALSE(pool.take(extra));
  EXPECT_EQ(frames[0], 0U);
  EXPECT_EQ(frames[3], 3 * 2048U);
  ASSERT_TRUE(pool.move_from_hand(frames[1], Place::kFree));
  ASSERT_TRUE(pool.take(extra));
  EXPECT_EQ(extra, frames[1]);
  EXPECT_TRUE(pool.adds_up());
}

TEST(FramePool, RefusesWhatIsNotWhereItShouldBe) {
  FramePool pool(4, 2048);
  std::uint64_t frame = 0;
  ASSERT_TRUE(pool.take(frame));
  struct Row {
    const char* name;
    std::uint64_t address;
    Place from, to;
    bool done;
  };
  const Row rows[] = {
      {"to the kernel by an address inside of the frame", frame + 300, Place::kReserved, Place::kSending, true},
      {"sent twice", frame, Place::kReserved, Place::kSending, false},
      {"completed", frame, Place::kSending, Place::kFree, true},
      {"completed twice", frame, Place::kSending, Place::kFree, false},
      {"address behind the last frame", 4 * 2048, Place::kSending, Place::kFree, false},
      {"address from nowhere", ~std::uint64_t{0}, Place::kSending, Place::kFree, false},
      {"received without having been given", 2048, Place::kReceiving, Place::kReceived, false},
  };
  for (const Row& row : rows) EXPECT_EQ(pool.move(row.address, row.from, row.to), row.done) << row.name;
  EXPECT_FALSE(pool.move_from_hand(frame, Place::kFree));
  EXPECT_TRUE(pool.adds_up());
  EXPECT_EQ(pool.free_count(), 4U);
}

TEST(Umem, TakesOnlyWhatAfXdpTakes) {
  std::byte memory[1];
  struct Row {
    const char* name;
    std::size_t bytes;
    std::uint32_t frames, frame_size;
    bool good;
  };
  const Row rows[] = {
      {"exact", 64 * 2048, 64, 2048, true},       {"larger memory", 1 << 20, 64, 4096, true},
      {"memory too small", 64 * 2048 - 1, 64, 2048, false}, {"too few frames", 1 << 20, 63, 2048, false},
      {"odd frame size", 1 << 20, 64, 3000, false}, {"frame size 8192", 1 << 20, 64, 8192, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Umem::over(memory, row.bytes, row.frames, row.frame_size).has_value(), row.good) << row.name;
  }
}

}  // namespace
}  // namespace podlane::xsk
