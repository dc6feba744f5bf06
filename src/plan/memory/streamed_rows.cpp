#include "plan/memory/streamed_rows.hpp"

#include <algorithm>

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

std::uint64_t sum_bytes(std::uint32_t m) {
  return std::uint64_t{m} * m * sizeof(std::uint32_t);
}

/// Of a thread, without sums and output: what it has read, and products.
std::uint64_t piece_bytes(const MatrixHeader& header, const StreamedRowsLimits& limits) {
  return 2 * std::max<std::uint64_t>(limits.piece_bytes, input_record_bytes(header.m)) +
         block_products_bytes(packed_shape(limits.isa, header.m));
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
  return piece_bytes(header, limits) + 2 * output_record_bytes(header.m) + sum_bytes(header.m) + sizeof(std::uint64_t);
}

StreamedRowsPlan plan_streamed_rows(const MatrixHeader& header, const StreamedRowsLimits& limits,
                                    std::uint64_t num_rows) {
  constexpr std::uint64_t kMostBufferBytes = 256u << 10;
  constexpr std::uint64_t kOutputShare = 4;  // of the limit
  StreamedRowsPlan plan{.piece_bytes = limits.piece_bytes};
  plan.num_threads = static_cast<unsigned>(
      std::clamp<std::uint64_t>(limits.host_bytes / least_streamed_bytes(header, limits), 1, limits.num_threads));
  const std::uint64_t of_thread = limits.host_bytes / plan.num_threads;
  const std::uint64_t pieces = piece_bytes(header, limits);
  const std::uint64_t after_pieces = of_thread - std::min(of_thread, pieces);
  plan.buffer_bytes =
      std::clamp<std::uint64_t>(after_pieces / kOutputShare / 2, output_record_bytes(header.m), kMostBufferBytes);
  const std::uint64_t for_sums = after_pieces - std::min(after_pieces, 2 * plan.buffer_bytes);
  const std::uint64_t nb = header.blocks_per_side();
  const std::uint64_t threads_of_row = std::max<std::uint64_t>(1, plan.num_threads / num_rows);
  const std::uint64_t shared = (nb + threads_of_row - 1) / threads_of_row;
  // A mark is a bit, in words.
  const std::uint64_t columns = for_sums * 8 / (8 * sum_bytes(header.m) + 1);
  const std::uint64_t whole_words = columns < 64 ? columns : columns - 64;
  plan.window_columns = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(whole_words, 1, shared));
  return plan;
}

}  // namespace spmm::plan
