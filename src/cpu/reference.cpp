#include "cpu/reference.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/record_errors.hpp"
#include "cpu/output_queue.hpp"
#include "cpu/row_merger.hpp"
#include "cpu/stage_progress.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

struct StoredBlock {
  std::uint64_t record = 0;
  std::vector<std::uint16_t> values;  // [m, m]
};
using Row = std::map<std::uint32_t, StoredBlock>;  // by block column
using Rows = std::map<std::uint32_t, Row>;         // by block row
using SumRow = std::map<std::uint32_t, std::vector<std::uint64_t>>;

Rows read_rows(const Source& source, Progress& progress, const Run& run) {
  const auto timing = run.clock.scope(Stage::read);
  const MatrixHeader& header = source.header();
  const std::uint32_t nb = header.blocks_per_side();
  const std::uint64_t record_size = input_record_bytes(header.m);
  std::vector<std::byte> record(record_size);
  Rows rows;
  for (std::uint64_t r = 0; r < header.num_blocks; ++r) {
    run.check_cancelled();
    source.read(r, 1, record.data());
    BlockIndex at;
    std::memcpy(&at, record.data(), kIndexBytes);
    if (at.i >= nb || at.j >= nb) throw_index_out_of_range(source.name(), r, record_size, at, nb);
    const auto [place, is_new] = rows[at.i].try_emplace(at.j);
    if (!is_new)
      throw_duplicate_block(source.name(), source.original_record(place->second.record), source.original_record(r),
                            record_size, at);
    place->second.record = r;
    place->second.values.resize(std::size_t{header.m} * header.m);
    std::memcpy(place->second.values.data(), record.data() + kIndexBytes, record_size - kIndexBytes);
    progress.add(record_size);
  }
  run.clock.add_bytes(Stage::read, header.num_blocks * record_size);
  return rows;
}

/// C[r,c] += sum over t of A[r,t] * B[t,c], exactly.
void add_product(std::vector<std::uint64_t>& sums, const StoredBlock& a, const StoredBlock& b, std::uint32_t m) {
  sums.resize(std::size_t{m} * m, 0);
  for (std::uint32_t r = 0; r < m; ++r)
    for (std::uint32_t c = 0; c < m; ++c)
      for (std::uint32_t t = 0; t < m; ++t) sums[r * m + c] += multiply_exact(a.values[r * m + t], b.values[t * m + c]);
}

/// Saturates and writes the blocks of a row that are not all zero.
void write_row(std::uint32_t i, const SumRow& row, UnitOutput& out) {
  for (const auto& [j, sums] : row) {
    if (std::all_of(sums.begin(), sums.end(), [](std::uint64_t sum) { return sum == 0; })) continue;
    static_cast<void>(out.room());
    std::byte* to = out.position();
    const BlockIndex at{.i = i, .j = j};
    std::memcpy(to, &at, kIndexBytes);
    to += kIndexBytes;
    for (const std::uint64_t sum : sums) {
      const std::uint32_t value = saturate(sum);
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    }
    out.advance_to(to);
  }
}

}  // namespace

ProductStats multiply_reference(const Source& a, const Source& b, Sink& sink, const plan::Execution& execution,
                                const Run& run) {
  const std::uint32_t m = a.header().m;
  const std::uint64_t record = output_record_bytes(m);
  Progress reading(run, Stage::read,
                   input_record_bytes(m) * (std::uint64_t{a.header().num_blocks} + b.header().num_blocks));
  const Rows rows_a = read_rows(a, reading, run);
  const Rows rows_b = read_rows(b, reading, run);

  const auto timing = run.clock.scope(Stage::multiply);
  OutputQueue queue(sink, execution.num_buffers, execution.panel_bytes, record, run);
  Progress progress(run, Stage::multiply, rows_a.size());
  OutputQueue::Job job;
  queue.start(job, [] { return true; });
  UnitOutput out(queue, job, record);
  std::uint64_t pairs = 0;
  for (const auto& [i, row_a] : rows_a) {
    SumRow sums;
    for (const auto& [t, block_a] : row_a) {
      run.check_cancelled();
      const auto row_b = rows_b.find(t);
      if (row_b == rows_b.end()) continue;
      for (const auto& [j, block_b] : row_b->second) add_product(sums[j], block_a, block_b, m);
      pairs += row_b->second.size();
    }
    write_row(i, sums, out);
    progress.add(1);
  }
  queue.finish(job);
  return {
      .num_blocks = queue.num_records(), .pairs = pairs, .num_panels = queue.num_appended(), .device = "one thread"};
}

}  // namespace spmm::cpu
