// The door to small-blocks: block-sparse products with m up to kMaxSmallSide. Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// Shared memory for sums of a CTA on the current device.
std::uint32_t small_region_bytes();

std::size_t small_tasks_workspace_bytes(std::uint32_t max_rows, std::uint64_t max_tasks);

/// Records of one task of small-blocks.
struct TaskRecords {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Where tasks write that run in any order.
struct SmallArrivals {
  std::uint32_t* records = nullptr;  // [C blocks of the panel at most, 2 + m * m], device; null = tasks run in order
  std::uint32_t* num_records = nullptr;  // [1], device
  TaskRecords* tasks = nullptr;          // [max_tasks + 1], device
  std::uint32_t* places = nullptr;       // [max_tasks + 1], device: records before each task in result order
};

/// A short row's task: a run of hashed rows, up to the next task's row. Others: one chunk of a row.
struct SmallTask {
  std::uint32_t row = 0;    // row index
  std::uint32_t chunk = 0;  // of a ranked or dense row
};

/// Scratch of launch_mul_small_blocks; tasks = max_small_tasks of the panel.
struct SmallBlocksScratch {
  std::uint64_t max_tasks = 0;
  SmallTask* tasks = nullptr;             // [max_tasks + 1], device; RecordOutput.look_back has [max_tasks + 1] too
  std::uint32_t* task_offsets = nullptr;  // [rows of the panel + 1], device
  ColumnSpan* spans = nullptr;            // [rows of the panel], device
  std::uint32_t* splits = nullptr;        // [rows of B, dense chunks + 1], device; null = CTAs search
  SmallArrivals arrivals;
  Workspace work;
};

/// Row by row with sums in shared memory, by a warp or by CTAs; writes records. All columns of the panel
/// (c_blocks.keys null). Values: max_row_pairs = no row of the panel has more.
void launch_mul_small_blocks(const RowProduct& product, const CBlocksView& c_blocks, std::uint64_t max_row_pairs,
                             const SmallBlocksScratch& scratch, const RecordOutput& out, cudaStream_t stream);

// ---- sorted_rows.cu

/// The same product if sorts_rows(): warps sort the pairs of each row.
/// Shapes: out.look_back [2 + rows / sorted_rows_at_once()]; records packed or in arrays. Values: all columns; no row
/// has more than max_row_pairs pairs and max_row_blocks blocks of A.
void launch_mul_sorted_rows(const RowProduct& product, const CBlocksView& c_blocks, std::uint64_t max_row_pairs,
                            std::uint32_t max_row_blocks, const RecordOutput& out, cudaStream_t stream);

// ---- planned.cu: small blocks whose pattern is known, so that each pair of blocks knows its place in C

/// 32-bit sums of a CTA: rows with fewer share one up to the first number, rows with more than the second have several.
/// Source: of 2,048 to 12,288 words on an H200 the fastest for m = 1 to 3 with long and short rows, graphs and
/// stencils; for m = 4 fewer chunks read fewer blocks of A.
inline constexpr std::uint32_t kPlannedTaskWords = 4096;
constexpr std::uint32_t planned_row_words(std::uint32_t m) {
  return m < 4 ? 6144 : 12'288;
}

/// A row of A and its C blocks. Rows with more C blocks than a CTA sums are cut into chunks of their columns; each
/// chunk and each block of A in the row make a slot: slots of a row lie chunk by chunk.
struct alignas(16) PlannedRow {
  std::uint32_t first_slot = 0;
  std::uint32_t first_block = 0;   // C blocks before the row
  std::uint32_t base = 0;          // C blocks before the task of the row's first chunk
  std::uint32_t chunk_blocks = 0;  // C blocks of a chunk; 0: the row has one chunk
};

/// What one CTA sums: rows, or a chunk of a row.
struct alignas(8) PlannedTask {
  std::uint32_t first_pair = 0;
  std::uint32_t first_block = 0;  // of C
};

/// Pairs of a block of A with blocks of B that follow each other.
struct alignas(8) PlannedSegment {
  std::uint32_t a = 0;        // block of the caller
  std::uint32_t b_shift = 0;  // block of B = b_shift + pair, modulo 2^32
};

/// 32 pairs. The segment of pair p is first + (starts up to and with bit p), modulo 2^32.
struct alignas(8) PlannedWord {
  std::uint32_t first = 0;
  std::uint32_t starts = 0;  // a bit for each pair that opens a segment
};

/// The pattern of both operands and of C.
struct PlannedPattern {
  RowProduct product;                    // a.numbers: blocks of the caller
  const std::uint32_t* heads = nullptr;  // [num_blocks, 2], device: block row and column of C
  std::uint32_t num_blocks = 0;
  const PlannedRow* rows = nullptr;  // [rows of A + 1], device; launch_planned_rows has none
  std::uint32_t num_slots = 0;
};

/// first_blocks[i] = C blocks before row i of A; the last one: all. Shapes: first_blocks [rows of A + 1], device.
void launch_planned_rows(const PlannedPattern& pattern, std::uint32_t* first_blocks, cudaStream_t stream);

/// sums[s] = segments << 32 | pairs before slot s; the last one: all.
/// Shapes: counts [num_slots], scratch, sums [num_slots + 1], device; work of planned_sums_workspace_bytes().
std::size_t planned_sums_workspace_bytes(std::uint32_t num_slots);
void launch_planned_sums(const PlannedPattern& pattern, std::uint32_t* counts, std::uint64_t* sums, Workspace work,
                         cudaStream_t stream);

/// What a plan keeps of its pairs, in the order of slots. All device.
struct PlannedPairs {
  PlannedWord* words = nullptr;        // [num_pairs / 32 + 1]
  std::uint16_t* places = nullptr;     // [num_pairs]: C block within the task
  PlannedSegment* segments = nullptr;  // [segments]
  PlannedTask* tasks = nullptr;        // [num_tasks + 1]
  std::uint32_t num_tasks = 0;
  std::uint32_t task_blocks = 0;  // of a task, at most
};

/// Writes all of `to`, whose tasks name their first slots instead of pairs.
/// Values: words are zero.
void launch_planned_pairs(const PlannedPattern& pattern, const std::uint64_t* sums, const PlannedPairs& to,
                          cudaStream_t stream);

/// Values of one product. Layout: B transposed within the block.
struct PlannedValues {
  const std::uint16_t* a = nullptr;  // [nnzb of A, m, m], device, order of the caller
  const std::uint16_t* b = nullptr;  // [nnzb of B, m, m], device, by rows
  std::uint32_t* c = nullptr;        // [C blocks, m, m], device
  std::uint32_t m = 0;
  std::uint64_t max_row_blocks = 0;        // of A
  const std::uint32_t* largest = nullptr;  // [1], device: element of a and b
};

/// C = A * B, saturated. Two kernels are launched, one for elements so small that no sum leaves 32 bits; the device
/// runs one of them.
void launch_mul_planned_pairs(const PlannedPairs& pairs, const PlannedValues& values, cudaStream_t stream);

}  // namespace spmm::kernels
