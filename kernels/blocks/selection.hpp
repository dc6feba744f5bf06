// The door to selections: the pairs of a triangle, and the elements of a panel that are kept. Declarations without CUDA
// syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/views.hpp"
#include "spmm/selection.hpp"

namespace spmm::kernels {

/// Leaves each block of A those blocks of its row of B whose columns are not below its own row: block p has row 2p of
/// an index with these offsets from then on, or kNoRow where nothing is left.
/// Shapes: b_row_index [count]; offsets [2 * count]: begin and end for each block of A; device. Values: count < 2^31.
void launch_cut_to_triangle(const CompressedView& a, std::uint64_t count, const CompressedView& b,
                            std::uint32_t* b_row_index, std::uint32_t* offsets, cudaStream_t stream);

/// Packed records of whole rows of C, sorted.
struct PanelRecords {
  std::uint32_t* records = nullptr;            // [max_records, 2 + m * m], device; elements become zero
  const std::uint32_t* num_records = nullptr;  // [1], device
  std::uint64_t max_records = 0;
  const std::uint32_t* rows = nullptr;  // [num_rows], device: block rows, in which all records lie
  std::uint32_t num_rows = 0;
  std::uint32_t m = 0;
};

/// States of look-back that launch_write_kept needs. Values: m = block side.
std::uint64_t num_kept_states(std::uint64_t max_records, std::uint32_t m);

/// Writes the records that have an element that is kept; others of their elements are zero.
/// Shapes: num_dropped [1], device: raised by elements that are not zero and not kept, those below the triangle aside.
/// out.look_back [num_kept_states()].
void launch_write_kept(const PanelRecords& panel, const Selection& selection, unsigned long long* num_dropped,
                       const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
