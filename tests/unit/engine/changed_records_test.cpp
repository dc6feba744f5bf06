// Files whose records change between two readings of a product out of core: an error, and no list that is written past
// its end.
#include <string>

#include "engine/slabs/needed_rows.hpp"
#include "engine/slabs/streams.hpp"
#include "spmm/error.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"

namespace {

using namespace spmm;
using test::kNoProgress;

constexpr std::uint32_t kBlockRows = 4096;  // block rows

/// 600 blocks on the diagonal from (first, first) on.
BlockMatrix diagonal_from(std::uint32_t first) {
  BlockMatrix matrix{.n = kBlockRows, .m = 1, .index = {}, .values = {}};
  for (std::uint32_t x = 0; x < 600; ++x) {
    matrix.index.push_back({.i = first + x, .j = first + x});
    matrix.values.push_back(1);
  }
  return matrix;
}

template <class Action>
std::string message_of_format_error(const Action& action) {
  try {
    action();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("records that come into a slab, or leave it, between two readings are an error") {
  const test::MemorySource before(diagonal_from(0), "b.bin");
  const test::MemorySource after(diagonal_from(kBlockRows - 600), "b.bin");
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 2};
  const auto counts = slabs::count_buckets(slabs::buckets_of(before, slabs::Along::columns, run), run);
  const auto buckets = slabs::buckets_of(after, slabs::Along::columns, run);
  const auto all = slabs::cut_slabs(counts, 0, slabs::kNumBuckets, 2);
  REQUIRE(all.size() == 2);
  for (const slabs::Slab& slab : all) {  // the first one has fewer now, the second one more
    const std::string message = message_of_format_error([&] { slabs::SlabSource(after, buckets, slab, run); });
    CHECK(message.find("b.bin: the file changed while it was read") == 0);
  }
}

TEST_CASE("rows of B that change between two readings are an error") {
  const test::MemorySource a(diagonal_from(0), "a.bin");
  const test::MemorySource before(diagonal_from(0), "b.bin");
  const test::MemorySource after(diagonal_from(300), "b.bin");
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 2};
  const std::uint64_t num_groups = plan::num_row_groups(before.header());
  const auto lists = slabs::lists_of_a(a, num_groups, run);
  const auto counts = slabs::count_b(before, num_groups, run);
  const auto slabs_of_a = slabs::cut_slabs(slabs::count_buckets(lists.buckets, run), 0, slabs::kNumBuckets, 2);
  REQUIRE(slabs_of_a.size() == 2);
  const auto needed = slabs::needed_rows(lists, counts, slabs_of_a, run);
  const auto groups = slabs::groups_of(after, num_groups, run);
  std::string messages;
  for (std::uint32_t s = 0; s < 2; ++s) {
    messages += message_of_format_error([&] { slabs::needed_records(after, needed, s, groups, run); }) + "\n";
  }
  CHECK(messages.find("b.bin: the file changed while it was read") != std::string::npos);
  CHECK(message_of_format_error([&] {
          slabs::needed_records(before, needed, 0, slabs::groups_of(before, num_groups, run), run);
        }) == "no error");
}
