#include "cpu/operands/tile_operand.hpp"

#include <algorithm>

#include "base/run/run.hpp"
#include "cpu/simd/layout.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kTileRowGrain = 4096;

/// A loop without branches, which the compiler turns into vectors.
template <std::uint32_t kSide>
std::uint32_t tiles_of_row(const PackedOperand& b, std::uint64_t row) {
  constexpr std::uint32_t kBlocks = tile_blocks(kSide);
  const std::uint32_t* const cols = b.cols.data() + b.row_ptr[row];
  const std::uint32_t size = b.row_ptr[row + 1] - b.row_ptr[row];
  std::uint32_t count = size == 0 ? 0 : 1;
  for (std::uint32_t x = 1; x < size; ++x) count += cols[x] / kBlocks != cols[x - 1] / kBlocks ? 1 : 0;
  return count;
}

template <std::uint32_t kSide, bool kPaired>
void fill_row(const PackedOperand& b, std::uint64_t row, const TileOperand& out) {
  constexpr std::uint32_t kBlocks = tile_blocks(kSide);
  constexpr std::uint32_t kStride = kTileLanes / kBlocks;
  constexpr std::uint32_t kElements = kSide * kTileLanes;
  std::uint32_t next = out.row_ptr[row];
  std::uint32_t last = 0;
  for (std::uint32_t x = b.row_ptr[row]; x < b.row_ptr[row + 1]; ++x) {
    const std::uint32_t tile = b.cols[x] / kBlocks;
    if (x == b.row_ptr[row] || tile != last) {
      out.cols[next] = tile;
      std::fill_n(out.values.data() + std::size_t{next} * kElements, kElements, std::uint16_t{0});
      ++next;
    }
    last = tile;
    std::uint16_t* const tile_values = out.values.data() + std::size_t{next - 1} * kElements;
    const std::uint16_t* from = b.values.data() + std::size_t{x} * kSide * kSide;
    const std::uint32_t lane = b.cols[x] % kBlocks * kStride;
    if constexpr (kPaired) {
      std::uint16_t* const pairs = tile_values + 2 * lane;
      for (std::uint32_t c = 0; c < kSide; ++c) {
        pairs[2 * c] = from[c];
        pairs[2 * c + 1] = from[kSide + c];
      }
      if constexpr (kSide == 3) std::copy_n(from + 6, 3, tile_values + 2 * kTileLanes + lane);
      continue;
    }
    std::uint16_t* const to = tile_values + lane;
    for (std::uint32_t r = 0; r < kSide; ++r) std::copy_n(from + r * kSide, kSide, to + r * kTileLanes);
  }
}

/// Shapes: returns the first tile of each row of B, and the end [b.num_rows() + 1].
AlignedArray<std::uint32_t> count_tiles(const PackedOperand& b, std::uint32_t m, const Run& run) {
  const std::uint64_t num_rows = b.num_rows();
  const auto count = m == 1 ? tiles_of_row<1> : m == 2 ? tiles_of_row<2> : tiles_of_row<3>;
  AlignedArray<std::uint32_t> row_ptr(num_rows + 1);
  run.parallel_for(num_rows, kTileRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) row_ptr[row + 1] = count(b, row);
  });
  row_ptr[0] = 0;
  for_ranges(run, num_rows, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t row = begin; row < end; ++row) row_ptr[row + 1] += row_ptr[row];
  });
  return row_ptr;
}

}  // namespace

TileOperand make_tiles(const PackedOperand& b, std::uint32_t m, bool paired, const Run& run) {
  const std::uint64_t num_rows = b.num_rows();
  TileOperand out;
  out.row_ptr = count_tiles(b, m, run);
  const std::uint64_t num_tiles = out.row_ptr[num_rows];
  // The larger one first: it may lie where the records were, and those pages need not be cleared again.
  out.values = AlignedArray<std::uint16_t>(num_tiles * tile_value_bytes(m) / sizeof(std::uint16_t));
  out.cols = AlignedArray<std::uint32_t>(num_tiles);
  const auto fill = m == 1   ? fill_row<1, false>
                    : m == 2 ? (paired ? fill_row<2, true> : fill_row<2, false>)
                             : (paired ? fill_row<3, true> : fill_row<3, false>);
  run.parallel_for(num_rows, kTileRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) fill(b, row, out);
  });
  return out;
}

}  // namespace spmm::cpu
