// row-rank: rows around the borders of parts, windows and buckets, panels, sums around 2^32, C blocks that are zero.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/ranked/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::MatrixBuilder;
using test::on_gpu;

constexpr std::uint32_t kSides[] = {1, 3, 4, 5, 8, 11, 16};

void check(const BlockMatrix& a, const BlockMatrix& b) {
  Report report;
  REQUIRE((multiply(a, b, on_gpu("row-rank"), &report) == test::oracle_multiply(a, b)));
  CHECK(report.plan.kernel == "row-rank");
  CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
}

/// Adds `count` blocks to a row of B, in columns that differ by `step` on average.
void add_row(MatrixBuilder& b, std::uint32_t row, std::uint32_t first, std::uint32_t count, std::uint32_t step,
             std::uint32_t max_value) {
  for (std::uint32_t t = 0; t < count; ++t) {
    b.add_random(row, first + t * step + static_cast<std::uint32_t>(b.below(step)), max_value);
  }
}

}  // namespace

TEST_CASE("row-rank: rows of as many C blocks as fit a window, one less, one more, and several windows") {
  for (const std::uint32_t m : kSides) {
    const std::uint32_t slots = kernels::rank_slots(m, kernels::kRankWideCta);
    const std::uint32_t nb = 6 * slots + 100;
    for (const std::uint32_t max_value : {2047u, test::kFullRange}) {
      MatrixBuilder a(nb, m, m);
      MatrixBuilder b(nb, m, m + 1);
      const std::uint32_t lengths[] = {slots - 1, slots, slots + 1, 3 * slots, 1, 2, 31, 32, 33};
      std::uint32_t row = 0;
      for (const std::uint32_t length : lengths) {
        add_row(b, row, row % 3 == 1 ? nb - length : row, length, row % 3 == 1 ? 1 : (nb - row) / length, max_value);
        a.add_random(row, row, max_value);
        a.add_random(row, nb - 1, max_value);  // no such row of B
        a.add_random(20 + row, row, max_value);
        a.add_random(20 + row, (row + 1) % std::size(lengths), max_value);
        ++row;
      }
      for (std::uint32_t t = 0; t < row; ++t) a.add_random(50, t, max_value);
      INFO("m " << m << ", values to " << max_value);
      check(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank: rows with many pairs are found in parts and multiplied in smaller windows") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const std::uint32_t nb = 3000;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t t = 0; t < 700; ++t) {
      a.add_random(5, t * 4, 2047);  // about 3 * kRowPiecePairs pairs, rounds of all sizes of CTAs
      if (t % 9 == 0) a.add_random(6, t * 4, test::kFullRange);
    }
    for (std::uint32_t t = 0; t < 700; ++t) add_row(b, t * 4, t, 250 + t % 90, 6, 2047);
    for (std::uint32_t i = 10; i < 400; ++i) a.add_random(i, (i * 37) % nb, 9);
    INFO("m " << m);
    check(a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: many pairs in few columns, of which the last part of a row has none") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const std::uint32_t nb = 700;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t t = 0; t < 500; ++t) {
      for (const std::uint32_t i : {3u, 4u, 600u}) a.add_random(i, t, 2047);
      if (t % 50 == 7) a.add_random(5, t, 2047);
      for (std::uint32_t j = 0; j < 160; ++j) {  // 65,000 pairs: four parts of 64 columns
        if ((j + t) % 16 > 2) b.add_random(t, 100 + j, 2047);
      }
    }
    INFO("m " << m);
    check(a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: columns far apart, and in clusters that fill a bucket") {
  const std::uint32_t nb = kernels::kMaxRankedColumns;
  for (const std::uint32_t m : {1u, 4u, 7u, 16u}) {
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    const auto last = nb - 1;
    for (std::uint32_t i = 0; i < 40; ++i) a.add_random(i * 1000, i % 7, 2047);
    for (std::uint32_t i = 0; i < 9; ++i) {
      a.add_random(last - i, i % 7, test::kFullRange);
      a.add_random(last - i, (i + 3) % 7, test::kFullRange);
    }
    b.add_random(0, 0, 2047);
    b.add_random(0, last, 2047);
    b.add_random(1, last, 2047);
    add_row(b, 2, 0, 60, 1, 2047);
    add_row(b, 2, nb - 70, 70, 1, 2047);
    add_row(b, 3, 17, 300, 3000, 2047);
    add_row(b, 4, 31, 1, 1, 2047);
    add_row(b, 5, 500'000, 200, 2, 2047);
    add_row(b, 6, 500'001, 90, 5, 2047);
    INFO("m " << m);
    check(a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: sums that meet 2^32 - 1, pass it, and saturate") {
  for (const std::uint32_t m : kSides) {
    const std::uint32_t nb = 500;
    for (const std::uint32_t last : {0u, 1u, 2u}) {
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      // 65535 * 65535 + 65535 + 65535 = 2^32 - 1, then 0, 1 or 2 on top; blocks of m * m in their first elements.
      const std::uint32_t factors[][2] = {{65'535, 65'535}, {65'535, 1}, {1, 65'535}, {1, last}};
      for (std::uint32_t t = 0; t < 4; ++t) {
        for (std::uint32_t i = 0; i < 3; ++i) {
          a.add_constant(i, t, 0);
          a.element(m - 1, t % m) = static_cast<std::uint16_t>(factors[t][0]);
        }
        for (std::uint32_t x = 0; x < 40; ++x) {
          b.add_constant(t, x * 11, 0);
          b.element(t % m, 0) = static_cast<std::uint16_t>(factors[t][1]);
        }
      }
      const ProductMatrix c = multiply(a.matrix(), b.matrix(), on_gpu("row-rank"));
      INFO("m " << m << ", last term " << last);
      REQUIRE((c == test::oracle_multiply(a.matrix(), b.matrix())));
      REQUIRE(c.index.size() == std::size_t{3} * 40);
      REQUIRE(c.values.at(std::size_t{m} * (m - 1)) == 4'294'967'295u);
    }
  }
}

TEST_CASE("row-rank: C blocks with as many pairs as fit 32 bits, one more, many more, in rows that have more blocks") {
  for (const std::uint32_t m : kSides) {
    for (const std::uint32_t max_value : {2047u, 12'000u}) {
      const std::uint32_t fitting = 4'294'967'295u / (m * max_value * max_value);
      const std::uint32_t of_a = 3 * fitting + 700;  // several rounds
      MatrixBuilder a(of_a, m, 1);
      MatrixBuilder b(of_a, m, 2);
      for (std::uint32_t t = 0; t < of_a; ++t) {
        a.add_constant(0, t, max_value);  // one window has such C blocks
        a.add_constant(1, t, t < fitting ? max_value : 1);
        for (std::uint32_t i = 2; i < 5; ++i) {
          if (t < fitting - 1 + i - 2) a.add_constant(i, t, max_value);  // rows of as many blocks
        }
        b.add_constant(t, (t * 7) % of_a, max_value);
        const std::uint32_t pairs[] = {fitting - 1, fitting, fitting + 1, 2 * fitting, of_a};
        for (std::uint32_t x = 0; x < std::size(pairs); ++x) {
          if (t < pairs[x] && (t * 7) % of_a != x * 31) b.add_constant(t, x * 31, max_value);
        }
      }
      INFO("m " << m << ", values " << max_value);
      check(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank: few blocks of B, and rows of it that end with its last one") {
  for (const std::uint32_t m : kSides) {
    for (std::uint32_t of_b = 1; of_b < 14; ++of_b) {
      const std::uint32_t nb = 30;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t i = 0; i < nb; ++i) {
        for (std::uint32_t t = 0; t < 6; ++t) a.add_random(i, (i + t * 5) % nb, 2047);
      }
      for (std::uint32_t x = 0; x < of_b; ++x) b.add_random(x / 5, 3 + x * 2, 2047);
      INFO("m " << m << ", blocks " << of_b);
      check(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-rank: all elements the largest, long rows") {
  for (const std::uint32_t m : kSides) {
    const std::uint32_t nb = 90;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    for (std::uint32_t i = 0; i < nb; ++i) {
      for (std::uint32_t t = 0; t < nb; ++t) {
        if ((i * 7 + t * 3) % 4 != 0) a.add_constant(i, t, 65'535);
        if ((i + t) % 3 != 0) b.add_constant(i, t, 65'535);
      }
    }
    INFO("m " << m);
    check(a.matrix(), b.matrix());
  }
}

TEST_CASE("row-rank: no C block can be zero, some are, all are") {
  for (const std::uint32_t m : kSides) {
    const std::size_t elements = std::size_t{m} * m;
    BlockMatrix full_a = test::random_matrix(m * 300, m, 900, 60'000, m);
    BlockMatrix full_b = test::random_matrix(m * 300, m, 900, 60'000, m + 1);
    for (std::uint16_t& value : full_a.values) ++value;
    for (std::uint16_t& value : full_b.values) ++value;
    INFO("m " << m);
    check(full_a, full_b);
    BlockMatrix a = full_a;
    for (std::size_t x = 0; x < a.index.size(); x += 3) {
      for (std::size_t e = 0; e < elements; ++e) a.values[x * elements + e] = 0;
    }
    check(a, full_b);
    std::fill(a.values.begin(), a.values.end(), std::uint16_t{0});
    check(a, full_b);
  }
}

TEST_CASE("row-rank: panels of some rows, and of some columns of a row") {
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    for (const std::uint32_t zeros : {0u, 1u}) {
      const std::uint32_t nb = 300'000 / m;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t i = 0; i < 20; ++i) a.add_constant(i, i % 3, 1 + i);
      for (std::uint32_t t = 0; t < 4; ++t) a.add_constant(25, t, 2047);
      for (std::uint32_t j = 0; j < nb; ++j) b.add_constant(j % 4, j, j % 255 + (zeros == 0 ? 1 : 0));
      const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
      const std::uint32_t side = kernels::padded_side(m);
      const plan::OperandBytes bytes = plan::operand_device_bytes(a.matrix().header(), b.matrix().header(), side);
      Options options = on_gpu("row-rank");  // room for two thirds of a row
      options.memory_limit_bytes = bytes.resident + plan::panel_c_block_bytes(m) * (nb * 2 / 3);
      Report report;
      INFO("m " << m << ", zeros " << zeros);
      REQUIRE((multiply(a.matrix(), b.matrix(), options, &report) == expected));
      CHECK(report.num_panels > 4);
      CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
    }
  }
}

TEST_CASE("row-rank: nothing to multiply, and what it refuses") {
  const BlockMatrix empty = test::random_matrix(400, 4, 0, 9, 1);
  const BlockMatrix some = test::random_matrix(400, 4, 30, 9, 2);
  CHECK(multiply(empty, some, on_gpu("row-rank")).index.empty());
  CHECK(multiply(some, empty, on_gpu("row-rank")).index.empty());
  const BlockMatrix large = test::random_matrix(17 * 20, 17, 20, 100, 1);
  CHECK_THROWS_AS(multiply(large, large, on_gpu("row-rank")), UsageError);
  const BlockMatrix wide = test::random_matrix(kernels::kMaxRankedColumns + 1, 1, 20, 100, 1);
  CHECK_THROWS_AS(multiply(wide, wide, on_gpu("row-rank")), UsageError);
}

TEST_CASE("small row-rank: one window, several, parts of a row") {
  for (const std::uint32_t m : {1u, 4u, 5u, 8u, 16u}) {
    const std::uint32_t slots = kernels::rank_slots(m, kernels::kRankWideCta);
    const std::uint32_t nb = 2 * slots + 10;
    MatrixBuilder a(nb, m, 1);
    MatrixBuilder b(nb, m, 2);
    add_row(b, 0, 3, slots + 1, 1, test::kFullRange);
    add_row(b, 1, 1, 40, 2, 2047);
    for (std::uint32_t t = 2; t < 9; ++t) add_row(b, t, t, 5, 3, test::kFullRange);
    a.add_random(2, 0, 2047);
    a.add_random(2, 1, 2047);
    for (std::uint32_t i = 0; i < 60; ++i) {
      for (std::uint32_t t = 1; t < 4; ++t) a.add_random(5 + i, (i + t * t) % 9 + 1, 2047);
    }
    INFO("m " << m);
    check(a.matrix(), b.matrix());
  }
}

namespace {

/// Zeros that the device and the host see; never freed: tests are short.
template <class T>
T* managed(std::size_t count) {
  void* data = nullptr;
  REQUIRE(cudaMallocManaged(&data, count * sizeof(T)) == cudaSuccess);
  std::memset(data, 0, count * sizeof(T));
  return static_cast<T*>(data);
}

/// Compressed rows of equal length: row r has the columns from `step` * r on.
kernels::CompressedView equal_rows(std::uint32_t num_rows, std::uint32_t length, std::uint32_t step) {
  auto* const rows = managed<std::uint32_t>(num_rows);
  auto* const offsets = managed<std::uint32_t>(num_rows + 1);
  auto* const columns = managed<std::uint32_t>(std::size_t{num_rows} * length);
  for (std::uint32_t r = 0; r < num_rows; ++r) {
    rows[r] = r;
    offsets[r + 1] = offsets[r] + length;
    for (std::uint32_t x = 0; x < length; ++x) columns[offsets[r] + x] = step * r + x;
  }
  return {.num_rows = num_rows, .rows = rows, .offsets = offsets, .columns = columns};
}

}  // namespace

TEST_CASE("row-rank: split offsets stay within their room where it is for some of the rows") {
  constexpr std::uint32_t kM = 4;
  constexpr std::uint32_t kRows = 12;
  constexpr std::uint32_t kOfA = 30;
  constexpr std::uint32_t kOfB = 60;
  constexpr std::uint32_t kColumns = kOfA * kOfB;  // C blocks of a row: two windows
  constexpr std::size_t kRoom = 500;               // a row takes 3 * kOfA
  constexpr std::uint32_t kUntouched = 0xABAB'ABABu;
  constexpr std::size_t kCBlocks = std::size_t{kRows} * kColumns;
  constexpr std::size_t kPadded = std::size_t{kernels::padded_side(kM)} * kernels::padded_side(kM);
  static_assert(kColumns > kernels::rank_slots(kM, kernels::kRankWideCta) && kColumns > kernels::kRankShortRowPairs);
  auto* const ones = managed<std::uint16_t>(kRows * kOfA * kOfB * kPadded);
  std::fill_n(ones, kRows * kOfA * kOfB * kPadded, std::uint16_t{1});
  auto* const b_rows = managed<std::uint32_t>(kRows * kOfA);
  auto* const pair_offsets = managed<std::uint64_t>(kRows * kOfA + 1);
  for (std::uint32_t x = 0; x < kRows * kOfA; ++x) {
    b_rows[x] = x % kOfA;
    pair_offsets[x + 1] = pair_offsets[x] + kOfB;
  }
  const kernels::RankedProduct product{.a = {.index = equal_rows(kRows, kOfA, 0), .values = ones, .numbers = nullptr},
                                       .b = {.index = equal_rows(kOfA, kOfB, kOfB), .values = ones, .numbers = nullptr},
                                       .b_row_index = b_rows,
                                       .pair_offsets = pair_offsets,
                                       .num_b_blocks = kOfA * kOfB,
                                       .m = kM,
                                       .max_element = 1};
  const std::uint64_t max_pieces = kernels::max_row_pieces(kRows, kCBlocks);
  const std::size_t work_bytes = kernels::ranked_workspace_bytes(kRows, max_pieces, kCBlocks);
  auto* const splits = managed<std::uint32_t>(kRoom + kCBlocks);
  std::fill_n(splits, kRoom + kCBlocks, kUntouched);
  const kernels::RankScratch scratch{
      .max_pieces = max_pieces,
      .max_c_blocks = kCBlocks,
      .max_splits = kRoom,
      .max_span = kColumns,
      .mean_row_pairs = kColumns,
      .spans = managed<kernels::ColumnSpan>(kRows),
      .piece_offsets = managed<std::uint32_t>(kRows + 1),
      .pieces = managed<kernels::RowPiece>(max_pieces),
      .counts_before = managed<std::uint64_t>(max_pieces + 1),
      .windows = managed<kernels::RankWindow>(kernels::max_rank_windows(max_pieces, kCBlocks)),
      .columns = managed<std::uint32_t>(kCBlocks),
      .splits = splits,
      .counters = managed<unsigned long long>(kernels::kRankCounters),
      .unpacked = nullptr,
      .non_zero = nullptr,
      .work = {.data = managed<std::byte>(work_bytes), .bytes = work_bytes}};
  const kernels::RecordOutput out{.to = kernels::packed_records(managed<std::uint32_t>(kCBlocks * (2 + kM * kM)), kM),
                                  .rows = product.a.index.rows,
                                  .look_back = nullptr,
                                  .num_blocks = managed<std::uint32_t>(1)};
  kernels::launch_mul_ranked(product,
                             {.num_c_blocks = kCBlocks,
                              .keys = nullptr,
                              .row_begin = 0,
                              .num_rows = kRows,
                              .column_begin = 0,
                              .num_columns = kColumns,
                              .column_bits = 11},
                             scratch, out, nullptr);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(std::count(splits, splits + kRoom, kUntouched) < static_cast<std::ptrdiff_t>(kRoom) / 2);
  CHECK(std::count(splits + kRoom, splits + kRoom + kCBlocks, kUntouched) == kCBlocks);
  CHECK(*out.num_blocks == kCBlocks);
  std::size_t wrong = 0;
  for (std::size_t x = 0; x < kCBlocks; ++x) {
    const std::uint32_t* const record = out.to.heads + x * (2 + kM * kM);
    wrong += static_cast<std::size_t>(std::count(record + 2, record + 2 + kM * kM, kM)) == kM * kM ? 0 : 1;
  }
  CHECK(wrong == 0);
}
