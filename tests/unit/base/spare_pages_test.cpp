// Pages of freed arrays: cut, joined, bounded, and back with the system when nobody may keep them.
#include "base/memory/spare_pages.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/memory/budget.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;

const std::uint64_t kPage = page_bytes();
constexpr std::uint64_t kMegabyte = 1u << 20;

std::byte* map_pages(std::uint64_t pages) {
  void* const data = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(data != MAP_FAILED);
  return static_cast<std::byte*>(data);
}

/// Whether the page is still there.
bool is_mapped(std::byte* data) {
  unsigned char resident = 0;
  return mincore(data, kPage, &resident) == 0;
}

/// Unmaps what earlier cases have left.
void forget_spare_pages() {
  SpareAllowance none;
  none.set(1);
}

}  // namespace

TEST_CASE("spare pages are cut to size and joined again", "[base]") {
  SparePages spare;
  spare.allow(100 * kPage, 0);
  std::byte* const data = map_pages(16);
  spare.give(data, 16 * kPage, 0);
  CHECK(spare.bytes() == 16 * kPage);
  CHECK(spare.take(17 * kPage) == nullptr);
  std::vector<std::byte*> parts;
  for (int x = 0; x < 4; ++x) parts.push_back(spare.take(4 * kPage));
  CHECK(spare.take(kPage) == nullptr);
  for (std::size_t x = 0; x < 4; ++x) CHECK(parts[x] == data + x * 4 * kPage);
  for (const std::size_t x : {1u, 3u, 0u, 2u}) spare.give(parts[x], 4 * kPage, 0);
  CHECK(spare.take(16 * kPage) == data);  // in one piece again
  CHECK(spare.bytes() == 0);
  munmap(data, 16 * kPage);
}

TEST_CASE("arrays in use and spare pages keep what is allowed", "[base]") {
  SparePages spare;
  spare.allow(10 * kPage, 0);
  std::byte* const data = map_pages(12);
  spare.give(data, 4 * kPage, 7 * kPage);  // one too many
  CHECK(spare.bytes() == 0);
  CHECK_FALSE(is_mapped(data));
  spare.give(data + 4 * kPage, 8 * kPage, 2 * kPage);
  CHECK(spare.bytes() == 8 * kPage);
  spare.trim(5 * kPage);
  CHECK(spare.bytes() == 5 * kPage);
  CHECK(is_mapped(data + 4 * kPage));
  CHECK_FALSE(is_mapped(data + 9 * kPage));
  spare.trim(10 * kPage);
  CHECK(spare.bytes() == 0);
  CHECK_FALSE(is_mapped(data + 4 * kPage));
}

TEST_CASE("while nothing is allowed, some pages are kept", "[base]") {
  constexpr std::uint64_t kKept = SparePages::kKeptBytes;
  SparePages spare;
  std::byte* const data = map_pages(kKept / kPage + 3);
  spare.give(data, kKept + kPage, 0);  // too many
  CHECK(spare.bytes() == 0);
  CHECK_FALSE(is_mapped(data));
  spare.give(data + kKept + kPage, 2 * kPage, 0);
  CHECK(spare.bytes() == 2 * kPage);
  spare.allow(2 * kKept, 0);
  std::byte* const more = map_pages(kKept / kPage);
  spare.give(more, kKept, 0);
  CHECK(spare.bytes() == kKept + 2 * kPage);
  spare.allow(0, 2 * kKept);
  spare.trim(0);
  CHECK(spare.bytes() == kKept);
  spare.allow(1, 0);
  spare.trim(0);
  CHECK(spare.bytes() == 0);
}

TEST_CASE("an array takes the pages of one that was freed, while an allowance lives", "[base]") {
  forget_spare_pages();
  REQUIRE(spare_pages().bytes() == 0);
  const std::uint64_t in_use = array_bytes();
  std::byte* first = nullptr;
  {
    SpareAllowance allowance;
    allowance.set(in_use + 40 * kMegabyte);
    {
      const AlignedArray<std::byte> array(32 * kMegabyte);
      first = array.data();
    }
    CHECK(spare_pages().bytes() == 32 * kMegabyte);
    const AlignedArray<std::byte> smaller(24 * kMegabyte);
    CHECK(smaller.data() == first);
    CHECK(spare_pages().bytes() == 8 * kMegabyte);
    const AlignedArray<std::byte> other(12 * kMegabyte);  // does not fit: room is made
    CHECK(spare_pages().bytes() <= 4 * kMegabyte);
    CHECK(array_bytes() + spare_pages().bytes() <= in_use + 40 * kMegabyte);
  }
  CHECK(spare_pages().bytes() <= SparePages::kKeptBytes);
}

TEST_CASE("a budget allows what its products have reserved, and keeps the last one's where it may", "[base]") {
  for (const bool keeps : {false, true}) {
    forget_spare_pages();
    {
      MemoryBudget budget(keeps);
      {
        MemoryShare share(budget);
        share.host_limit_bytes([] { return 500 * kMegabyte; });
        share.reserve({.host = 64 * kMegabyte, .device = 0}, nullptr);
        { const AlignedArray<std::byte> array(32 * kMegabyte); }
        CHECK(spare_pages().bytes() == 32 * kMegabyte);
      }
      CHECK(spare_pages().bytes() == (keeps ? 32 * kMegabyte : SparePages::kKeptBytes));
      MemoryShare next(budget);
      next.host_limit_bytes([] { return 500 * kMegabyte; });
      next.reserve({.host = 16 * kMegabyte, .device = 0}, nullptr);
      CHECK(spare_pages().bytes() == (keeps ? 32 * kMegabyte : SparePages::kKeptBytes));
    }
    CHECK(spare_pages().bytes() == SparePages::kKeptBytes);
  }
}
