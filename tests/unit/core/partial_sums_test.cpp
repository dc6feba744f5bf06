// Partial products are added up, saturating, in the order of the result.
#include "engine/partial_sums.hpp"

#include <cstdint>
#include <deque>
#include <vector>

#include "base/run.hpp"
#include "plan/inner_parts.hpp"
#include "spmm/engine.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;

/// The blocks of A and B whose inner index belongs to one of several parts.
BlockMatrix part_of(const BlockMatrix& whole, bool is_b, std::uint32_t part, std::uint32_t num_parts) {
  BlockMatrix some{.n = whole.n, .m = whole.m, .index = {}, .values = {}};
  const std::size_t block = std::size_t{whole.m} * whole.m;
  for (std::size_t x = 0; x < whole.index.size(); ++x) {
    const std::uint32_t inner = is_b ? whole.index[x].i : whole.index[x].j;
    if (inner % num_parts != part) continue;
    some.index.push_back(whole.index[x]);
    some.values.insert(some.values.end(), whole.block(x), whole.block(x) + block);
  }
  return some;
}

void keep(const ProductMatrix& product, slabs::KeepingSink& sink) {
  const std::size_t block = std::size_t{product.m} * product.m;
  std::vector<std::byte> record(output_record_bytes(product.m));
  for (std::size_t x = 0; x < product.index.size(); ++x) {
    std::memcpy(record.data(), &product.index[x], kIndexBytes);
    std::memcpy(record.data() + kIndexBytes, product.values.data() + x * block, block * sizeof(std::uint32_t));
    sink.append(record, {});
  }
}

ProductMatrix sum_of_parts(const BlockMatrix& a, const BlockMatrix& b, std::uint32_t num_parts, unsigned num_threads) {
  std::vector<std::uint64_t> left(num_parts, std::uint64_t{1} << 30);
  std::deque<slabs::KeepingSink> partials;
  for (std::uint32_t p = 0; p < num_parts; ++p) {
    keep(test::oracle_multiply(part_of(a, false, p, num_parts), part_of(b, true, p, num_parts)),
         partials.emplace_back(left[p], output_record_bytes(a.m)));
  }
  StageClock clock;
  const ProgressFn silent;
  const Run run{.clock = clock, .on_progress = silent, .num_threads = num_threads};
  test::MemorySink sink(a.header(), 2);
  const std::uint64_t num_blocks = add_partials(partials, a.m, sink, run);
  sink.finish(a.header());
  CHECK(num_blocks == sink.product().index.size());
  return sink.product();
}

}  // namespace

TEST_CASE("partial sums: parts of every product of the battery add up to it") {
  for (const test::Recipe& recipe : test::battery()) {
    for (const std::uint32_t m : {1u, 3u, 8u}) {
      const auto [a, b] = recipe.make(m, 1);
      INFO(recipe.name << ", m " << m);
      CHECK((sum_of_parts(a, b, 2, 1) == test::oracle_multiply(a, b)));
      CHECK((sum_of_parts(a, b, 3, 4) == test::oracle_multiply(a, b)));
    }
  }
}

TEST_CASE("partial sums: many units, in order, with several threads") {
  const BlockMatrix a = test::random_matrix(1024, 8, 4000, 65'535, 1);
  const BlockMatrix b = test::random_matrix(1024, 8, 4000, 65'535, 2);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  REQUIRE(expected.index.size() * output_record_bytes(8) > 3 * plan::kSumBufferBytes);
  CHECK((sum_of_parts(a, b, 2, 4) == expected));
}
