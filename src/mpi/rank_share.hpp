// Which block rows of C a rank computes, and how many blocks they have, from the indices of both operands.
#pragma once

#include <cstdint>
#include <optional>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {

/// An operand as its file has it.
struct PlainOperand {
  const Source& source;
  bool is_transposed = false;  ///< the product multiplies by its transpose
};

struct RankShare {
  RowRange rows{};
  std::optional<std::uint64_t> num_blocks{};  ///< of C with at least one pair; nothing if they were not counted
};

/// Cuts `rows` of C into a range for each rank, of equal pairs and blocks of A, and counts the C blocks of one rank.
/// Reads the indices of both operands once. If they do not fit half of the memory limit, or block rows are many times
/// as many as blocks, ranges have equal blocks of A, and C blocks are not counted. All ranks find the same ranges.
/// Values: rows within the matrix; limit_bytes the same on all ranks. Memory: 12 bytes for each block of A and B, 16
/// for each block row, a bit for each block column and thread; else 8 MB, or a tenth of the limit if that is less.
/// Errors: FormatError (an index out of range), Interrupted, what the sources throw.
RankShare share_of_rank(const PlainOperand& a, const PlainOperand& b, RowRange rows, std::uint32_t rank,
                        std::uint32_t num_ranks, std::uint64_t limit_bytes, const Run& run);

}  // namespace spmm::mpi
