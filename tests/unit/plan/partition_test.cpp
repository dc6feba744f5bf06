// Out of core: the division with the least predicted time that fits.
#include <algorithm>
#include <cstdint>

#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"
#include "plan/partition.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

plan::Limits cpu_limits(std::uint64_t host_bytes) {
  plan::Limits limits = large_machine();
  limits.backend = Backend::cpu;
  limits.num_threads = 2;
  limits.num_cores = 2;
  limits.host_bytes = host_bytes;
  return limits;
}

constexpr std::uint64_t kMostA = 30'000;
constexpr std::uint64_t kMostB = 60'000;

/// Slabs of at most so many blocks fit.
plan::Execution small_slabs(const plan::Problem& p) {
  const auto& [s, limits] = p;
  plan::Execution e;
  e.backend = Backend::cpu;
  e.host_limit_bytes = limits.host_bytes;
  if (s.a.num_blocks > kMostA || s.b.num_blocks > kMostB) {
    e.refusal = plan::host_memory_refusal(s.num_blocks());
  }
  return e;
}

}  // namespace

TEST_CASE("slabs of A come alone where that is enough, and no more than are needed") {
  const plan::Limits limits = cpu_limits(std::uint64_t{1} << 30);
  const plan::Execution rows = plan::decide_slabs({evenly_spread(1u << 20, 8, 60'000), limits}, small_slabs);
  CHECK(rows.num_a_slabs == 2);
  CHECK(rows.num_b_slabs == 1);
  CHECK(rows.kept_bytes == 0);
  CHECK(rows.predicted_s > 0);
  // Few blocks in a block row: a slab of A meets few of B's. Many: it meets nearly all of them.
  const plan::Execution needed = plan::decide_slabs({evenly_spread(1u << 20, 8, 240'000), limits}, small_slabs);
  CHECK(needed.num_a_slabs == 8);
  CHECK(needed.num_b_slabs == 1);
  const plan::Execution both = plan::decide_slabs({evenly_spread(1u << 15, 8, 240'000), limits}, small_slabs);
  CHECK(both.num_a_slabs == 8);
  CHECK(both.num_b_slabs == 4);
  const plan::Statistics large = evenly_spread(1u << 20, 8, 1e8);
  const plan::Execution none = plan::decide_slabs({large, limits}, small_slabs);
  CHECK(none.is_refused());
  // Of the smallest slabs, not of the whole; half of it for results that wait.
  CHECK(none.refusal.need_bytes == 2 * (2 * 1'562'500) - 1 + plan::slab_list_bytes(large.a, large.b));
}

TEST_CASE("a slab holds the share of its count, rounded up") {
  const plan::Limits limits = cpu_limits(std::uint64_t{1} << 30);
  // Two slabs of 60,001 blocks: one of them is a block too large.
  const plan::Execution rows = plan::decide_slabs({evenly_spread(1u << 20, 8, 60'001), limits}, small_slabs);
  CHECK(rows.num_a_slabs == 3);
  CHECK(rows.num_b_slabs == 1);
}

TEST_CASE("several slabs of B leave half of the limit to results that wait to be merged") {
  bool seen_one = false;
  bool seen_several = false;
  bool seen_kept = false;
  for (const std::uint32_t n : {1u << 20, 1u << 16, 1u << 14}) {
    const plan::Statistics s = evenly_spread(n, 8, n == 1u << 14 ? 260'000 : 600'000);
    for (const std::uint64_t mb : {40u, 50u, 60u, 80u, 120u, 160u, 200u}) {
      const plan::Limits limits = cpu_limits(mb * 1'000'000);
      const plan::Execution e = plan::decide(s, limits);
      INFO("n " << n << ", " << mb << " MB: " << e.num_a_slabs << " x " << e.num_b_slabs);
      if (e.is_refused() || !e.is_in_slabs()) continue;
      CHECK(e.host_limit_bytes == limits.host_bytes);
      CHECK(e.host_need_bytes <= limits.host_bytes);
      const std::uint64_t lists =
          e.num_b_slabs == 1 ? plan::needed_list_bytes(s.a, s.b) : plan::slab_list_bytes(s.a, s.b);
      CHECK(e.slab_limits.host_bytes + e.kept_bytes + lists == limits.host_bytes);
      if (e.num_b_slabs == 1) {
        seen_one = true;
        CHECK(e.kept_bytes == 0);
        continue;
      }
      seen_several = true;
      CHECK(e.kept_bytes == (limits.host_bytes - lists) / 2);
      // A slab pair decided on its own stays within the other half.
      const auto share = [](std::uint32_t blocks, std::uint32_t count) { return (blocks + count - 1) / count; };
      const MatrixHeader a{.n = s.a.n, .m = 8, .num_blocks = share(s.a.num_blocks, e.num_a_slabs)};
      const MatrixHeader b{.n = s.b.n, .m = 8, .num_blocks = share(s.b.num_blocks, e.num_b_slabs)};
      const plan::Execution pair = plan::decide(plan::expected_statistics(a, b), e.slab_limits);
      CHECK_FALSE(pair.is_in_slabs());
      CHECK(pair.host_need_bytes <= limits.host_bytes / 2);
      // The result of a slab of A is expected to fit its half, where any division has room for it.
      const double record = static_cast<double>(output_record_bytes(8));
      if (s.num_c_blocks / 64 * record > static_cast<double>(e.kept_bytes) / 1.25) continue;
      seen_kept = true;
      CHECK(s.num_c_blocks / e.num_a_slabs * record <= static_cast<double>(e.kept_bytes));
    }
  }
  CHECK(seen_kept);
  CHECK(seen_one);
  CHECK(seen_several);
}

TEST_CASE("the largest slabs from a scratch file run by the kernel of those that are expected") {
  plan::Limits limits = cpu_limits(0);
  limits.num_threads = limits.num_cores = 1;
  limits.isa = plan::Isa::avx2;
  limits.has_scratch = true;
  const plan::Statistics s = evenly_spread(64'000, 1, 1'643'032);
  for (limits.host_bytes = 34'000'000; limits.host_bytes > 3'000'000; limits.host_bytes -= limits.host_bytes / 10) {
    const plan::Execution e = plan::decide(s, limits);
    INFO("limit " << limits.host_bytes);
    REQUIRE(e.slab_caps.a_blocks != 0);
    plan::Statistics largest = plan::expected_statistics(
        {.n = 64'000, .m = 1, .num_blocks = static_cast<std::uint32_t>(e.slab_caps.a_blocks)},
        {.n = 64'000, .m = 1, .num_blocks = static_cast<std::uint32_t>(e.slab_caps.b_blocks)});
    largest.are_sorted = true;
    CHECK(plan::decide(largest, e.slab_limits).id == e.id);
  }
}

TEST_CASE("what slabs of A need of B is taken from the indices where they are known") {
  const plan::Limits limits = cpu_limits(std::uint64_t{1} << 30);
  plan::Statistics s = evenly_spread(1u << 15, 8, 240'000);
  for (const std::uint32_t count : plan::kSlabCounts) {
    s.a_slab_blocks.push_back((240'000 + count - 1) / count);
    s.b_slab_blocks.push_back((240'000 + count - 1) / count);
    s.needed_b_blocks.push_back((240'000 + count - 1) / count);  // as of a band
  }
  const plan::Execution band = plan::decide_slabs({s, limits}, small_slabs);
  CHECK(band.num_a_slabs == 8);
  CHECK(band.num_b_slabs == 1);
  CHECK(band.kept_bytes == 0);
  CHECK(band.expected_pairs == s.num_pairs);
  std::fill(s.needed_b_blocks.begin(), s.needed_b_blocks.end(), 240'000);
  CHECK(plan::decide_slabs({s, limits}, small_slabs).num_b_slabs > 1);
}

TEST_CASE("exact sizes of slabs replace equal shares, in the same function") {
  const plan::Limits limits = cpu_limits(std::uint64_t{1} << 30);
  plan::Statistics s = evenly_spread(1u << 20, 8, 60'000);
  const plan::Execution expected = plan::decide_slabs({s, limits}, small_slabs);
  for (const std::uint32_t count : plan::kSlabCounts) {
    s.a_slab_blocks.push_back((60'000 + count - 1) / count);
    s.b_slab_blocks.push_back((60'000 + count - 1) / count);
  }
  CHECK((plan::decide_slabs({s, limits}, small_slabs) == expected));
  s.a_slab_blocks[1] = kMostA + 1;  // two slabs are uneven: three
  CHECK(plan::decide_slabs({s, limits}, small_slabs).num_a_slabs == 3);
  std::fill(s.a_slab_blocks.begin(), s.a_slab_blocks.end(), 60'000);  // one block row
  CHECK(plan::decide_slabs({s, limits}, small_slabs).is_refused());
}

TEST_CASE("a device too small for the operands gets slabs, one byte less than a slab needs is refused") {
  const plan::Statistics s = evenly_spread(32'768, 64, 2000);
  plan::Limits limits = large_machine();
  limits.device->bytes = std::uint64_t{72} << 20;
  const plan::Execution e = plan::decide(s, limits);
  REQUIRE_FALSE(e.is_refused());
  CHECK(e.is_in_slabs());
  CHECK(e.device_need_bytes <= limits.device->bytes);
  limits.device->bytes = 1000;
  const plan::Execution refused = plan::decide(s, limits);
  REQUIRE(refused.is_refused());
  limits.device->bytes = refused.refusal.need_bytes;
  CHECK_FALSE(plan::decide(s, limits).is_refused());
  limits.device->bytes -= 1;
  CHECK(plan::decide(s, limits).is_refused());
}
