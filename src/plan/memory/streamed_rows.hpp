// Block rows of A that are multiplied while B is read past them: how much each thread may keep.
#pragma once

#include <cstdint>

#include "plan/memory/packed_shape.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

struct StreamedRowsPlan {
  unsigned num_threads = 1;
  std::uint64_t piece_bytes = 0;     ///< of records of A, and of B, that a thread has read
  std::uint64_t buffer_bytes = 0;    ///< of output, two for each thread
  std::uint32_t window_columns = 1;  ///< whose sums a thread keeps
  std::uint64_t num_windows = 1;     ///< of a row; each reads B anew
  bool has_many_windows = false;     ///< memory holds so few of them that most may have no block of a row
};

/// What rows may take.
struct StreamedRowsLimits {
  Isa isa = Isa::portable;
  std::uint64_t host_bytes = 0;
  std::uint64_t piece_bytes = 0;  ///< of one read
  unsigned num_threads = 1;
};

/// Values: num_rows = that are multiplied together; a single one is shared by threads column by column.
StreamedRowsPlan plan_streamed_rows(const MatrixHeader& header, const StreamedRowsLimits& limits,
                                    std::uint64_t num_rows);

/// Bytes with which one thread gets on, a C block at a time.
std::uint64_t least_streamed_bytes(const MatrixHeader& header, const StreamedRowsLimits& limits);

/// Blocks of B whose products with one block of A are computed at a time, and the bytes of those.
std::uint32_t num_block_products(const PackedShape& shape);
std::uint64_t block_products_bytes(const PackedShape& shape);

}  // namespace spmm::plan
