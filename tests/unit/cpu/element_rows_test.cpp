// Records of side 1 on their way to an operand: rows by rank and by digits, positions that occur twice.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/operands/order/row_ranks.hpp"
#include "cpu/operands/prepared.hpp"
#include "cpu/simd/isa.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

cpu::PackedOperand build(const BlockMatrix& matrix) {
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .num_threads = 2};
  return cpu::prepare(MemorySource(matrix), MemorySource(matrix), cpu::packed_shape(cpu::Isa::avx2, matrix.m), run).b;
}

/// The same matrix, its records in another order.
BlockMatrix with_shuffled_records(const BlockMatrix& matrix, std::uint64_t seed) {
  std::vector<std::size_t> order(matrix.index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  BlockMatrix out = matrix;
  for (std::size_t x = 0; x < order.size(); ++x) {
    out.index[x] = matrix.index[order[x]];
    out.values[x] = matrix.values[order[x]];
  }
  return out;
}

/// Rows of many lengths, around those at which the way of sorting changes.
constexpr std::uint32_t kLengths[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 127, 128, 129, 130, 300, 2000};

BlockMatrix rows_of_many_lengths(std::uint32_t stride) {
  MatrixBuilder builder(stride * 16, 1, 3);
  std::mt19937_64 random(stride);
  for (std::uint32_t row = 0; row < 16; ++row) {
    std::vector<std::uint32_t> columns(3000);
    std::iota(columns.begin(), columns.end(), 0u);
    std::shuffle(columns.begin(), columns.end(), random);
    for (std::uint32_t x = 0; x < kLengths[row]; ++x) builder.add_random(row * stride, columns[x], 65'535);
  }
  return builder.matrix();
}

}  // namespace

TEST_CASE("cpu: keys are ranked among each other") {
  std::mt19937_64 random(1);
  for (const std::string& name : available_isas()) {
    INFO(name);
    const ForcedIsa forced(name);
    const cpu::RankKeys rank = cpu::choose_rank_keys(cpu::choose_isa());
    for (std::uint32_t count = 1; count <= cpu::kMaxRankedKeys; ++count) {
      std::vector<std::uint32_t> keys(cpu::kMaxRankedKeys);
      std::iota(keys.begin(), keys.end(), 0u);
      std::shuffle(keys.begin(), keys.end(), random);
      for (std::uint32_t& key : keys) key = key * 16'777'215u;  // up to 2^31 - 1
      std::vector<std::uint32_t> ranks(cpu::kMaxRankedKeys);
      REQUIRE(rank(keys.data(), count, ranks.data()) == count * (count - 1) / 2);
      for (std::uint32_t x = 0; x < count; ++x) {
        const auto smaller = std::count_if(keys.begin(), keys.begin() + count, [&](auto key) { return key < keys[x]; });
        REQUIRE(ranks[x] == smaller);
      }
      if (count == 1) continue;
      keys[count - 1] = keys[count / 2 - 1];
      CHECK(rank(keys.data(), count, ranks.data()) < count * (count - 1) / 2);
    }
  }
}

TEST_CASE("cpu: elements in rows of every length come into order") {
  for (const std::uint32_t stride : {190u, 256u, 5000u, 100'000u}) {  // rows of one bucket, and far apart
    const BlockMatrix matrix = with_shuffled_records(rows_of_many_lengths(std::max(stride, 200u)), stride);
    for (const std::string& isa : available_isas()) {
      INFO(isa << ", " << stride);
      const ForcedIsa forced(isa);
      const cpu::PackedOperand operand = build(matrix);
      std::vector<std::size_t> order(matrix.index.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::sort(order.begin(), order.end(), [&](auto x, auto y) { return matrix.index[x] < matrix.index[y]; });
      REQUIRE(operand.num_rows() == 16);
      REQUIRE(operand.cols.size() == order.size());
      std::uint32_t row = 0;
      for (std::size_t x = 0; x < order.size(); ++x) {
        while (x >= operand.row_ptr[row + 1]) ++row;
        REQUIRE(operand.rows[row] == matrix.index[order[x]].i);
        REQUIRE(operand.cols[x] == matrix.index[order[x]].j);
        REQUIRE(operand.values[x] == matrix.values[order[x]]);
      }
    }
  }
}

}  // namespace spmm::test
