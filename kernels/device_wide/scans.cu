// Scans and selections by the whole device, and scans by a CTA.
// One copy of each scan, by 64-bit numbers of items.
#define THRUST_FORCE_64_BIT_OFFSET_TYPE

#include <type_traits>

#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>
#include <thrust/system_error.h>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_select.cuh>

#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/pairs/pair_products.cuh"
#include "kernels/ranked/pieces.cuh"
#include "kernels/small/tasks.cuh"

namespace spmm::kernels {
namespace {

template <class Result, class Function, class Index>
Index index_of(Result (Function::*)(Index) const);

/// function(0), function(1), ...
template <class Function>
auto values_of(const Function& function) {
  using Index = decltype(index_of(&Function::operator()));
  return thrust::make_transform_iterator(thrust::counting_iterator<Index>(0), function);
}

// Grid: one CTA.
// Work: borders from counts, kScanThreads * kScanItems at a time.
// Memory: contiguous, 16 bytes of counts and 32 of borders per thread.
__global__ void __launch_bounds__(kScanThreads) scan_counts(StoredRow counts, std::uint64_t* borders) {
  using Scan = cub::BlockScan<std::uint64_t, kScanThreads>;
  __shared__ typename Scan::TempStorage scratch;
  std::uint64_t before = 0;
  for (std::uint64_t begin = 0; begin <= counts.count; begin += kScanThreads * kScanItems) {
    const std::uint64_t first = begin + threadIdx.x * kScanItems;
    std::uint64_t items[kScanItems];
#pragma unroll
    for (std::uint32_t x = 0; x < kScanItems; ++x) items[x] = counts(first + x);
    std::uint64_t all = 0;
    Scan(scratch).ExclusiveSum(items, items, all);
#pragma unroll
    for (std::uint32_t x = 0; x < kScanItems; ++x) {
      if (first + x <= counts.count) borders[first + x] = before + items[x];
    }
    before += all;
    __syncthreads();  // scratch is used again
  }
}

constexpr std::uint32_t kTotalThreads = 1024;

/// Threads: all of the CTA; the answer is known to thread 0.
__device__ inline unsigned long long cta_max(unsigned long long value) {
  __shared__ unsigned long long of_warp[kTotalThreads / 32];
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();  // the largest of each warp is known
  for (std::uint32_t w = 0; threadIdx.x == 0 && w < kTotalThreads / 32; ++w) value = max(value, of_warp[w]);
  __syncthreads();  // of_warp may be written again
  return value;
}

// Grid: two CTAs.
// Work: the first one adds up the pairs of A's rows, the second one looks for the last column of B and the longest row
//       of A.
// Memory: contiguous, but for a word per row of B.
__global__ void __launch_bounds__(kTotalThreads) total_row_pairs(RowMatch match) {
  constexpr std::uint32_t kItems = 4;
  using Scan = cub::BlockScan<std::uint64_t, kTotalThreads>;
  __shared__ typename Scan::TempStorage scratch;
  if (!is_sound(match)) return;
  const std::uint32_t a_rows = match.a_found->num_rows;
  unsigned long long most = 0;
  if (blockIdx.x == 1) {
    const std::uint32_t b_rows = match.b_found->num_rows;
#pragma unroll 4
    for (std::uint32_t row = threadIdx.x; row < b_rows; row += kTotalThreads) {
      most = max(most, match.b.columns[match.b.offsets[row + 1] - 1] + 1ull);  // every row holds a block
    }
    most = cta_max(most);
    if (threadIdx.x == 0) match.totals->columns_end = most;
    most = 0;
#pragma unroll 4
    for (std::uint32_t row = threadIdx.x; row < a_rows; row += kTotalThreads) {
      most = max(most, blocks_of_row(match.a, row));
    }
    most = cta_max(most);
    if (threadIdx.x == 0) match.totals->max_row_blocks = most;
    return;
  }
  std::uint64_t before = 0;
  for (std::uint32_t begin = 0; begin <= a_rows; begin += kTotalThreads * kItems) {
    const std::uint32_t first = begin + threadIdx.x * kItems;
    std::uint64_t items[kItems];
#pragma unroll
    for (std::uint32_t x = 0; x < kItems; ++x) {
      items[x] = first + x < a_rows ? match.row_pairs[first + x] : 0;
      most = max(most, static_cast<unsigned long long>(items[x]));
    }
    std::uint64_t all = 0;
    Scan(scratch).ExclusiveSum(items, items, all);
#pragma unroll
    for (std::uint32_t x = 0; x < kItems; ++x) {
      if (first + x <= a_rows) match.run_offsets[first + x] = before + items[x];
    }
    before += all;
    __syncthreads();  // scratch is used again
  }
  most = cta_max(most);
  if (threadIdx.x == 0) match.totals->max_row_pairs = most;
}

}  // namespace

void launch_scan_counts(const StoredRow& counts, std::uint64_t* borders, cudaStream_t stream) {
  scan_counts<<<1, kScanThreads, 0, stream>>>(counts, borders);
  check_launch("scan_counts");
}

void launch_total_row_pairs(const RowMatch& match, cudaStream_t stream) {
  total_row_pairs<<<2, kTotalThreads, 0, stream>>>(match);
  check_launch("total_row_pairs");
}

/// The memory of one scan. Without memory: what Thrust asks for, which is all that it tells of it.
struct ScanAllocator {
  using value_type = char;
  struct NoMemory {};

  Workspace work;
  std::size_t* asked_bytes;

  char* allocate(std::ptrdiff_t bytes) const {
    *asked_bytes = static_cast<std::size_t>(bytes);
    if (*asked_bytes > work.bytes) throw NoMemory{};
    return static_cast<char*>(work.data);
  }
  void deallocate(char*, std::size_t) const {}
};

/// Errors: as check(); NoMemory if the allocator has too little, before anything is launched.
template <class Terms, class Sum>
void scan(const Terms& terms, std::uint64_t count, Sum* sums, ScanAllocator allocator, cudaStream_t stream,
          const char* what) {
  const auto first = values_of(terms);
  try {
    thrust::exclusive_scan(thrust::cuda::par_nosync(allocator).on(stream), first,
                           first + static_cast<std::int64_t>(count), sums, Sum{0});
  } catch (const thrust::system_error& error) {
    check(static_cast<cudaError_t>(error.code().value()), what);
  }
}

template <class Terms, class Sum>
std::size_t scan_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  try {
    scan(Terms{}, count, static_cast<Sum*>(nullptr), {.work = {}, .asked_bytes = &bytes}, nullptr, "scan workspace");
  } catch (const ScanAllocator::NoMemory&) {
  }
  return bytes;
}

template <class Terms, class Sum>
void launch_scan(const Terms& terms, std::uint64_t count, Sum* sums, Workspace work, cudaStream_t stream,
                 const char* what) {
  std::size_t bytes = 0;
  scan(terms, count, sums, {.work = work, .asked_bytes = &bytes}, stream, what);
}

// Rows of a sort; C blocks that are not zero; pairs of blocks and of rows; tasks of small-blocks and their records;
// pieces of row-rank, windows.
template std::size_t scan_workspace_bytes<StoredRow, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<NonZeroBlock, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PairsOfBlock, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PairsOfRow, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<TasksOfRow, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<CountOfTask, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PiecesOfRow, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<CountsOfPiece, std::uint64_t>(std::uint64_t);
template void launch_scan(const StoredRow&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const NonZeroBlock&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PairsOfBlock&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PairsOfRow&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const TasksOfRow&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const CountOfTask&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PiecesOfRow&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const CountsOfPiece&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);

template <class Flags>
std::size_t select_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceSelect::Flagged(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(Flags{}),
                                   static_cast<std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                   static_cast<std::int64_t>(count)),
        "select workspace");
  return bytes;
}

template <class Flags>
void launch_select(const Flags& flags, std::uint64_t count, Selected selected, Workspace work, cudaStream_t stream,
                   const char* what) {
  check(cub::DeviceSelect::Flagged(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(flags),
                                   selected.numbers, selected.count, static_cast<std::int64_t>(count), stream),
        what);
}

// Rows, and C blocks of pairs.
template std::size_t select_workspace_bytes<OpensRow>(std::uint64_t);
template std::size_t select_workspace_bytes<OpensCBlock>(std::uint64_t);
template void launch_select(const OpensRow&, std::uint64_t, Selected, Workspace, cudaStream_t, const char*);
template void launch_select(const OpensCBlock&, std::uint64_t, Selected, Workspace, cudaStream_t, const char*);

// Long lists of pairs.
template <>
std::size_t select_workspace_bytes<HasManyPairs>(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceSelect::If(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0),
                              static_cast<std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                              static_cast<std::int64_t>(count), HasManyPairs{}),
        "select workspace");
  return bytes;
}

template <>
void launch_select(const HasManyPairs& has_many, std::uint64_t count, Selected selected, Workspace work,
                   cudaStream_t stream, const char* what) {
  check(cub::DeviceSelect::If(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0), selected.numbers,
                              selected.count, static_cast<std::int64_t>(count), has_many, stream),
        what);
}

std::size_t unique_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceSelect::Unique(nullptr, bytes, static_cast<std::uint64_t*>(nullptr),
                                  static_cast<std::uint64_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                  static_cast<std::int64_t>(count)),
        "unique workspace");
  return bytes;
}

void launch_unique(std::uint64_t* keys, std::uint64_t count, std::uint64_t* unique, std::uint32_t* num_unique,
                   Workspace work, cudaStream_t stream) {
  check(cub::DeviceSelect::Unique(work.data, work.bytes, keys, unique, num_unique, static_cast<std::int64_t>(count),
                                  stream),
        "unique");
}

}  // namespace spmm::kernels
