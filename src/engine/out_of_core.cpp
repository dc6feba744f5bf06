// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/sorted_matrix.hpp"
#include "io/files/scratch_file.hpp"
#include "plan/out_of_core.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

using namespace out_of_core;

constexpr std::uint32_t kRecordsPerCheck = 1u << 20;

io::ScratchFile make_scratch_file(std::span<const std::string> folders, std::uint64_t bytes) {
  std::string why;
  io::ScratchFile file = io::ScratchFile::make(folders, std::max<std::uint64_t>(1, bytes), why);
  if (file.is_open()) return file;
  throw OutOfMemory("the memory limit",
                    text("the operands do not fit, and no scratch file of ", human_bytes(bytes), " can be made: ", why),
                    "raise EngineOptions::memory_limit_bytes, or set TMPDIR to a folder on a disk with that much room");
}

bool is_same_file(const Inputs& inputs) {
  const std::string identity = inputs.a.identity();
  return !identity.empty() && identity == inputs.b.identity();
}

std::uint64_t bytes_of(const MatrixHeader& header) {
  return header.num_blocks * input_record_bytes(header.m);
}

std::string blocks_text(std::uint64_t count) {
  return text(count, count == 1 ? " block" : " blocks");
}

/// Keeps the records of one column slab after the other in a scratch file; once that is full, in the next folder's.
class SlabResults final : public Sink {
 public:
  SlabResults(const io::ScratchFile& file, std::span<const std::string> folders, std::uint32_t m)
      : folders_(folders), record_(output_record_bytes(m)) {
    end_file(file);
  }

  void begin_slab() { parts_.push_back({.file = file_, .begin = end_, .end = end_}); }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override {
    try {
      file_->write_at(end_, records);
    } catch (const io::ScratchFull& full) {
      std::string why;
      io::ScratchFile next = io::ScratchFile::make(folders_, records.size(), why);
      if (!next.is_open()) throw;
      folders_ = {};
      end_file(more_.emplace_back(std::move(next)));
      begin_slab();
      file_->write_at(end_, records);
    }
    end_ += records.size();
    parts_.back().end = end_;
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Interleaves the slabs row by row into `output`; returns when that has released everything. Errors: as Sink;
  /// Interrupted.
  void merge(std::uint64_t memory_bytes, Output& output, const Run& run) const {
    const auto timing = run.clock.scope(Stage::write);
    std::uint64_t num_written = 0;
    merge_parts(parts_, SortedBy::rows, record_, memory_bytes, [&](std::span<const std::byte> records) {
      run.check_cancelled();
      output.write(num_written, records, {});
      output.wait_until_released(run);
      num_written += records.size() / record_;
    });
  }

 private:
  void end_file(const io::ScratchFile& next) {
    file_ = &next;
    end_ = 0;
  }

  std::span<const std::string> folders_;  // that may be tried
  std::uint64_t record_;
  std::deque<io::ScratchFile> more_;
  const io::ScratchFile* file_ = nullptr;
  std::uint64_t end_ = 0;
  std::vector<SortedPart> parts_;
};

/// The block rows of B, from the first to the last that hold blocks, in runs of equally many; and the runs that a range
/// of A meets.
class RowTable {
 public:
  /// Reads the matrix once. Values: sorted by rows, not empty. Memory: most_bytes, 16 at least, and 4 bytes for each of
  /// most_met. Errors: Interrupted.
  RowTable(SortedMatrix& b, std::uint64_t most_bytes, std::uint64_t most_met, const Run& run) : most_met_(most_met) {
    constexpr std::uint64_t kRunBits = 33;
    const std::uint32_t num_records = b.header().num_blocks;
    const std::uint32_t last_row = b.index(num_records - 1).i;
    first_row_ = b.index(0).i;
    const std::uint64_t most_runs = std::max<std::uint64_t>(1, most_bytes * 8 / kRunBits);
    rows_per_run_ = static_cast<std::uint32_t>((last_row - first_row_) / most_runs + 1);
    is_met_.assign((last_row - first_row_) / rows_per_run_ + 1, false);
    first_records_ = AlignedArray<std::uint32_t>(is_met_.size() + 1);
    std::uint64_t next = 0;
    for (std::uint32_t record = 0; record < num_records; ++record) {
      if (record % kRecordsPerCheck == 0) run.check_cancelled();
      const std::uint32_t at = (b.index(record).i - first_row_) / rows_per_run_;
      while (next <= at) first_records_[next++] = record;
    }
    first_records_[is_met_.size()] = num_records;
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return first_records_.size() * sizeof(std::uint32_t) + is_met_.size() / 8;
  }

  /// A new range.
  void restart() {
    for (const std::uint32_t run : met_) is_met_[run] = false;
    met_.clear();
    is_full_ = false;
  }

  /// The range meets a block row. Returns the records of its run if it had not met that before.
  std::uint32_t add(std::uint32_t row) {
    const std::uint32_t run = (row - first_row_) / rows_per_run_;
    if (row < first_row_ || run >= is_met_.size() || is_met_[run] || records_of(run).size() == 0) return 0;
    is_full_ = is_full_ || met_.size() == most_met_;
    if (!is_full_) {
      is_met_[run] = true;
      met_.push_back(run);
    }
    return records_of(run).size();
  }

  /// Whether the range meets more runs than there is memory to list them.
  [[nodiscard]] bool is_full() const { return is_full_; }

  /// The records of all runs that the range meets; neighbours are joined.
  std::vector<RecordRange> met_records() {
    std::sort(met_.begin(), met_.end());
    std::vector<RecordRange> ranges;
    ranges.reserve(met_.size());  // growing would take twice as much
    for (const std::uint32_t run : met_) {
      const RecordRange records = records_of(run);
      if (ranges.empty() || ranges.back().end != records.begin) ranges.push_back(records);
      ranges.back().end = records.end;
    }
    return ranges;
  }

 private:
  [[nodiscard]] RecordRange records_of(std::uint32_t run) const {
    return {.begin = first_records_[run], .end = first_records_[run + 1]};
  }

  std::uint64_t most_met_;
  std::uint32_t first_row_ = 0;
  std::uint32_t rows_per_run_ = 1;
  AlignedArray<std::uint32_t> first_records_;  // [runs + 1]
  std::vector<bool> is_met_;                   // [runs]
  std::vector<std::uint32_t> met_;             // each once
  bool is_full_ = false;
};

/// Whole rows of A that fit with the records of B that they may meet.
struct MetRange {
  RecordRange a{};
  std::uint64_t b_blocks = 0;
  bool fits = true;  ///< false: a single row that does not
};

/// Errors: always OutOfMemory.
[[noreturn]] void throw_row_too_long(const std::string& row, const std::string& problem, const plan::Execution& refused,
                                     std::uint64_t limit_bytes) {
  const std::uint64_t need = plan::limit_for_range(refused);
  throw OutOfMemory(row,
                    text(problem, " need a memory limit of ", human_bytes(need), " (", need, " bytes), the limit is ",
                         human_bytes(limit_bytes)),
                    "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
}

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& output, const MultiplyAtOnce& multiply_at_once, const Run& run,
            std::span<const std::string> scratch_folders, plan::Execution& execution)
      : output_(output),
        multiply_at_once_(multiply_at_once),
        run_(run),
        folders_(scratch_folders),
        execution_(execution),
        limits_(execution.range_limits),
        limit_bytes_(execution.host_limit_bytes),
        piece_bytes_(std::clamp<std::uint64_t>(limit_bytes_ / 64, 4u << 10, 256u << 10)),
        is_square_(is_same_file(inputs)),
        b_offset_(is_square_ ? 0 : bytes_of(inputs.a.header())),
        spare_(make_scratch_file(folders_, std::max(bytes_of(inputs.a.header()), bytes_of(inputs.b.header())))),
        file_(make_scratch_file(folders_, b_offset_ + bytes_of(inputs.b.header()))),
        a_(inputs.a, SortedBy::rows, file_, 0, spare_, limit_bytes_ / 4 * 3, piece_bytes_, run),
        own_b_(is_square_ ? std::nullopt
                          : std::optional<SortedMatrix>(std::in_place, inputs.b, SortedBy::rows, file_, b_offset_,
                                                        spare_, limit_bytes_ / 4 * 3, piece_bytes_, run)),
        b_(own_b_ ? *own_b_ : a_) {
    execution_.scratch_bytes = plan::scratch_bytes(inputs.a.header(), inputs.b.header(), is_square_);
  }

  /// Leaves in the execution what ran.
  ProductStats multiply() {
    std::uint32_t num_ranges = 0;
    if (b_.header().num_blocks != 0 && a_.header().num_blocks != 0) {  // else both are checked, and nothing is left
      check_longest_row();
      for (std::uint32_t first = 0; first < a_.header().num_blocks; ++num_ranges) {
        const MetRange range = next_range(first);
        first = slabs_pay(range) ? multiply_slabs(a_.whole_lines(first, slab_blocks_)) : multiply_rows(range.a);
      }
    }
    if (total_.device.empty() && execution_.backend == Backend::cpu) total_.device = cpu::isa_name(cpu::choose_isa());
    execution_.num_ranges = std::max(2U, num_ranges);
    execution_.num_slabs = most_slabs_;
    return total_;
  }

 private:
  /// For ranges with the rows of B that they meet.
  void make_table() {
    constexpr std::uint64_t kTableShare = 4;  // of the limit, at most
    constexpr std::uint64_t kListShare = 16;
    constexpr std::uint64_t kMetBytes = sizeof(std::uint32_t) + RangesSource::kRangeBytes;
    if (table_) return;
    const auto timing = run_.clock.scope(Stage::count);
    const std::uint64_t lists = limit_bytes_ / kListShare;
    table_.emplace(b_, limit_bytes_ / kTableShare, lists / kMetBytes, run_);
    limits_.host_bytes = limit_bytes_ - std::min(limit_bytes_, table_->bytes() + lists + 3 * piece_bytes_);
  }

  /// Slabs need the memory.
  void drop_table() {
    table_.reset();
    limits_ = execution_.range_limits;
  }

  /// What is decided on a range. Refused if it does not fit.
  [[nodiscard]] plan::Execution decide(std::uint64_t a_blocks, std::uint64_t b_blocks, std::uint32_t a_span) const {
    return plan::decide_range(a_.header(), a_blocks, b_.header(), b_blocks, limits_, a_span);
  }
  /// Whether it fits beside the lists of all threads. Values: as if it had all block rows.
  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks) const {
    return plan::has_all_threads(decide(a_blocks, b_blocks, a_.header().blocks_per_side()), limits_);
  }

  /// As many whole rows of A as fit with what they meet in B, less a few, at least one.
  MetRange next_range(std::uint32_t first) {
    constexpr double kCheckedGrowth = 1.02;  // decisions on every row would take longer than the rest
    MetRange best{.a = {.begin = first, .end = first}};
    MetRange longer = best;
    make_table();
    table_->restart();
    double next_check = 0;
    for (std::uint32_t r = first, row = a_.index(first).i;; ++r) {
      const bool is_at_end = r == a_.header().num_blocks;
      const BlockIndex at = is_at_end ? BlockIndex{} : a_.index(r);
      if (is_at_end || at.i != row) {  // the end of a row
        longer.a.end = r;
        const double blocks = longer.a.size() + static_cast<double>(longer.b_blocks);
        if (blocks >= next_check || is_at_end) {
          run_.check_cancelled();
          longer.fits = !table_->is_full() && fits(longer.a.size(), longer.b_blocks);
          if (!longer.fits) return best.a.size() == 0 ? longer : best;
          best = longer;
          next_check = blocks * kCheckedGrowth;
        }
        if (is_at_end) return best;
        row = at.i;
      }
      longer.b_blocks += table_->add(at.j);
    }
  }

  /// Before anything is computed: the longest of the rows that do not fit with what they meet must fit with the longest
  /// column of B. Errors: OutOfMemory.
  void check_longest_row() {
    const auto timing = run_.clock.scope(Stage::count);
    RecordRange longest;
    for (std::uint32_t first = 0; first < a_.header().num_blocks;) {
      const MetRange range = next_range(first);
      if (!range.fits && range.a.size() > longest.size()) longest = range.a;
      first = range.a.end;
    }
    if (longest.size() == 0) return;
    drop_table();
    sort_columns();
    const plan::Execution one = decide(longest.size(), longest_column_, 1);
    if (!one.is_refused()) return;
    throw_row_too_long(text("block row ", a_.index(longest.begin).i, " of A"),
                       text("its ", blocks_text(longest.size()), " with the longest block column of B, ",
                            blocks_text(longest_column_), ","),
                       one, limit_bytes_);
  }

  /// B once more, by columns, and how long they are.
  void sort_columns() {
    if (columns_) return;
    columns_file_ = make_scratch_file(folders_, bytes_of(b_.header()));
    columns_.emplace(b_, SortedBy::columns, columns_file_, 0, spare_, limits_.host_bytes, piece_bytes_, run_);
    for (RecordRange column; column.end < b_.header().num_blocks;) {
      column = columns_->whole_lines(column.end, 0);
      longest_column_ = std::max(longest_column_, column.size());
    }
  }

  /// Rows of A with those of B that they meet. Returns where the next range begins.
  std::uint32_t multiply_rows(RecordRange rows) {
    table_->restart();  // the search went too far
    for (std::uint32_t r = rows.begin; r < rows.end; ++r) table_->add(a_.index(r).j);
    output_.set_begin(total_.num_blocks);
    multiply_range(rows, RangesSource(b_, table_->met_records()), output_);
    return rows.end;
  }

  /// Seconds to build so many blocks for so many products.
  [[nodiscard]] double seconds(double blocks, double products) const {
    // Measured: evenly spread blocks, m = 1 to 32, limits of 0.8 to 0.1 times both operands, a thread of a Zen 5.
    constexpr double kBlockNs = 12;
    constexpr double kByteNs = 0.75;
    constexpr double kProductNs = 130e3;
    const auto record = static_cast<double>(input_record_bytes(a_.header().m));
    return (blocks * (kBlockNs + record * kByteNs) + products * kProductNs) / 1e9;
  }

  /// Whether this range does not fit, or a block of A takes less time in one of equal shares of A and B, which are
  /// built as often as there are shares, with the results of slabs merged.
  bool slabs_pay(const MetRange& range) {
    constexpr double kMergeBytesPerS = 0.5e9;  // written, read and copied
    const double num_a = a_.header().num_blocks;
    const double num_b = b_.header().num_blocks;
    if (slab_blocks_ == 0) {
      slab_blocks_ = plan::largest_that_fits(static_cast<std::uint64_t>(std::max(num_a, num_b)),
                                             [&](std::uint64_t blocks) { return fits(blocks, blocks); });
      slab_blocks_ = std::max<std::uint64_t>(1, slab_blocks_);
    }
    const double c_blocks = plan::expected_statistics(a_.header(), b_.header()).num_c_blocks;
    const double merge_s = c_blocks * static_cast<double>(output_record_bytes(a_.header().m)) / kMergeBytesPerS;
    const double blocks = std::min(static_cast<double>(slab_blocks_), num_a - range.a.begin);
    const double slabs = std::ceil(num_b / static_cast<double>(slab_blocks_));
    const bool is_faster = seconds(slabs * blocks + num_b, slabs) / blocks + merge_s / num_a <
                           seconds(range.a.size() + static_cast<double>(range.b_blocks), 1) / range.a.size();
    if (range.fits && !is_faster) return false;
    sort_columns();
    while (slab_blocks_ > 1 && !fits(slab_blocks_, longest_column_)) slab_blocks_ /= 2;
    return !range.fits || fits(a_.whole_lines(range.a.begin, slab_blocks_).size(), longest_column_);
  }

  /// Rows of A with one slab of B after the other. Returns where the next range begins.
  std::uint32_t multiply_slabs(RecordRange rows) {
    drop_table();
    const std::uint32_t num_b = b_.header().num_blocks;
    const std::uint64_t most_b = std::max<std::uint64_t>(
        longest_column_,  // fits, perhaps with fewer threads: check_longest_row()
        plan::largest_that_fits(num_b, [&](std::uint64_t blocks) { return fits(rows.size(), blocks); }));
    const bool is_in_order = row_span(rows) == 1 || most_b >= num_b;
    SlabResults results(spare_, folders_, a_.header().m);
    Output kept(results);
    const std::uint64_t num_before = total_.num_blocks;
    std::uint32_t num_slabs = 0;
    for (RecordRange slab; slab.end < num_b; ++num_slabs) {
      slab = columns_->whole_lines(slab.end, most_b);
      results.begin_slab();
      output_.set_begin(total_.num_blocks);
      multiply_range(rows, RangesSource(*columns_, {slab}), is_in_order ? output_ : kept);
    }
    most_slabs_ = std::max(most_slabs_, num_slabs);
    if (is_in_order) return rows.end;
    output_.set_begin(num_before);
    results.merge(limits_.host_bytes, output_, run_);
    return rows.end;
  }

  /// Block rows from the first to the last of a range of A.
  std::uint32_t row_span(RecordRange rows) { return a_.index(rows.end - 1).i - a_.index(rows.begin).i + 1; }

  /// One product.
  void multiply_range(RecordRange rows, const Source& b, Output& output) {
    plan::Execution one = decide(rows.size(), b.header().num_blocks, row_span(rows));
    plan::throw_if_refused(one);
    one.range_limits = limits_;
    const RangesSource a(a_, {rows});
    const ProductStats before = std::exchange(total_, multiply_at_once_({a, b}, output, one));
    output_.wait_until_released(run_);  // buffers of a range are free before those of the next one are allocated
    total_.num_blocks += before.num_blocks;
    check_num_output_blocks(total_.num_blocks);
    total_.pairs += before.pairs;
    total_.num_panels += before.num_panels;
    total_.num_saturated += before.num_saturated;
    total_.peak_device_bytes = std::max(total_.peak_device_bytes, before.peak_device_bytes);
    execution_.id = one.id;
    execution_.kernel = one.kernel;
  }

  Output& output_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  std::span<const std::string> folders_;
  plan::Execution& execution_;
  plan::Limits limits_;  // of a range
  std::uint64_t limit_bytes_;
  std::uint64_t piece_bytes_;
  bool is_square_;  // one file is both operands
  std::uint64_t b_offset_;
  io::ScratchFile spare_;  // parts of an operand while it is sorted, then results of slabs
  io::ScratchFile file_;
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;  // unless one file is both operands
  SortedMatrix& b_;
  std::optional<RowTable> table_;  // between ranges with slabs
  io::ScratchFile columns_file_;
  std::optional<SortedMatrix> columns_;  // B by columns, once slabs are needed
  std::uint32_t longest_column_ = 0;
  std::uint64_t slab_blocks_ = 0;  // of A in a range with slabs, and of B in a slab; 0 = not chosen yet
  std::uint32_t most_slabs_ = 1;
  ProductStats total_;
};

/// The most blocks in a block row or block column (key = BlockIndex::i or j); if there is no memory for a counter of
/// each, of several together. Errors: FormatError, Interrupted.
std::uint32_t longest_line(const Source& source, std::uint32_t BlockIndex::*key, std::uint64_t num_counters,
                           const Run& run) {
  constexpr std::uint64_t kRecordsAtOnce = 4096;
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  std::vector<std::uint32_t> counts(std::clamp<std::uint64_t>(num_counters, 1, header.blocks_per_side()));
  run.parallel_for(header.num_blocks, kRecordsAtOnce, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    std::vector<std::byte> raw((end - begin) * record);
    source.read(begin, end - begin, raw.data());
    for (std::uint64_t r = begin; r < end; ++r) {
      const BlockIndex at = read_index(raw.data() + (r - begin) * record);
      if (std::max(at.i, at.j) >= header.blocks_per_side()) throw_index_out_of_range(source, r, at);
      std::atomic_ref(counts[at.*key % counts.size()]).fetch_add(1, std::memory_order_relaxed);
    }
  });
  return *std::max_element(counts.begin(), counts.end());
}

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output& output, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders,
                                  plan::Execution& execution) {
  try {
    return OutOfCore(inputs, output, multiply_at_once, run, scratch_folders, execution).multiply();
  } catch (const io::ScratchFull& full) {
    throw OutOfMemory("the scratch file", full.why,
                      "free space there, set TMPDIR to a folder on a larger disk, or raise "
                      "EngineOptions::memory_limit_bytes");
  }
}

std::uint64_t safe_limit_bytes(const Inputs& inputs, const plan::Execution& execution, const Run& run) {
  constexpr std::uint64_t kCounterShare = 16;  // of the limit
  const MatrixHeader& a = inputs.a.header();
  const MatrixHeader& b = inputs.b.header();
  if (a.num_blocks == 0 || b.num_blocks == 0) return 0;
  const std::uint64_t num_counters = execution.host_limit_bytes / kCounterShare;
  const std::uint32_t row = longest_line(inputs.a, &BlockIndex::i, num_counters, run);
  const std::uint32_t column = longest_line(inputs.b, &BlockIndex::j, num_counters, run);
  const plan::Execution least = plan::decide_range(a, row, b, 1, execution.range_limits, 1);
  if (least.is_refused() && num_counters >= a.blocks_per_side()) {
    throw_row_too_long("matrix A", text("the longest block row, ", blocks_text(row), ", and one block of B"), least,
                       execution.host_limit_bytes);
  }
  const plan::Execution one = plan::decide_range(a, row, b, column, execution.range_limits, 1);
  return one.is_refused() ? plan::limit_for_range(one) : execution.host_limit_bytes;
}

}  // namespace spmm
