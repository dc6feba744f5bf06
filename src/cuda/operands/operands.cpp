// Uploaded matrices -> rows sorted by radix, their pairs counted, and the layout that a kernel wants.
#include "cuda/operands/operands.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "kernels/blocks/selection.hpp"
#include "kernels/rows/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/need.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

/// What compressing rows tells.
struct Findings {
  unsigned long long first_duplicate = kNone;  // position
  std::uint32_t num_rows = 0;
  std::uint32_t unused = 0;
};

/// Sorts keys with the numbers 0, 1, 2, ... (stable), and makes their index but for the number of its rows, which is
/// written to `findings`, on the device. Shapes: work of build_workspace_bytes().
void sort(SortedRows& rows, std::uint32_t nb, unsigned key_bits, const DeviceBuffer<std::byte>& work_space,
          Findings* findings, DeviceMemory& memory) {
  const cudaStream_t stream = memory.stream().get();
  const kernels::Workspace work{.data = work_space.data(), .bytes = work_space.size()};
  const std::uint64_t count = rows.keys.size();
  {
    rows.numbers = {memory, count, "record numbers"};
    DeviceBuffer<std::uint64_t> other_keys(memory, count, "sort keys");
    DeviceBuffer<std::uint32_t> other_numbers(memory, count, "record numbers");
    kernels::SortBuffers<std::uint64_t> k{{rows.keys.data(), other_keys.data()}};
    kernels::SortBuffers<std::uint32_t> n{{rows.numbers.data(), other_numbers.data()}};
    kernels::launch_sort_blocks(k, n, count, key_bits, work, stream);
    if (k.current != 0) std::swap(rows.keys, other_keys);
    if (n.current != 0) std::swap(rows.numbers, other_numbers);
  }
  rows.index = {{count, nb}, memory};
  kernels::launch_compress_rows(
      {.keys = rows.keys.data(), .count = count, .key_bits = key_bits},
      {.rows = rows.index.rows.data(), .offsets = rows.index.offsets.data(), .columns = rows.index.columns.data()},
      &findings->num_rows, &findings->first_duplicate, work, stream);
}

/// Errors: FormatError for two records of the same block. The sort is stable: the earlier record comes first.
void check_duplicates(const Findings& findings, const SortedRows& sorted, const Source& source, unsigned key_bits,
                      const Stream& stream) {
  const unsigned long long at = findings.first_duplicate;
  if (at == kNone) return;
  const std::uint64_t key = fetch(sorted.keys.data() + at, stream);
  const BlockIndex found{.i = static_cast<std::uint32_t>(key >> key_bits),
                         .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << key_bits) - 1))};
  const auto record = [&](std::uint64_t x) { return fetch(sorted.numbers.data() + x, stream); };
  throw_duplicate_block(source, record(at - 1), record(at), found);
}

/// Block-CSC of B from its block-CSR.
void arrange_by_columns(SortedOperands& operands, DeviceMemory& memory) {
  const Stream& stream = memory.stream();
  SortedRows& b = operands.b;
  const std::uint64_t count = b.keys.size();
  const DeviceBuffer<std::byte> work(memory, kernels::build_workspace_bytes(count), "sort work space");
  kernels::launch_swap_keys(b.keys.data(), count, operands.key_bits, stream.get());
  const Findings nothing{};
  const DeviceBuffer<Findings> found(memory, 1, "flags");
  copy_async(found.data(), &nothing, 1, stream);
  operands.b_rows = std::move(b.index);
  const DeviceBuffer<std::uint32_t> by_rows = std::move(b.numbers);
  sort(b, operands.nb, operands.key_bits, work, found.data(), memory);  // numbers = positions in row order
  b.index.num_rows = fetch(found.data(), stream).num_rows;
  b.keys = {};
  // Column order -> row order -> record.
  const DeviceBuffer<std::uint32_t> positions = std::move(b.numbers);
  b.numbers = {memory, count, "record numbers"};
  kernels::launch_compose(by_rows.data(), positions.data(), count, b.numbers.data(), stream.get());
  std::uint32_t* const columns = operands.b_rows.columns.data();
  kernels::launch_find_row_index(columns, count, b.index.view(), {}, columns, stream.get());
}

constexpr std::size_t kTotalWords = sizeof(kernels::MatchTotals) / sizeof(std::uint64_t);

}  // namespace

void sort_rows(SortedOperands& operands, const Source& a, const Source& b, DeviceMemory& memory) {
  using Both = std::array<Findings, 2>;
  const Stream& stream = memory.stream();
  const Both nothing{};
  const DeviceBuffer<Both> found(memory, 1, "flags");
  copy_async(found.data(), &nothing, 1, stream);
  auto* findings_there = reinterpret_cast<Findings*>(found.data());
  const std::uint64_t most = std::max(operands.a.keys.size(), operands.b.keys.size());
  const DeviceBuffer<std::byte> work(memory, kernels::build_workspace_bytes(most), "sort work space");
  for (SortedRows* const rows : {&operands.a, &operands.b}) {
    sort(*rows, operands.nb, operands.key_bits, work, findings_there++, memory);
  }
  const Both findings = fetch(found.data(), stream);
  for (std::size_t x = 0; x < 2; ++x) {
    SortedRows& rows = x == 0 ? operands.a : operands.b;
    check_duplicates(findings[x], rows, x == 0 ? a : b, operands.key_bits, stream);
    rows.index.num_rows = findings[x].num_rows;
  }
}

void set_row_pairs(SortedOperands& operands, std::uint32_t max_runs, const std::uint64_t* offsets,
                   const kernels::MatchTotals& totals) {
  plan::RowPairs& pairs = operands.row_pairs;
  pairs.num_rows = operands.a.index.num_rows;
  pairs.rows_per_run = kernels::run_stride(pairs.num_rows, max_runs);
  pairs.offsets.assign(offsets, offsets + (pairs.num_rows - 1) / pairs.rows_per_run + 2);
  pairs.max_row_pairs = totals.max_row_pairs;
  pairs.max_row_blocks = totals.max_row_blocks;
  operands.max_row_blocks = static_cast<std::uint32_t>(totals.max_row_blocks);
  operands.c_columns = static_cast<std::uint32_t>(totals.columns_end);
}

void count_block_pairs(SortedOperands& operands, DeviceMemory& memory) {
  const Stream& stream = memory.stream();
  const std::uint64_t count = operands.b_row_index.size();
  if (count == 0 || operands.pair_offsets.size() != 0) return;
  operands.pair_offsets = {memory, count + 1, "pair offsets"};
  const DeviceBuffer<std::byte> work(memory, kernels::count_workspace_bytes(count), "count work space");
  kernels::launch_pair_offsets(operands.b_row_index.data(), count, operands.b_by_row_index(),
                               operands.pair_offsets.data(), {.data = work.data(), .bytes = work.size()}, stream.get());
}

void fetch_row_pairs(SortedOperands& operands, std::uint32_t max_runs, DeviceMemory& memory) {
  const Stream& stream = memory.stream();
  const CompressedRows& a = operands.a.index;
  const std::uint32_t rows_per_run = kernels::run_stride(a.num_rows, max_runs);
  count_block_pairs(operands, memory);
  const std::size_t num_offsets = (a.num_rows - 1) / rows_per_run + std::size_t{2};
  // The totals come behind the offsets: one copy.
  const DeviceBuffer<std::uint64_t> offsets(memory, num_offsets + kTotalWords, "row pair offsets");
  auto* const totals = reinterpret_cast<kernels::MatchTotals*>(offsets.data() + num_offsets);
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream.get()), "totals of rows");
  kernels::launch_count_runs({.a = a.view(),
                              .b = operands.b.index.view(),
                              .pair_offsets = operands.pair_offsets.data(),
                              .max_runs = max_runs,
                              .totals = totals,
                              .run_offsets = offsets.data()},
                             stream.get());
  const std::vector<std::uint64_t> counted = fetch_all(offsets.data(), offsets.size(), stream);
  kernels::MatchTotals found;
  std::memcpy(static_cast<void*>(&found), counted.data() + num_offsets, sizeof found);
  set_row_pairs(operands, max_runs, counted.data(), found);
}

void count_pairs(SortedOperands& operands, DeviceMemory& memory) {
  const CompressedRows& a = operands.a.index;
  const std::uint64_t count = a.columns.size();
  if (count == 0 || operands.b.index.num_rows == 0) {
    operands.row_pairs.max_row_pairs = 0;
    return;
  }
  operands.b_row_index = {memory, count, "row index"};
  {
    const std::uint32_t in_table = plan::has_device_row_table(count, operands.nb) ? operands.nb : 0;
    const DeviceBuffer<std::uint32_t> table(memory, in_table, "row table");
    kernels::launch_find_row_index(a.columns.data(), count, operands.b.index.view(), {table.data(), table.size()},
                                   operands.b_row_index.data(), memory.stream().get());
  }
  fetch_row_pairs(operands, kMaxCountedRuns, memory);
}

void cut_to_triangle(SortedOperands& operands, DeviceMemory& memory) {
  const std::uint64_t count = operands.b_row_index.size();
  if (count == 0) return;
  if (count >= std::uint64_t{1} << 31) {
    throw UsageError("Selection::upper_triangle", text("matrix A has ", count, " blocks, a GPU takes less than 2^31"),
                     "use ProductOptions::backend = cpu, or some ProductOptions::rows at a time");
  }
  operands.b_parts = {memory, 2 * count, "parts of rows"};
  kernels::launch_cut_to_triangle(operands.a.index.view(), count, operands.b.index.view(), operands.b_row_index.data(),
                                  operands.b_parts.data(), memory.stream().get());
  operands.pair_offsets = {};
  fetch_row_pairs(operands, kMaxCountedRuns, memory);
}

void gather(const DeviceBuffer<std::uint16_t>& values, const DeviceBuffer<std::uint32_t>& numbers,
            kernels::BlockShape shape, const DeviceBuffer<std::uint16_t>& out, const Stream& stream) {
  kernels::launch_gather_blocks({.values = values.data(), .count = numbers.size()}, numbers.data(), shape, out.data(),
                                stream.get());
}

void arrange_operands(SortedOperands& operands, plan::Layout layout, DeviceMemory& memory) {
  operands.b_by_columns = layout == plan::Layout::b_by_columns;
  operands.in_file_order = layout == plan::Layout::rows_file_order;
  operands.side = layout == plan::Layout::rows ? kernels::padded_side(operands.m) : operands.m;
  if (operands.c_columns == 0) operands.c_columns = operands.nb;
  operands.max_element = std::max(operands.a.max_element, operands.b.max_element);
  operands.can_be_zero = operands.a.has_zeros || operands.b.has_zeros;
  if (operands.b_by_columns) arrange_by_columns(operands, memory);
  for (SortedRows* const rows : {&operands.a, &operands.b}) {
    rows->keys = {};
    if (operands.in_file_order) continue;
    const bool is_by_columns = operands.b_by_columns && rows == &operands.b;
    const std::uint64_t count = rows->index.columns.size();
    const std::uint64_t room = std::max<std::uint64_t>(count, kernels::kUnitBlocks);
    if (!rows->in_order || is_by_columns || operands.side != operands.m || operands.keeps_order || count < room) {
      DeviceBuffer<std::uint16_t> values(memory, room * operands.side * operands.side, "operand");
      if (count < room) {
        check(cudaMemsetAsync(values.data(), 0, values.size() * sizeof(std::uint16_t), memory.stream().get()), "clear");
      }
      gather(rows->values, rows->numbers, operands.shape(), values, memory.stream());
      rows->values = std::move(values);
    }
    if (!operands.keeps_order) rows->numbers = {};
  }
}

}  // namespace spmm::cuda
