#include "cpu/tile_operand.hpp"

#include <algorithm>
#include <utility>

#include "base/cancellable.hpp"
#include "plan/tiles.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kRowGrain = 4096;

/// Calls body(block, tile column, starts a tile) for the blocks of a row.
template <class Body>
void for_blocks(const Operand& b, std::uint64_t row, std::uint32_t per_tile, const Body& body) {
  std::uint32_t last = 0;
  for (std::uint32_t x = b.row_ptr[row]; x < b.row_ptr[row + 1]; ++x) {
    const std::uint32_t tile = b.cols[x] / per_tile;
    body(x, tile, x == b.row_ptr[row] || tile != last);
    last = tile;
  }
}

template <std::uint32_t kSide>
void fill_row(const Operand& b, std::uint64_t row, const TileOperand& out) {
  constexpr std::uint32_t kBlocks = plan::tile_blocks(kSide);
  constexpr std::uint32_t kStride = plan::kTileLanes / kBlocks;
  constexpr std::uint32_t kElements = kSide * plan::kTileLanes;
  std::uint32_t next = out.row_ptr[row];
  for_blocks(b, row, kBlocks, [&](std::uint32_t x, std::uint32_t tile, bool starts) {
    if (starts) {
      out.cols[next] = tile;
      std::fill_n(out.values.data() + std::size_t{next} * kElements, kElements, std::uint16_t{0});
      ++next;
    }
    std::uint16_t* to = out.values.data() + std::size_t{next - 1} * kElements + b.cols[x] % kBlocks * kStride;
    const std::uint16_t* from = b.values.data() + std::size_t{x} * kSide * kSide;
    for (std::uint32_t r = 0; r < kSide; ++r) std::copy_n(from + r * kSide, kSide, to + r * plan::kTileLanes);
  });
}

}  // namespace

AlignedArray<std::uint32_t> count_tiles(const Operand& b, std::uint32_t m, const Run& run) {
  const std::uint64_t num_rows = b.num_rows();
  const std::uint32_t per_tile = plan::tile_blocks(m);
  AlignedArray<std::uint32_t> row_ptr(num_rows + 1);
  run.parallel_for(num_rows, kRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) {
      std::uint32_t count = 0;
      for_blocks(b, row, per_tile, [&](std::uint32_t, std::uint32_t, bool starts) { count += starts ? 1 : 0; });
      row_ptr[row + 1] = count;
    }
  });
  row_ptr[0] = 0;
  for_ranges(run, num_rows, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t row = begin; row < end; ++row) row_ptr[row + 1] += row_ptr[row];
  });
  return row_ptr;
}

TileOperand make_tiles(const Operand& b, std::uint32_t m, AlignedArray<std::uint32_t> row_ptr, const Run& run) {
  const std::uint64_t num_rows = b.num_rows();
  TileOperand out;
  out.row_ptr = std::move(row_ptr);
  const std::uint64_t num_tiles = out.row_ptr[num_rows];
  // The larger one first: it may lie where the records were, and those pages need not be cleared again.
  out.values = AlignedArray<std::uint16_t>(num_tiles * plan::tile_value_bytes(m) / sizeof(std::uint16_t));
  out.cols = AlignedArray<std::uint32_t>(num_tiles);
  const auto fill = m == 1 ? fill_row<1> : m == 2 ? fill_row<2> : fill_row<3>;
  run.parallel_for(num_rows, kRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) fill(b, row, out);
  });
  return out;
}

}  // namespace spmm::cpu
