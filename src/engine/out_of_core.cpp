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
#include "base/records/head.hpp"
#include "base/records/selector.hpp"
#include "base/text.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/sorted_matrix.hpp"
#include "io/files/scratch_file.hpp"
#include "plan/choice.hpp"
#include "plan/out_of_core.hpp"
#include "plan/times.hpp"
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
    first_to_last_ = {.begin = 0xFFFF'FFFFu, .end = 0};
  }

  /// The range meets a block row once more. Returns the records of its run if it had not met that before; adds the
  /// blocks of the row, those of its run in equal shares, to num_pairs.
  std::uint32_t add(std::uint32_t row, double& num_pairs) {
    const std::uint32_t run = (row - first_row_) / rows_per_run_;
    if (row < first_row_ || run >= is_met_.size() || records_of(run).size() == 0) return 0;
    num_pairs += static_cast<double>(records_of(run).size()) / rows_per_run_;
    if (is_met_[run]) return 0;
    first_to_last_ = {.begin = std::min(first_to_last_.begin, records_of(run).begin),
                      .end = std::max(first_to_last_.end, records_of(run).end)};
    is_full_ = is_full_ || met_.size() == most_met_;
    if (!is_full_) {
      is_met_[run] = true;
      met_.push_back(run);
    }
    return records_of(run).size();
  }

  /// Whether the range meets more runs than there is memory to list them.
  [[nodiscard]] bool is_full() const { return is_full_; }

  /// From the first record that the range meets to the last one.
  [[nodiscard]] RecordRange from_first_to_last() const { return first_to_last_; }

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
  RecordRange first_to_last_;
};

/// Keeps the results of parts of a range in a scratch file until they are added up.
class PartialResults final : public Sink {
 public:
  PartialResults(const io::ScratchFile& file, std::uint32_t m, std::uint64_t memory_bytes)
      : file_(file), record_(output_record_bytes(m)), memory_bytes_(memory_bytes) {}

  /// What comes next are the results of another part. As many as can be merged at once become one.
  void begin_part() {
    constexpr std::uint64_t kShare = 4;  // of the memory, for a record of each
    if (parts_.size() >= std::max<std::uint64_t>(2, memory_bytes_ / kShare / record_)) {
      const std::vector<SortedPart> full = std::exchange(parts_, {{.file = &file_, .begin = end_, .end = end_}});
      merge_parts(full, true, record_, memory_bytes_, [&](std::span<const std::byte> records) { append(records); });
    }
    parts_.push_back({.file = &file_, .begin = end_, .end = end_});
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override { append(records); }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Calls take(records) for the sums of all parts, in order, and forgets them. Errors: IoError, what take() throws.
  void add_up(const std::function<void(std::span<const std::byte> records)>& take) {
    merge_parts(std::exchange(parts_, {}), true, record_, memory_bytes_, take);
    end_ = 0;
  }

 private:
  void append(std::span<const std::byte> records) {
    file_.write_at(end_, records);
    end_ += records.size();
    parts_.back().end = end_;
  }

  const io::ScratchFile& file_;
  std::uint64_t record_;
  std::uint64_t memory_bytes_;
  std::uint64_t end_ = 0;
  std::vector<SortedPart> parts_;
};

/// Records of A, and what they meet in B.
struct Range {
  RecordRange a{};
  std::uint32_t num_rows = 0;
  std::uint64_t b_blocks = 0;
  double num_pairs = 0;  ///< exact if B's table has a run for each row
  bool fits = true;      ///< with all that it meets
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output* output, const MultiplyAtOnce& multiply_at_once, const Run& run,
            std::span<const std::string> folders, plan::Choice& choice)
      : inputs_(inputs),
        output_(output),
        multiply_at_once_(multiply_at_once),
        run_(run),
        choice_(choice),
        limits_(choice.limits),
        piece_bytes_(std::clamp<std::uint64_t>(choice.host_limit_bytes / 64, 4u << 10, 256u << 10)),
        is_square_(is_same_file(inputs)),
        kept_bytes_(output != nullptr ? input_record_bytes(inputs.m()) : kIndexBytes),
        spare_(make_scratch_file(folders, std::max(a_header().num_blocks, b_header().num_blocks) * kept_bytes_)),
        file_(make_scratch_file(folders, (b_offset() + b_header().num_blocks) * kept_bytes_)),
        a_(sorted(inputs.a, 0)),
        own_b_(is_square_ ? std::nullopt : std::optional<SortedMatrix>(sorted(inputs.b, b_offset() * kept_bytes_))),
        b_(own_b_ ? *own_b_ : a_) {
    choice_.scratch_bytes = plan::scratch_bytes(a_header(), b_header(), is_square_);
  }

  /// Leaves in the choice what ran.
  ProductStats multiply() {
    choice_.num_ranges = 0;
    choice_.num_slabs = 1;
    if (a_header().num_blocks != 0 && b_header().num_blocks != 0) {  // else both are checked, and nothing is left
      {
        const auto timing = run_.clock.scope(Stage::count);
        make_table();
        choose_slabs();
      }
      partial_.emplace(spare_, inputs_.m(), limits_.host_bytes);
      for (std::uint32_t first = 0; first < a_header().num_blocks; ++choice_.num_ranges) first = multiply_next(first);
    }
    if (total_.device.empty() && choice_.backend == Backend::cpu) total_.device = cpu::isa_name(cpu::choose_isa());
    choice_.num_ranges = std::max(2U, choice_.num_ranges);
    if (output_ == nullptr) {
      const plan::Counts all = plan::expected_counts(a_header(), b_header());
      choice_.predicted_s = plan::sort_seconds(all, limits_) + plan::start_seconds(choice_, limits_) + seconds_;
    }
    return total_;
  }

 private:
  [[nodiscard]] const MatrixHeader& a_header() const { return inputs_.a.header(); }
  [[nodiscard]] const MatrixHeader& b_header() const { return inputs_.b.header(); }
  [[nodiscard]] std::uint64_t b_offset() const { return is_square_ ? 0 : a_header().num_blocks; }

  [[nodiscard]] SortedMatrix sorted(const Source& source, std::uint64_t offset) const {
    return {source, kept_bytes_, file_, offset, spare_, choice_.host_limit_bytes / 4 * 3, piece_bytes_, run_};
  }

  void make_table() {
    constexpr std::uint64_t kTableShare = 4;  // of the limit, at most
    constexpr std::uint64_t kListShare = 16;
    constexpr std::uint64_t kMetBytes = sizeof(std::uint32_t) + RangesSource::kRangeBytes;
    const std::uint64_t limit = choice_.host_limit_bytes;
    table_.emplace(b_, limit / kTableShare, limit / kListShare / kMetBytes, run_);
    limits_.host_bytes -= std::min(limits_.host_bytes, table_->bytes());
  }

  /// What is expected of a range. Values: a_span = of its block rows.
  [[nodiscard]] plan::Counts statistics_of(std::uint64_t a_blocks, std::uint64_t b_blocks,
                                           std::uint32_t a_span = plan::kAnySpan) const {
    plan::Counts s = plan::expected_counts(plan::with_blocks(a_header(), static_cast<double>(a_blocks)),
                                           plan::with_blocks(b_header(), static_cast<double>(b_blocks)));
    s.a_span = a_span;
    return s;
  }
  /// Whether it fits beside the lists of all threads.
  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks) const {
    const plan::Choice e = plan::decide_at_once(statistics_of(a_blocks, b_blocks), limits_);
    return !e.is_refused() && (e.backend == Backend::cuda || e.num_threads >= limits_.num_threads);
  }

  /// Equal slabs of B of up to three quarters of what fits, and as much of A as fits with one.
  void choose_slabs() {
    const std::uint64_t num_b = b_header().num_blocks;
    const std::uint64_t most = plan::largest_that_fits(
        num_b, [&](std::uint64_t blocks) { return fits(plan::least_a_blocks(a_header(), blocks), blocks); });
    const std::uint64_t num_slabs = (num_b - 1) / std::max<std::uint64_t>(1, most) + 1;
    slab_b_ = (num_b - 1) / num_slabs + 1;
    slab_a_ =
        plan::largest_that_fits(a_header().num_blocks, [&](std::uint64_t blocks) { return fits(blocks, slab_b_); });
  }

  /// As many rows, the first of which may have begun before, as fit with what they meet in B, less a few, or one that
  /// does not.
  Range longest_range(std::uint32_t first) {
    constexpr double kCheckedGrowth = 1.02;  // decisions on every row would take longer than the rest
    const auto timing = run_.clock.scope(Stage::count);
    const std::uint32_t num_a = a_header().num_blocks;
    Range best{.a = {.begin = first, .end = first}};
    Range longer = best;
    table_->restart();
    double next_check = 0;
    for (std::uint32_t r = first; r < num_a;) {
      const BlockIndex at = a_.index(r);
      longer.b_blocks += table_->add(at.j, longer.num_pairs);
      longer.a.end = ++r;
      if (r < num_a && a_.index(r).i == at.i) continue;
      longer.num_rows += 1;
      const double blocks = longer.a.size() + static_cast<double>(longer.b_blocks);
      if (blocks < next_check && r < num_a) continue;
      run_.check_cancelled();
      longer.fits = !table_->is_full() && fits(longer.a.size(), longer.b_blocks);
      if (!longer.fits) return best.a.size() == 0 ? longer : best;
      best = longer;
      next_check = blocks * kCheckedGrowth;
    }
    return best;
  }

  /// Multiplies a range: rows with what they meet, or, if that does not fit or takes longer, as much of A as fits with
  /// a slab of B, which may be a part of a row, with one slab after the other. Returns where the next range begins.
  std::uint32_t multiply_next(std::uint32_t first) {
    const std::uint32_t num_a = a_header().num_blocks;
    Range range = longest_range(first);
    const Range with_slabs = share_of(range, a_.rows_or_part(first, slab_a_));
    const auto ends_row = [&](const Range& one) {
      return one.a.end == num_a || a_.index(one.a.end).i != a_.index(one.a.end - 1).i;
    };
    const bool in_slabs = !range.fits || (range.a.end != num_a && ends_row(with_slabs) && slabs_pay(with_slabs, range));
    if (in_slabs) range = with_slabs;
    table_->restart();
    double num_pairs = 0;
    for (std::uint32_t r = range.a.begin; r < range.a.end; ++r) table_->add(a_.index(r).j, num_pairs);
    if (!in_slabs) {
      multiply_part(range, table_->met_records(), num_parts_ == 0);
    } else {
      const RecordRange b = table_->from_first_to_last();
      num_pairs = range.num_pairs;
      for (std::uint64_t begin = b.begin; begin < b.end; begin += slab_b_) {
        const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(b.end, begin + slab_b_));
        range.b_blocks = end - begin;
        range.num_pairs = num_pairs * static_cast<double>(range.b_blocks) / b.size();
        multiply_part(range, {{.begin = static_cast<std::uint32_t>(begin), .end = end}}, false);
      }
    }
    if (num_parts_ != 0 && ends_row(range)) add_up();
    return range.a.end;
  }

  /// These records meet what as many of a range meet.
  [[nodiscard]] static Range share_of(const Range& range, RecordRange a) {
    const double share = static_cast<double>(a.size()) / range.a.size();
    return {.a = a,
            .num_rows = static_cast<std::uint32_t>(std::max(1.0, share * range.num_rows)),
            .num_pairs = share * range.num_pairs};
  }

  /// Whether a block of A takes less time in a range with all of B, slab by slab.
  [[nodiscard]] bool slabs_pay(Range slab, const Range& range) const {
    const double num_slabs = std::ceil(static_cast<double>(b_header().num_blocks) / static_cast<double>(slab_b_));
    slab.b_blocks = slab_b_;
    slab.num_pairs /= num_slabs;
    const double of_slabs = num_slabs * (part_seconds(slab) + plan::merge_seconds(result_bytes(slab)));
    return of_slabs / slab.a.size() < part_seconds(range) / range.a.size();
  }

  /// C blocks of evenly spread pairs.
  [[nodiscard]] double num_c_blocks(const Range& range) const {
    const double places = static_cast<double>(range.num_rows) * a_header().blocks_per_side();
    return places * -std::expm1(-range.num_pairs / places);
  }
  [[nodiscard]] double result_bytes(const Range& range) const {
    return num_c_blocks(range) * static_cast<double>(output_record_bytes(a_header().m));
  }
  [[nodiscard]] double part_seconds(const Range& range) const {
    plan::Counts s = statistics_of(range.a.size(), range.b_blocks);
    s.num_pairs = range.num_pairs;
    s.num_c_blocks = num_c_blocks(range);
    return plan::range_seconds(plan::decide_at_once(s, limits_), s, limits_);
  }

  /// One product. Values: is_whole = it has all pairs of its rows.
  void multiply_part(const Range& range, std::vector<RecordRange> met, bool is_whole) {
    num_parts_ += is_whole ? 0 : 1;
    seconds_ += part_seconds(range) + (is_whole ? 0 : plan::merge_seconds(result_bytes(range)));
    if (output_ == nullptr) return;
    if (!is_whole) partial_->begin_part();
    const RangesSource a(a_, {range.a});
    const RangesSource b(b_, std::move(met));
    const std::uint32_t a_span = a_.index(range.a.end - 1).i - a_.index(range.a.begin).i + 1;
    plan::Choice one = plan::decide_at_once(statistics_of(range.a.size(), b.header().num_blocks, a_span), limits_);
    plan::throw_if_refused(one);
    Output kept(*partial_);
    Output& output = is_whole ? *output_ : kept;
    output.set_begin(is_whole ? total_.num_blocks : 0);
    // Sums of parts are not those of C: of these, only what lies below the triangle can go.
    const Selection of_part{.upper_triangle = run_.selection.upper_triangle};
    const ProductStats stats = multiply_at_once_({a, b}, output, one, is_whole ? run_.selection : of_part);
    output.wait_until_released(run_);  // buffers of a range are free before those of the next one are allocated
    if (is_whole) {
      add_result(stats.num_blocks, stats.num_saturated);
      total_.num_dropped += stats.num_dropped;
    }
    total_.pairs += stats.pairs;
    total_.num_panels += stats.num_panels;
    total_.peak_device_bytes = std::max(total_.peak_device_bytes, stats.peak_device_bytes);
    total_.device = stats.device;
    choice_.kernel = one.kernel;
  }

  /// Writes the sums of all parts of a range.
  void add_up() {
    choice_.num_slabs = std::max(choice_.num_slabs, std::exchange(num_parts_, 0));
    if (output_ == nullptr) return;
    const auto timing = run_.clock.scope(Stage::write);
    output_->set_begin(0);
    const std::uint64_t record = output_record_bytes(a_header().m);
    const auto write = [&](std::span<const std::byte> records) {
      run_.check_cancelled();
      if (records.empty()) return;
      output_->write(total_.num_blocks, records, {});
      output_->wait_until_released(run_);
      add_result(records.size() / record, count_saturated(records));
    };
    if (run_.selection.is_all()) return partial_->add_up(write);
    RecordSelector selector(run_.selection, a_header().m);
    const auto end_row = [&] {
      selector.end_row();
      for (auto kept = selector.take_kept(); !kept.empty(); kept = selector.take_kept()) write(kept);
    };
    std::vector<std::byte> row;  // of one block row
    std::optional<std::uint32_t> number;
    partial_->add_up([&](std::span<const std::byte> records) {
      for (std::uint64_t begin = 0, end = 0; begin < records.size(); begin = end) {
        const std::uint32_t next = read_index(records.data() + begin).i;
        if (number != next) end_row();
        number = next;
        while (end < records.size() && read_index(records.data() + end).i == next) end += record;
        row.assign(records.begin() + static_cast<std::ptrdiff_t>(begin),
                   records.begin() + static_cast<std::ptrdiff_t>(end));
        write({row.data(), selector.select(row.data(), row.data() + row.size())});
      }
    });
    end_row();
    total_.num_dropped += selector.take_num_dropped();
  }

  void add_result(std::uint64_t num_blocks, std::uint64_t num_saturated) {
    total_.num_blocks += num_blocks;
    total_.num_saturated += num_saturated;
    check_num_output_blocks(total_.num_blocks);
  }

  const Inputs& inputs_;
  Output* output_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  plan::Choice& choice_;
  plan::Limits limits_;  // of a range
  std::uint64_t piece_bytes_;
  bool is_square_;            // one file is both operands
  std::uint64_t kept_bytes_;  // of a sorted record
  io::ScratchFile spare_;     // parts of an operand while it is sorted, then of results
  io::ScratchFile file_;      // both operands
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;  // unless one file is both operands
  SortedMatrix& b_;
  std::optional<RowTable> table_;
  std::uint64_t slab_a_ = 0;  // blocks of a range with slabs
  std::uint64_t slab_b_ = 1;  // blocks of a slab
  std::optional<PartialResults> partial_;
  std::uint32_t num_parts_ = 0;  // of this range
  double seconds_ = 0;
  ProductStats total_;
};

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output* output, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders, plan::Choice& choice) {
  try {
    return OutOfCore(inputs, output, multiply_at_once, run, scratch_folders, choice).multiply();
  } catch (const io::ScratchFull& full) {
    throw OutOfMemory("the scratch file", full.why,
                      "free space there, set TMPDIR to a folder on a larger disk, or raise "
                      "EngineOptions::memory_limit_bytes");
  }
}

}  // namespace spmm
