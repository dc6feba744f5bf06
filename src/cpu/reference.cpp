#include "cpu/reference.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/read_records.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

struct StoredBlock {
  BlockIndex at;
  std::uint32_t record;
};
static_assert(sizeof(StoredBlock) == kStoredBlockBytes);

/// A matrix as it was read, and the order of its blocks.
struct StoredMatrix {
  std::uint32_t m = 0;
  AlignedArray<std::byte> records;
  AlignedArray<StoredBlock> blocks;  // [num_blocks] ascending by row, column

  [[nodiscard]] std::uint16_t element(const StoredBlock& block, std::uint32_t row, std::uint32_t col) const {
    std::uint16_t value = 0;
    const std::uint64_t at = kIndexBytes + (row * m + col) * sizeof value;
    std::memcpy(&value, records.data() + block.record * input_record_bytes(m) + at, sizeof value);
    return value;
  }

  /// The stored blocks of a block row.
  [[nodiscard]] std::span<const StoredBlock> row(std::uint32_t i) const {
    const auto before = [](const StoredBlock& block, std::uint32_t value) { return block.at.i < value; };
    const auto behind = [](std::uint32_t value, const StoredBlock& block) { return value < block.at.i; };
    const StoredBlock* first = std::lower_bound(blocks.begin(), blocks.end(), i, before);
    const StoredBlock* last = std::upper_bound(first, static_cast<const StoredBlock*>(blocks.end()), i, behind);
    return {first, last};
  }
};

using SumRow = std::map<std::uint32_t, std::vector<std::uint64_t>>;  // exact C blocks of one row by column

StoredMatrix read_matrix(const Source& source, Progress& progress, const Run& run) {
  const MatrixHeader& header = source.header();
  const std::uint32_t nb = header.blocks_per_side();
  const std::uint64_t record = input_record_bytes(header.m);
  StoredMatrix matrix{.m = header.m,
                      .records = read_records(source, progress, run),
                      .blocks = AlignedArray<StoredBlock>(header.num_blocks)};
  for (std::uint32_t r = 0; r < header.num_blocks; ++r) {
    run.check_cancelled();
    const BlockIndex at = read_index(matrix.records.data() + r * record);
    if (at.i >= nb || at.j >= nb) throw_index_out_of_range(source, r, at);
    matrix.blocks[r] = {.at = at, .record = r};
  }
  std::sort(matrix.blocks.begin(), matrix.blocks.end(), [&](const StoredBlock& x, const StoredBlock& y) {
    run.check_cancelled();
    return x.at != y.at ? x.at < y.at : x.record < y.record;
  });
  for (std::uint64_t x = 1; x < matrix.blocks.size(); ++x) {
    run.check_cancelled();
    const StoredBlock& block = matrix.blocks[x];
    const StoredBlock& last = matrix.blocks[x - 1];
    if (block.at != last.at) continue;
    throw_duplicate_block(source, last.record, block.record, block.at);
  }
  return matrix;
}

/// C[r,c] += sum over t of A[r,t] * B[t,c], exactly. Shapes: sums [m, m].
void add_product(const StoredMatrix& a, const StoredBlock& block_a, const StoredMatrix& b, const StoredBlock& block_b,
                 std::vector<std::uint64_t>& sums) {
  const std::uint32_t m = a.m;
  sums.resize(std::size_t{m} * m, 0);
  for (std::uint32_t r = 0; r < m; ++r)
    for (std::uint32_t c = 0; c < m; ++c)
      for (std::uint32_t t = 0; t < m; ++t)
        sums[r * m + c] += multiply_exact(a.element(block_a, r, t), b.element(block_b, t, c));
}

/// Saturates and writes the blocks of a row that are not all zero.
void write_row(std::uint32_t i, const SumRow& row, RecordWriter& out) {
  for (const auto& [j, sums] : row) {
    if (std::all_of(sums.begin(), sums.end(), [](std::uint64_t sum) { return sum == 0; })) continue;
    static_cast<void>(out.room());
    std::byte* to = out.position();
    write_index(to, {.i = i, .j = j});
    to += kIndexBytes;
    for (const std::uint64_t sum : sums) {
      const std::uint32_t value = saturate(sum);
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    }
    out.advance_to(to);
  }
}

/// Computes and writes one block row of C; returns its number of pairs. Shapes: row_a = a block row of A, not empty.
std::uint64_t multiply_row(const StoredMatrix& a, std::span<const StoredBlock> row_a, const StoredMatrix& b,
                           const Run& run, RecordWriter& out) {
  SumRow sums;
  std::uint64_t pairs = 0;
  for (const StoredBlock& block_a : row_a) {
    run.check_cancelled();
    const std::span<const StoredBlock> row_b = b.row(block_a.at.j);
    for (const StoredBlock& block_b : row_b) {
      run.check_cancelled();
      if (run.selection.upper_triangle && block_b.at.j < block_a.at.i) continue;
      ++pairs;
      add_product(a, block_a, b, block_b, sums[block_b.at.j]);
    }
  }
  write_row(row_a.front().at.i, sums, out);
  out.end_row();
  return pairs;
}

}  // namespace

ProductStats multiply_reference(const Source& source_a, const Source& source_b, Output& output,
                                const plan::Choice& choice, const Run& run) {
  const std::uint32_t m = source_a.header().m;
  const std::uint64_t record = output_record_bytes(m);
  Progress reading(
      run, Stage::read,
      input_record_bytes(m) * (std::uint64_t{source_a.header().num_blocks} + source_b.header().num_blocks));
  const StoredMatrix a = read_matrix(source_a, reading, run);
  const StoredMatrix b = read_matrix(source_b, reading, run);

  const auto timing = run.clock.scope(Stage::multiply);
  OutputQueue queue(output, choice.num_buffers, choice.panel_bytes, record, run);
  Progress progress(run, Stage::multiply, a.blocks.size());
  RecordWriter out(queue);
  out.set_selection(run.selection, m);
  out.start([] { return true; });
  std::uint64_t pairs = 0;
  for (std::uint64_t x = 0; x < a.blocks.size();) {
    const std::span<const StoredBlock> row = a.row(a.blocks[x].at.i);
    pairs += multiply_row(a, row, b, run, out);
    x += row.size();
    progress.add(row.size());
  }
  out.finish();
  check_num_output_blocks(queue.num_records());  // sinks that keep a header ask earlier
  return {.num_blocks = queue.num_records(),
          .pairs = pairs,
          .num_panels = queue.num_appended(),
          .num_saturated = queue.num_saturated(),
          .num_dropped = queue.num_dropped(),
          .device = "one thread"};
}

}  // namespace spmm::cpu
