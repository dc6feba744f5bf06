// Both operands in memory, sorted, packed, linked and counted: where every threaded kernel starts.
#pragma once

#include <cstdint>

#include "base/aligned_array.hpp"
#include "base/run.hpp"
#include "cpu/isa.hpp"
#include "cpu/operand.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

struct Prepared {
  PackedShape shape;
  Operand a;  ///< columns replaced by link_rows
  Operand b;
  AlignedArray<std::uint64_t> row_pairs;  ///< [a.num_rows()]
  std::uint64_t num_pairs = 0;
  std::uint32_t blocks_per_side = 0;
};

/// Reads and builds both operands. Errors: FormatError, Interrupted, what the sources throw.
Prepared prepare(const Source& a, const Source& b, const PackedShape& shape, const Run& run);

/// Host buffers at the peak of prepare(), with operands packed for the instruction set that needs most.
std::uint64_t preparing_bytes(const MatrixHeader& a, const MatrixHeader& b);

/// Host buffers of what it returns.
std::uint64_t prepared_bytes(const MatrixHeader& a, const MatrixHeader& b);

/// Bytes of one output buffer: the plan's, in whole records, at least one.
std::uint64_t output_buffer_bytes(const Plan& plan, std::uint32_t m);

}  // namespace spmm::cpu
