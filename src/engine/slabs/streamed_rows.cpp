// Rows of C summed in memory while B is read row by row.
#include "engine/slabs/streamed_rows.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/records/head.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/block_products.hpp"
#include "cpu/simd/isa.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::slabs {
namespace {

/// Columns of C whose sums are kept at a time.
struct Window {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// One thread: sums of a window of one row of C at a time.
class RowSums {
 public:
  RowSums(const StreamedOperands& operands, const plan::StreamedRowsPlan& plan, const Run& run)
      : operands_(operands),
        run_(run),
        m_(operands.a.header().m),
        record_bytes_(input_record_bytes(m_)),
        num_piece_(std::max<std::uint64_t>(1, plan.piece_bytes / record_bytes_)),
        of_a_(num_piece_ * record_bytes_),
        of_b_(num_piece_ * record_bytes_),
        sums_(std::uint64_t{plan.window_columns} * m_ * m_),
        marks_(plan.window_columns / 64 + std::uint64_t{1}),
        products_(m_) {
    std::fill(sums_.begin(), sums_.end(), 0);
    std::fill(marks_.begin(), marks_.end(), 0);
  }

  /// Returns the pairs of the whole row.
  std::uint64_t multiply(RecordRange row, Window window, cpu::RowUnitOutput& out) {
    window_ = window;
    next_column_ = std::numeric_limits<std::uint64_t>::max();
    num_pairs_ = 0;
    if (row.begin == row.end) return 0;  // an empty matrix
    for (std::uint64_t first = row.begin; first < row.end; first += num_piece_) {
      const std::uint64_t count = std::min(num_piece_, row.end - first);
      operands_.a.read(first, count, of_a_.data());
      add_elements(of_a_.data(), of_a_.data() + count * record_bytes_);
    }
    write(read_index(of_a_.data()).i, out);
    return num_pairs_;
  }

  /// Of the row's C blocks behind the last window, the first column; nb or more if there are none.
  [[nodiscard]] std::uint64_t next_column() const { return next_column_; }

 private:
  /// Blocks of the row, a range of records of B after the other: groups that hardly leave a gap are read at once.
  void add_elements(const std::byte* a, const std::byte* end) {
    constexpr std::uint64_t kGapBytes = 1024;
    const std::uint64_t gap = kGapBytes / record_bytes_;
    while (a != end) {
      run_.check_cancelled();
      RecordRange range = operands_.groups.records_of(read_index(a).j);
      const std::byte* next = a + record_bytes_;
      for (; next != end; next += record_bytes_) {
        const RecordRange more = operands_.groups.records_of(read_index(next).j);
        if (more.begin > range.end + gap) break;
        range.end = more.end;
      }
      add_range(range, a, next);
      a = next;
    }
  }

  void add_range(RecordRange range, const std::byte* a, const std::byte* end) {
    for (std::uint64_t first = range.begin; first < range.end; first += num_piece_) {
      const std::uint64_t count = std::min<std::uint64_t>(num_piece_, range.end - first);
      operands_.b.read(first, count, of_b_.data());
      add_piece(count, a, end);
    }
  }

  /// Both ascend by the block rows of B; those that the row of A has no block for are passed over.
  void add_piece(std::uint64_t count, const std::byte*& a, const std::byte* end) {
    const std::uint64_t record = record_bytes_;
    const std::byte* b = of_b_.data();
    for (const std::byte* const b_end = b + count * record; b != b_end;) {
      const std::uint32_t row = read_index(b).i;
      while (a != end && read_index(a).j < row) a += record;
      if (a == end) return;
      const bool is_met = read_index(a).j == row;
      const std::byte* first = b;
      while (b != b_end && read_index(b).i == row) b += record;
      if (is_met) add_run(a, first, b);
    }
  }

  /// A block of A and records of one row of B, of which those in the window are used.
  void add_run(const std::byte* a, const std::byte* b, const std::byte* end) {
    const std::uint64_t record = record_bytes_;
    num_pairs_ += static_cast<std::uint64_t>(end - b) / record;
    while (b != end && read_index(b).j < window_.begin) b += record;
    const std::byte* const run_end = end;
    while (b != end && read_index(end - record).j >= window_.end) end -= record;
    if (end != run_end) next_column_ = std::min<std::uint64_t>(next_column_, read_index(end).j);
    std::uint64_t* const marks = marks_.data();
    for (const std::byte* x = b; x != end; x += record) {
      const std::uint32_t col = read_index(x).j - window_.begin;
      marks[col / 64] |= std::uint64_t{1} << col % 64;
    }
    products_.add(a, b, static_cast<std::uint64_t>(end - b) / record, window_.begin, sums_.data());
  }

  /// Writes the blocks that are not zero and clears the sums.
  void write(std::uint32_t row, cpu::RowUnitOutput& out) {
    const std::uint64_t elements = std::uint64_t{m_} * m_;
    const std::uint32_t num_words = (window_.end - window_.begin + 63) / 64;
    for (std::uint32_t word = 0; word < num_words; ++word) {
      for (std::uint64_t left = std::exchange(marks_[word], 0); left != 0; left &= left - 1) {
        const std::uint32_t col = word * 64 + static_cast<unsigned>(std::countr_zero(left));
        std::uint32_t* const sums = sums_.data() + col * elements;
        write_block({.i = row, .j = window_.begin + col}, {sums, elements}, out);
        std::fill_n(sums, elements, 0);
      }
    }
  }

  static void write_block(BlockIndex at, std::span<const std::uint32_t> sums, cpu::RowUnitOutput& out) {
    const std::uint32_t most = *std::max_element(sums.begin(), sums.end());
    if (most == 0) return;
    static_cast<void>(out.room());
    std::byte* const to = out.position();
    write_index(to, at);
    std::memcpy(to + kIndexBytes, sums.data(), sums.size_bytes());
    out.set_may_saturate(most == kMaxVal);
    out.advance_to(to + kIndexBytes + sums.size_bytes());
  }

  const StreamedOperands& operands_;
  const Run& run_;
  std::uint32_t m_;
  std::uint64_t record_bytes_;
  std::uint64_t num_piece_;  // records of a read
  AlignedArray<std::byte> of_a_;
  AlignedArray<std::byte> of_b_;
  AlignedArray<std::uint32_t> sums_;   // [window columns, m, m]; zero between windows
  AlignedArray<std::uint64_t> marks_;  // a bit for each column that was added to
  cpu::BlockProducts products_;
  Window window_;
  std::uint64_t next_column_ = 0;
  std::uint64_t num_pairs_ = 0;
};

/// What a thread takes at once: rows with little output, a window of one row, or one row with all of its windows.
struct Unit {
  std::span<const StreamedRow> rows;
  Window window;
  bool has_all_windows = false;
};

/// Memory: none. Threads: one at a time.
class Units {
 public:
  Units(std::span<const StreamedRow> rows, const MatrixHeader& header, const plan::StreamedRowsPlan& plan)
      : left_(rows),
        num_columns_(header.blocks_per_side()),
        window_columns_(plan.window_columns),
        records_(plan.buffer_bytes / output_record_bytes(header.m)),
        has_many_windows_(plan.has_many_windows) {}

  /// False at the end.
  bool next(Unit& unit) {
    if (left_.empty()) return false;
    const std::uint32_t end = begin_ + std::min(num_columns_ - begin_, window_columns_);
    std::size_t num_rows = 1;
    std::uint64_t pairs = left_.front().pairs;
    while (begin_ == 0 && end == num_columns_ && num_rows < left_.size()) {
      pairs += left_[num_rows].pairs;
      if (pairs > records_) break;
      ++num_rows;
    }
    unit = {
        .rows = left_.first(num_rows), .window = {.begin = begin_, .end = end}, .has_all_windows = has_many_windows_};
    begin_ = end == num_columns_ || has_many_windows_ ? 0 : end;
    if (begin_ == 0) left_ = left_.subspan(num_rows);
    return true;
  }

 private:
  std::span<const StreamedRow> left_;
  std::uint32_t begin_ = 0;  // of the next window
  std::uint32_t num_columns_;
  std::uint32_t window_columns_;
  std::uint64_t records_;  // of a buffer
  bool has_many_windows_;
};

}  // namespace

ProductStats multiply_streamed_rows(const StreamedOperands& operands, std::span<const StreamedRow> rows,
                                    const plan::StreamedRowsPlan& plan, Sink& sink, const Run& run) {
  const auto around = run.clock.frame(Stage::multiply);
  Run decided = run;
  decided.num_threads = plan.num_threads;
  const MatrixHeader& header = operands.a.header();
  const std::uint64_t record = output_record_bytes(header.m);
  cpu::OutputQueue queue(sink, 2 * std::uint64_t{plan.num_threads}, plan.buffer_bytes, record, decided);
  Units units(rows, header, plan);
  std::atomic<std::uint64_t> num_pairs = 0;
  queue.run([&] {
    RowSums sums(operands, plan, run);
    cpu::OutputQueue::Job job;
    Unit unit;
    while (queue.start(job, [&] { return units.next(unit); })) {
      {
        auto piece = run.clock.worker_scope(Stage::multiply, {.panel = job.number});
        cpu::RowUnitOutput out(queue, job, record);
        std::uint64_t pairs = 0;
        for (const StreamedRow& row : unit.rows) pairs += sums.multiply(row.records, unit.window, out);
        while (unit.has_all_windows && sums.next_column() < header.blocks_per_side()) {
          const auto begin = static_cast<std::uint32_t>(sums.next_column());
          const std::uint32_t columns = std::min(header.blocks_per_side() - begin, plan.window_columns);
          sums.multiply(unit.rows.front().records, {.begin = begin, .end = begin + columns}, out);
        }
        if (unit.window.begin == 0) num_pairs += piece.work().pairs = pairs;
        piece.work().bytes = job.total_bytes();
      }
      queue.finish(job);
    }
  });
  queue.wait_until_released();
  return {.num_blocks = queue.num_records(),
          .pairs = num_pairs,
          .num_panels = queue.num_appended(),
          .num_saturated = queue.num_saturated(),
          .device = std::string(cpu::isa_name(cpu::choose_isa()))};
}

}  // namespace spmm::slabs
