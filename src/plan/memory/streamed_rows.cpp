#include "plan/memory/streamed_rows.hpp"

#include <algorithm>

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

std::uint64_t sum_bytes(std::uint32_t m) {
  return std::uint64_t{m} * m * sizeof(std::uint32_t);
}

/// Of a thread, without sums and output: what it has read, and products.
std::uint64_t fixed_bytes(const MatrixHeader& header, std::uint64_t piece_bytes, Isa isa) {
  return 2 * std::max<std::uint64_t>(piece_bytes, input_record_bytes(header.m)) +
         block_products_bytes(packed_shape(isa, header.m));
}

/// With so many threads that each has what one needs at least.
StreamedRowsPlan plan_for(unsigned num_threads, const MatrixHeader& header, const StreamedRowsLimits& limits) {
  constexpr std::uint64_t kMostBufferBytes = 256u << 10;
  constexpr std::uint64_t kOutputShare = 8;  // of a thread's bytes, for one of two buffers
  constexpr std::uint64_t kPieceShare = 16;
  StreamedRowsPlan plan{.num_threads = num_threads};
  const std::uint64_t of_thread = limits.host_bytes / num_threads;
  plan.piece_bytes = std::min(of_thread / kPieceShare, limits.piece_bytes);
  const std::uint64_t fixed = fixed_bytes(header, plan.piece_bytes, limits.isa);
  const std::uint64_t after_fixed = of_thread - std::min(of_thread, fixed);
  plan.buffer_bytes =
      std::clamp<std::uint64_t>(after_fixed / kOutputShare, output_record_bytes(header.m), kMostBufferBytes);
  const std::uint64_t for_sums = after_fixed - std::min(after_fixed, 2 * plan.buffer_bytes);
  // A mark is a bit, in words.
  const std::uint64_t columns = for_sums * 8 / (8 * sum_bytes(header.m) + 1);
  plan.window_columns = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(columns < 64 ? columns : columns - 64, 1, header.blocks_per_side()));
  return plan;
}

}  // namespace

std::uint32_t num_block_products(const PackedShape& shape) {
  constexpr std::uint64_t kNearBytes = 32u << 10;  // packed blocks of B and their products stay in the nearest cache
  constexpr std::uint64_t kMostProducts = 32;
  const std::uint64_t of_one = shape.b_elements() * sizeof(std::uint16_t) + output_record_bytes(shape.m);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kNearBytes / of_one, 1, kMostProducts));
}

std::uint64_t block_products_bytes(const PackedShape& shape) {
  if (sums_in_tiles(shape.m)) return 0;
  return num_block_products(shape) * (shape.b_elements() * sizeof(std::uint16_t) + output_record_bytes(shape.m)) +
         shape.a_elements() * sizeof(std::uint16_t) + shape.rows * sizeof(std::uint32_t);
}

std::uint64_t least_streamed_bytes(const MatrixHeader& header, const StreamedRowsLimits& limits) {
  return fixed_bytes(header, 0, limits.isa) + 2 * output_record_bytes(header.m) + sum_bytes(header.m) +
         sizeof(std::uint64_t);
}

StreamedRowsPlan plan_streamed_rows(const MatrixHeader& header, const StreamedRowsLimits& limits,
                                    std::uint64_t num_rows) {
  const std::uint64_t nb = header.blocks_per_side();
  const auto num_windows = [&](const StreamedRowsPlan& plan) {
    return (nb + plan.window_columns - 1) / plan.window_columns;
  };
  // Each window reads B anew, which is about half of the work; threads multiply that.
  const auto cost = [&](const StreamedRowsPlan& plan) {
    return static_cast<double>(num_windows(plan) + 1) / plan.num_threads;
  };
  const auto most_threads = static_cast<unsigned>(
      std::clamp<std::uint64_t>(limits.host_bytes / least_streamed_bytes(header, limits), 1, limits.num_threads));
  StreamedRowsPlan best = plan_for(1, header, limits);
  for (unsigned num = 2; num <= most_threads; ++num) {
    const StreamedRowsPlan plan = plan_for(num, header, limits);
    if (cost(plan) <= cost(best)) best = plan;
  }
  constexpr std::uint64_t kMostWindows = 16;
  best.num_windows = num_windows(best);
  best.has_many_windows = best.num_windows > kMostWindows;
  if (best.has_many_windows) return best;  // one thread has all of a row
  const std::uint64_t threads_of_row = std::max<std::uint64_t>(1, best.num_threads / num_rows);
  const std::uint64_t shared = (nb + threads_of_row - 1) / threads_of_row;
  best.window_columns = static_cast<std::uint32_t>(std::min<std::uint64_t>(best.window_columns, shared));
  return best;
}

}  // namespace spmm::plan
