// Gustavson for small blocks (m = 1 to 4), sums of a row in shared memory in one of three ways, by the row's pairs: a
// hash table of one warp; a bitmap of the columns that have pairs, and sums by their rank in it; sums of all columns.
#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/resident.hpp"
#include "kernels/small/chunks.cuh"
#include "kernels/small/hash.cuh"

namespace spmm::kernels {
namespace {

/// One row in a hash table; returns its number of records.
/// Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ std::uint32_t hash_row(const SmallLaunch& launch, const SmallChunk& chunk, const SmallTable<M>& table,
                                  SmallSegment* segments) {
  const CompressedView& a = launch.product.a.index;
  const std::uint32_t lane = threadIdx.x % 32;
  table.clear();
  const std::uint32_t end = a.offsets[chunk.row + 1];
#pragma unroll 1
  for (std::uint32_t first = a.offsets[chunk.row]; first < end; first += 32) {
    SmallSegment segment{};
    if (lane < end - first) segment = segment_of(launch, chunk, first + lane);
    const SmallList list = list_of_warp(segment, segments);  // also: the table is clear
    walk_tiles<M>(list, 0, list.num_tiles(), launch.product.b, true,
                  [&](std::uint32_t column, std::uint32_t a, const SmallBlock<M>& b) {
                    const SmallBlock<M> a_block = block_of_a<M>(launch, a);
                    if (!is_small_product<M>(a_block, b)) return;
                    table.sums.template add<Fits>(table.slot_of(column), a_block, b);
                  });
  }
  __syncwarp();  // all products are added
  const std::uint32_t count = table.template compact<Fits>();
  __syncwarp();  // entries are at the front
  sort_entries(table.columns, table.payload, count);
  return count;
}

/// Writes the records of a hashed row. Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void write_hashed_row(const SmallTable<M>& table, std::uint32_t count, std::uint32_t block_row,
                                 const RecordWords<std::uint32_t>& to) {
  constexpr std::uint32_t kRecordWords = 2 + M * M;
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x % 32; x < count * kRecordWords; x += 32) {
    const std::uint32_t record = x / kRecordWords;
    const std::uint32_t o = x % kRecordWords;
    std::uint32_t value = block_row;
    if (o == 1) value = table.columns[record];
    if (o >= 2) {
      value = table.payload[record];
      if constexpr (M > 1) value = table.sums.template value<Fits>(value, o - 2);
    }
    to.at(record, o) = value;
  }
}

/// Slots of the hash table of a row, by its pairs: a smaller table is cleared and searched faster.
__device__ inline std::uint32_t slots_of_row(const SmallLaunch& launch, std::uint32_t row) {
  const auto pairs = static_cast<std::uint32_t>(launch.product.pairs_of_row(row));  // of a hashed row: few
  return min(launch.shape.hash_slots, (pairs + pairs / 4 + 31) / 32 * 32);
}

/// Rows [first, end), a warp takes rows_per_warp of them one after the other.
template <std::uint32_t M>
__device__ void multiply_hashed(const SmallLaunch& launch, std::uint32_t first, std::uint32_t end,
                                std::uint32_t* region, SmallLists& lists) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t table_words = small_table_words(launch.shape.hash_slots, M);
  const std::uint32_t per_warp = launch.shape.rows_per_warp;
  std::uint32_t* const memory = region + launch.region_words / SmallLists::kWarps * warp;
  const std::uint32_t num_rows = end - first;
  SmallChunk chunk{.row = first,
                   .first_column = launch.c_blocks.column_begin,
                   .num_columns = launch.c_blocks.num_columns,
                   .is_whole = launch.c_blocks.num_columns == launch.product.num_columns,
                   .number = kNoRow};
#pragma unroll 1
  for (std::uint32_t t = 0; t < per_warp; ++t) {
    const std::uint32_t x = warp * per_warp + t;
    if (x >= num_rows) break;
    chunk.row = first + x;
    const SmallTable<M> table(memory + table_words * t, slots_of_row(launch, chunk.row));
    SmallSegment* const segments = lists.segments + warp * 32;
    const std::uint32_t count = table.slots == 0 ? 0  // no pairs
                                : launch.product.row_fits(chunk.row)
                                    ? hash_row<M, true>(launch, chunk, table, segments)
                                    : hash_row<M, false>(launch, chunk, table, segments);
    if (threadIdx.x % 32 == 0) lists.counts[x] = count;
  }
  const std::uint32_t own = warp * per_warp;
  __syncwarp();  // counts of the warp's rows are written
  std::uint32_t count =
      own + threadIdx.x % 32 < min(num_rows, own + per_warp) ? lists.counts[own + threadIdx.x % 32] : 0;
  find_task_offset(launch, lists, num_rows);
#pragma unroll 1
  for (std::uint32_t t = 0; t < per_warp && own + t < num_rows; ++t) {
    const std::uint32_t of_row = __shfl_sync(~0u, count, t);
    const std::uint32_t row = first + own + t;
    const SmallTable<M> table(memory + table_words * t, slots_of_row(launch, row));
    const auto to = task_records<M>(launch, std::uint64_t{lists.first} + lists.counts[own + t]);
    if (launch.product.row_fits(row)) {
      write_hashed_row<M, true>(table, of_row, launch.out.rows[row], to);
    } else {
      write_hashed_row<M, false>(table, of_row, launch.out.rows[row], to);
    }
  }
}

/// One chunk of a row that CTAs share.
template <std::uint32_t M, bool Fits>
__device__ void multiply_chunk(const SmallLaunch& launch, const SmallTask& task, bool is_dense, std::uint32_t* region,
                               SmallLists& lists) {
  const SmallShape& shape = launch.shape;
  const std::uint32_t width = is_dense ? shape.dense_columns : shape.rank_columns;
  const std::uint32_t skipped = task.chunk * width;
  ColumnSpan span{.first = launch.c_blocks.column_begin, .count = launch.c_blocks.num_columns};
  if (!is_dense) span = launch.scratch.spans[task.row - launch.c_blocks.row_begin];
  const SmallChunk chunk{.row = task.row,
                         .first_column = span.first + skipped,
                         .num_columns = min(width, span.count - skipped),
                         .is_whole = launch.c_blocks.num_columns == launch.product.num_columns && width >= span.count,
                         .number = is_dense && launch.splits.offsets != nullptr ? task.chunk : kNoRow};
  if (is_dense) {
    multiply_dense<M, Fits>(launch, chunk, region, lists);
  } else {
    multiply_ranked<M, Fits>(launch, chunk, region, lists);
  }
}

// Grid: as many CTAs as fit the device; each takes one task after the other, in result order.
// Work: a task is a run of short rows, a warp per row with a hash table, or a chunk of a long row, whose pairs all
//       warps share; a lane multiplies a pair. Records are written at the end of each task.
// Memory: neighbouring lanes read neighbouring blocks of B's row; sums are in shared memory, at random banks.
template <std::uint32_t M>
__global__ void __launch_bounds__(SmallLists::kThreads, 2) mul_small_blocks(SmallLaunch launch) {
  extern __shared__ __align__(16) std::uint32_t region[];
  __shared__ SmallLists lists;
  const std::uint32_t num_tasks = *launch.num_tasks();
  if (num_tasks == 0 && blockIdx.x == 0 && threadIdx.x == 0) *launch.out.num_blocks = 0;
  while (true) {
    if (threadIdx.x == 0) lists.ticket = take_cta_number(launch.out);
    __syncthreads();  // the ticket is drawn
    const std::uint32_t ticket = lists.ticket;
    if (ticket >= num_tasks) return;
    const SmallTask task = launch.scratch.tasks[ticket];
    const SmallRow kind = launch.kind_of(task.row);
    if (kind == SmallRow::hashed) {
      multiply_hashed<M>(launch, task.row, launch.scratch.tasks[ticket + 1].row, region, lists);
    } else if (launch.product.row_fits(task.row)) {
      multiply_chunk<M, true>(launch, task, kind == SmallRow::dense, region, lists);
    } else {
      multiply_chunk<M, false>(launch, task, kind == SmallRow::dense, region, lists);
    }
    __syncthreads();  // shared memory may be used again
  }
}

template <std::uint32_t M>
void launch(const SmallLaunch& what, cudaStream_t stream) {
  const std::uint32_t shared_bytes = what.region_words * 4;
  const std::uint32_t grid = resident_ctas(mul_small_blocks<M>, SmallLists::kThreads, shared_bytes);
  mul_small_blocks<M><<<grid, SmallLists::kThreads, shared_bytes, stream>>>(what);
}

}  // namespace

void launch_mul_small_blocks(const RowProduct& product, const CBlocksView& c_blocks, std::uint64_t max_row_pairs,
                             const SmallBlocksScratch& scratch, const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    launch_no_records(out, stream);
    return;
  }
  const SmallShape shape = small_shape(product.m, c_blocks.num_columns, small_region_bytes(), max_row_pairs);
  const SmallLaunch what{.product = product,
                         .c_blocks = c_blocks,
                         .shape = shape,
                         .splits = {.column_begin = c_blocks.column_begin,
                                    .num_columns = c_blocks.num_columns,
                                    .width = shape.dense_columns,
                                    .num_chunks = shape.dense_chunks,
                                    .offsets = max_row_pairs > shape.rank_pairs ? scratch.splits : nullptr},
                         .scratch = scratch,
                         .out = out,
                         .region_words = small_region_bytes() / 4};
  launch_split_rows(product.b.index, what.splits, out.look_back, scratch.max_tasks + 1, stream);
  launch_small_tasks(what, max_row_pairs, stream);
  if (scratch.arrivals.records != nullptr) {
    check(cudaMemsetAsync(scratch.arrivals.tasks, 0, (scratch.max_tasks + 1) * sizeof(TaskRecords), stream),
          "clear task records");
    check(cudaMemsetAsync(scratch.arrivals.num_records, 0, sizeof(std::uint32_t), stream), "clear count");
  }
  for_block_side<1, 2, 3, 4>(product.m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if constexpr (kM != 0) launch<kM>(what, stream);
  });
  check_launch("mul_small_blocks");
  if (scratch.arrivals.records != nullptr) launch_order_tasks(what, stream);
}

}  // namespace spmm::kernels
