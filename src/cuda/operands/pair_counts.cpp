// Pairs of blocks and of rows, once both operands are sorted.
#include <cstring>
#include <vector>

#include "cuda/operands/operands.hpp"
#include "kernels/blocks/launch.hpp"
#include "plan/memory/device_bytes.hpp"

namespace spmm::cuda {

namespace {

constexpr std::size_t kTotalWords = sizeof(kernels::MatchTotals) / sizeof(std::uint64_t);

/// Looks up the row of B for each block of A.
void find_b_rows(SortedOperands& sorted, DeviceMemory& memory, const Stream& stream) {
  const CompressedRows& a = sorted.a.index;
  const std::uint64_t count = a.columns.size();
  const kernels::CompressedView b_rows = sorted.b.index.view();
  if (plan::has_device_row_table(count, sorted.nb)) {
    const DeviceBuffer<std::uint32_t> table(memory, sorted.nb, "row table");
    kernels::launch_look_up_row_index(a.columns.data(), count, b_rows, sorted.nb, table.data(),
                                      sorted.b_row_index.data(), stream.get());
  } else {
    kernels::launch_find_row_index(a.columns.data(), count, b_rows, sorted.b_row_index.data(), stream.get());
  }
}

}  // namespace

void set_row_pairs(SortedOperands& sorted, std::uint32_t max_runs, const std::uint64_t* offsets,
                   const kernels::MatchTotals& totals) {
  plan::RowPairs& pairs = sorted.row_pairs;
  pairs.num_rows = sorted.a.index.num_rows;
  pairs.rows_per_run = kernels::run_stride(pairs.num_rows, max_runs);
  pairs.offsets.assign(offsets, offsets + (pairs.num_rows - 1) / pairs.rows_per_run + 2);
  pairs.max_row_pairs = totals.max_row_pairs;
  pairs.max_row_blocks = totals.max_row_blocks;
  sorted.c_columns = static_cast<std::uint32_t>(totals.columns_end);
}

void count_block_pairs(SortedOperands& sorted, DeviceMemory& memory, const Stream& stream) {
  const std::uint64_t count = sorted.b_row_index.size();
  if (count == 0 || sorted.pair_offsets.size() != 0) return;
  sorted.pair_offsets = {memory, count + 1, "pair offsets"};
  const DeviceBuffer<std::byte> work(memory, kernels::count_workspace_bytes(count), "count work space");
  kernels::launch_pair_offsets(sorted.b_row_index.data(), count, sorted.b.index.view(), sorted.pair_offsets.data(),
                               {.data = work.data(), .bytes = work.size()}, stream.get());
}

void fetch_row_pairs(SortedOperands& sorted, std::uint32_t max_runs, DeviceMemory& memory, const Stream& stream) {
  const CompressedRows& a = sorted.a.index;
  const std::uint32_t rows_per_run = kernels::run_stride(a.num_rows, max_runs);
  count_block_pairs(sorted, memory, stream);
  const std::size_t num_offsets = (a.num_rows - 1) / rows_per_run + std::size_t{2};
  // The totals come behind the offsets: one copy.
  const DeviceBuffer<std::uint64_t> offsets(memory, num_offsets + kTotalWords, "row pair offsets");
  auto* const totals = reinterpret_cast<kernels::MatchTotals*>(offsets.data() + num_offsets);
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream.get()), "totals of rows");
  kernels::launch_count_runs({.a = a.view(),
                              .b = sorted.b.index.view(),
                              .pair_offsets = sorted.pair_offsets.data(),
                              .max_runs = max_runs,
                              .totals = totals,
                              .run_offsets = offsets.data(),
                              .work = {}},
                             stream.get());
  const std::vector<std::uint64_t> counted = fetch_all(offsets.data(), offsets.size(), stream);
  kernels::MatchTotals found;
  std::memcpy(static_cast<void*>(&found), counted.data() + num_offsets, sizeof found);
  set_row_pairs(sorted, max_runs, counted.data(), found);
}

void count_pairs(SortedOperands& sorted, DeviceMemory& memory, const Stream& stream) {
  const CompressedRows& a = sorted.a.index;
  const std::uint64_t count = a.columns.size();
  if (count == 0 || sorted.b.index.num_rows == 0) {
    sorted.row_pairs.max_row_pairs = 0;
    return;
  }
  sorted.b_row_index = {memory, count, "row index"};
  find_b_rows(sorted, memory, stream);
  fetch_row_pairs(sorted, kMaxCountedRuns, memory, stream);
}

}  // namespace spmm::cuda
