// Pages of freed arrays: cut, joined, bounded, and back with the system when nobody may keep them.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/memory/aligned_array.hpp"
#include "base/memory/budget.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMegabyte = 1u << 20;

/// Unmaps what earlier cases have left.
void forget_spare_pages() {
  SpareAllowance none;
  none.set(1);
}

}  // namespace

TEST_CASE("spare pages are cut to size and joined again", "[base]") {
  forget_spare_pages();
  SpareAllowance allowance;
  allowance.set(array_bytes() + 64 * kMegabyte);
  std::optional<AlignedArray<std::byte>> whole(16 * kMegabyte);
  std::byte* const data = whole->data();
  whole.reset();
  CHECK(spare_bytes() == 16 * kMegabyte);
  std::optional<AlignedArray<std::byte>> parts[4];
  for (std::size_t x = 0; x < 4; ++x) {
    parts[x].emplace(4 * kMegabyte);
    CHECK(parts[x]->data() == data + x * 4 * kMegabyte);
  }
  CHECK(spare_bytes() == 0);
  for (const std::size_t x : {1u, 3u, 0u, 2u}) parts[x].reset();
  CHECK(AlignedArray<std::byte>(16 * kMegabyte).data() == data);  // in one piece again
}

TEST_CASE("while nothing is allowed, some pages are kept", "[base]") {
  forget_spare_pages();
  { const AlignedArray<std::byte> too_large(kKeptBytes + 2 * kMegabyte); }
  CHECK(spare_bytes() == 0);
  { const AlignedArray<std::byte> small(4 * kMegabyte); }
  CHECK(spare_bytes() == 4 * kMegabyte);
  forget_spare_pages();
  CHECK(spare_bytes() == 0);
}

TEST_CASE("an array takes the pages of one that was freed, while an allowance lives", "[base]") {
  forget_spare_pages();
  REQUIRE(spare_bytes() == 0);
  const std::uint64_t in_use = array_bytes();
  std::byte* first = nullptr;
  {
    SpareAllowance allowance;
    allowance.set(in_use + 40 * kMegabyte);
    {
      const AlignedArray<std::byte> array(32 * kMegabyte);
      first = array.data();
    }
    CHECK(spare_bytes() == 32 * kMegabyte);
    const AlignedArray<std::byte> smaller(24 * kMegabyte);
    CHECK(smaller.data() == first);
    CHECK(spare_bytes() == 8 * kMegabyte);
    const AlignedArray<std::byte> other(12 * kMegabyte);  // does not fit: room is made
    CHECK(spare_bytes() <= 4 * kMegabyte);
    CHECK(array_bytes() + spare_bytes() <= in_use + 40 * kMegabyte);
  }
  CHECK(spare_bytes() <= kKeptBytes);
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
        CHECK(spare_bytes() == 32 * kMegabyte);
      }
      CHECK(spare_bytes() == (keeps ? 32 * kMegabyte : kKeptBytes));
      MemoryShare next(budget);
      next.host_limit_bytes([] { return 500 * kMegabyte; });
      next.reserve({.host = 16 * kMegabyte, .device = 0}, nullptr);
      CHECK(spare_bytes() == (keeps ? 32 * kMegabyte : kKeptBytes));
    }
    CHECK(spare_bytes() == kKeptBytes);
  }
}
