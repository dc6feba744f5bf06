// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/selector.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/sorted_matrix.hpp"
#include "io/files/scratch_file.hpp"
#include "plan/choice.hpp"
#include "plan/out_of_core.hpp"

namespace spmm {
namespace {

using namespace out_of_core;

constexpr std::uint32_t kRecordsPerCheck = 1u << 20;

bool is_same_file(const Inputs& inputs) {
  const std::string identity = inputs.a.identity();
  return !identity.empty() && identity == inputs.b.identity();
}

/// The block rows of B, from the first to the last that hold blocks, in runs of equally many; and the runs that a range
/// of A meets.
class RowTable {
 public:
  /// Reads the matrix once. Values: sorted by rows, not empty; most_ranges = of a list of records. Memory: most_bytes,
  /// 16 at least. Errors: Interrupted.
  RowTable(SortedMatrix& b, std::uint64_t most_bytes, std::uint64_t most_ranges, const Run& run)
      : most_ranges_(std::max<std::uint64_t>(1, most_ranges)) {
    constexpr std::uint64_t kRunBits = 33;
    const std::uint32_t num_records = b.header().num_blocks;
    const std::uint32_t last_row = b.index(num_records - 1).i;
    first_row_ = b.index(0).i;
    const std::uint64_t most_runs = std::max<std::uint64_t>(1, most_bytes * 8 / kRunBits);
    rows_per_run_ = static_cast<std::uint32_t>((last_row - first_row_) / most_runs + 1);
    num_runs_ = (last_row - first_row_) / rows_per_run_ + 1;
    is_met_.resize((num_runs_ + 63) / 64);
    first_records_ = AlignedArray<std::uint32_t>(num_runs_ + 1);
    std::uint64_t next = 0;
    for (std::uint32_t record = 0; record < num_records; ++record) {
      if (record % kRecordsPerCheck == 0) run.check_cancelled();
      const std::uint32_t at = (b.index(record).i - first_row_) / rows_per_run_;
      while (next <= at) first_records_[next++] = record;
    }
    first_records_[num_runs_] = num_records;
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return first_records_.size() * sizeof(std::uint32_t) + is_met_.size() * sizeof(std::uint64_t);
  }

  /// A new range.
  void restart() {
    std::ranges::fill(is_met_, 0);
    num_met_ = 0;
    next_run_ = next_record_ = 0;
  }

  /// The range meets a block row. Returns the records of its run if it had not met that before.
  std::uint32_t add(std::uint32_t row) {
    const std::uint32_t run = (row - first_row_) / rows_per_run_;
    if (row < first_row_ || run >= num_runs_ || first_records_[run] == first_records_[run + 1]) return 0;
    const std::uint64_t bit = std::uint64_t{1} << run % 64;
    if ((is_met_[run / 64] & bit) != 0) return 0;
    is_met_[run / 64] |= bit;
    ++num_met_;
    return first_records_[run + 1] - first_records_[run];
  }

  /// Whether one list has room for all that the range meets.
  [[nodiscard]] bool fits_list() const { return num_met_ <= most_ranges_; }

  /// The next records that the range meets, most_records of them or as many as a list has room for; empty behind the
  /// last.
  std::vector<RecordRange> next(std::uint64_t most_records) {
    std::vector<RecordRange> ranges;
    ranges.reserve(std::min(num_met_, most_ranges_));  // growing would take twice as much
    for (; (next_run_ = first_met(next_run_)) < num_runs_; ++next_run_) {
      const std::uint32_t begin = std::max(next_record_, first_records_[next_run_]);
      const std::uint32_t end = first_records_[next_run_ + 1];
      const bool is_joined = !ranges.empty() && ranges.back().end == begin;
      if (begin == end) continue;
      if (most_records == 0 || (!is_joined && ranges.size() == most_ranges_)) break;
      next_record_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(end, begin + most_records));
      most_records -= next_record_ - begin;
      if (!is_joined) ranges.push_back({.begin = begin, .end = begin});
      ranges.back().end = next_record_;
      if (next_record_ != end) break;
    }
    return ranges;
  }

 private:
  /// The first run that is met, from `run` on; num_runs_ if there is none.
  [[nodiscard]] std::uint64_t first_met(std::uint64_t run) const {
    for (std::uint64_t word = run / 64; word < is_met_.size(); run = ++word * 64) {
      const std::uint64_t left = is_met_[word] >> run % 64;
      if (left != 0) return run + static_cast<unsigned>(std::countr_zero(left));
    }
    return num_runs_;
  }

  std::uint64_t most_ranges_;
  std::uint32_t first_row_ = 0;
  std::uint32_t rows_per_run_ = 1;
  std::uint64_t num_runs_ = 0;
  AlignedArray<std::uint32_t> first_records_;  // [num_runs_ + 1]
  std::vector<std::uint64_t> is_met_;          // a bit for each run
  std::uint64_t num_met_ = 0;                  // runs
  std::uint64_t next_run_ = 0;                 // next() goes on there
  std::uint32_t next_record_ = 0;
};

/// Keeps the results of parts of a range in the scratch file until they are added up.
class PartialResults final : public Sink {
 public:
  /// Memory: buffer_bytes; memory_bytes while they are added up.
  PartialResults(const io::ScratchFile& file, std::uint64_t offset, std::uint32_t m, std::uint64_t memory_bytes,
                 std::uint64_t buffer_bytes)
      : file_(file),
        begin_(offset),
        record_(output_record_bytes(m)),
        memory_bytes_(memory_bytes),
        end_(offset),
        buffer_(buffer_bytes) {}

  /// What comes next are the results of another part. As many as can be merged at once become one.
  void begin_part() {
    constexpr std::uint64_t kShare = 4;  // of the memory, for a record of each
    flush();
    if (parts_.size() >= std::max<std::uint64_t>(2, memory_bytes_ / kShare / record_)) {
      const std::vector<SortedPart> full = std::exchange(parts_, {{.begin = end_, .end = end_}});
      merge_parts(file_, full, true, record_, memory_bytes_, [&](std::span<std::byte> records) { append(records); });
      flush();
    }
    parts_.push_back({.begin = end_, .end = end_});
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override { append(records); }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Calls take(records) for the sums of all parts, in order, and forgets them. Errors: IoError, what take() throws.
  void add_up(const std::function<void(std::span<std::byte> records)>& take) {
    flush();
    merge_parts(file_, std::exchange(parts_, {}), true, record_, memory_bytes_, take);
    end_ = begin_;
  }

 private:
  void append(std::span<const std::byte> records) {
    while (!records.empty()) {
      const std::size_t size = std::min<std::size_t>(records.size(), buffer_.size() - used_);
      std::memcpy(buffer_.data() + used_, records.data(), size);
      used_ += size;
      records = records.subspan(size);
      if (used_ == buffer_.size()) flush();
    }
  }
  void flush() {
    if (used_ == 0) return;
    file_.write_at(end_, {buffer_.data(), used_});
    end_ += std::exchange(used_, 0);
    parts_.back().end = end_;
  }

  const io::ScratchFile& file_;
  std::uint64_t begin_;
  std::uint64_t record_;
  std::uint64_t memory_bytes_;
  std::uint64_t end_;  // of what is written
  AlignedArray<std::byte> buffer_;
  std::uint64_t used_ = 0;  // of the buffer
  std::vector<SortedPart> parts_;
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& output, const MultiplyAtOnce& multiply_at_once, const Run& run,
            std::span<const std::string> folders, plan::Choice& choice)
      : num_a_(inputs.a.header().num_blocks),
        num_b_(inputs.b.header().num_blocks),
        output_(output),
        multiply_at_once_(multiply_at_once),
        run_(run),
        choice_(choice),
        limits_(choice.limits),
        is_square_(is_same_file(inputs)),
        record_(input_record_bytes(inputs.m())),
        file_(folders, choice.scratch_bytes = plan::scratch_bytes(inputs.a.header(), inputs.b.header(), is_square_)),
        a_(sorted(inputs.a, 0)),
        own_b_(is_square_ ? std::nullopt : std::optional<SortedMatrix>(sorted(inputs.b, num_a_ * record_))),
        b_(own_b_ ? *own_b_ : a_),
        partial_(file_, spare_offset(), inputs.m(), limits_.host_bytes, piece_bytes()) {}

  /// Leaves in the choice what ran.
  ProductStats multiply() {
    choice_.num_ranges = 0;
    choice_.num_slabs = 1;
    total_.device = choice_.backend == Backend::cpu ? cpu::isa_name(cpu::choose_isa()) : "";
    if (num_a_ != 0 && num_b_ != 0) {  // else both are checked, and nothing is left
      {
        const auto timing = run_.clock.scope(Stage::count);
        make_table();
        choose_slabs();
      }
      for (std::uint32_t first = 0; first < num_a_; ++choice_.num_ranges) first = multiply_range(first);
    }
    choice_.num_ranges = std::max(2U, choice_.num_ranges);
    return total_;
  }

 private:
  /// Behind both sorted operands: parts of an operand while it is sorted, then of results.
  [[nodiscard]] std::uint64_t spare_offset() const { return (num_a_ + (is_square_ ? 0 : num_b_)) * record_; }

  [[nodiscard]] std::uint64_t piece_bytes() const {
    return std::clamp<std::uint64_t>(choice_.host_limit_bytes / 64, 4u << 10, 256u << 10);
  }
  [[nodiscard]] SortedMatrix sorted(const Source& source, std::uint64_t offset) const {
    return {source, file_, offset, spare_offset(), choice_.host_limit_bytes / 4 * 3, piece_bytes(), run_};
  }

  void make_table() {
    constexpr std::uint64_t kTableShare = 4;  // of the limit, at most
    constexpr std::uint64_t kListShare = 16;
    const std::uint64_t limit = choice_.host_limit_bytes;
    table_.emplace(b_, limit / kTableShare, limit / kListShare / RangesSource::kRangeBytes, run_);
    limits_.host_bytes -= std::min(limits_.host_bytes, table_->bytes());
  }

  /// The decision on a range. Values: a_span = of its block rows.
  [[nodiscard]] plan::Choice decide(std::uint64_t a_blocks, std::uint64_t b_blocks,
                                    std::uint32_t a_span = plan::kAnySpan) const {
    plan::Counts s = plan::expected_counts(plan::with_blocks(a_.header(), static_cast<double>(a_blocks)),
                                           plan::with_blocks(b_.header(), static_cast<double>(b_blocks)));
    s.a_span = a_span;
    return plan::decide_at_once(s, limits_);
  }
  /// Whether it fits beside the lists of all threads.
  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks) const {
    const plan::Choice e = decide(a_blocks, b_blocks);
    return !e.is_refused() && (e.backend == Backend::cuda || e.num_threads >= limits_.num_threads);
  }

  /// Equal slabs of B of up to three quarters of what fits, and as much of A as fits with one.
  void choose_slabs() {
    const std::uint64_t most = plan::largest_that_fits(
        num_b_, [&](std::uint64_t blocks) { return fits(plan::least_a_blocks(a_.header(), blocks), blocks); });
    slab_b_ = std::max<std::uint64_t>(1, most);
    slab_a_ = std::max<std::uint64_t>(
        1, plan::largest_that_fits(num_a_, [&](std::uint64_t blocks) { return fits(blocks, slab_b_); }));
  }

  /// Behind the last record of the row of a record of A.
  std::uint32_t row_end(std::uint32_t record) {
    const std::uint32_t row = a_.index(record).i;
    while (++record < num_a_ && a_.index(record).i == row) continue;
    return record;
  }

  /// Where as many rows end, the first of which may have begun before, as fit with what they meet in B, less a few;
  /// `first` if one does not.
  std::uint32_t longest_range(std::uint32_t first) {
    constexpr double kCheckedGrowth = 1.02;  // decisions on every row would take longer than the rest
    std::uint32_t fitting_end = first;
    std::uint64_t b_blocks = 0;
    double next_check = 0;
    table_->restart();
    for (std::uint32_t r = first; r < num_a_;) {
      const BlockIndex at = a_.index(r);
      b_blocks += table_->add(at.j);
      if (++r < num_a_ && a_.index(r).i == at.i) continue;
      const double blocks = r - first + static_cast<double>(b_blocks);
      if (blocks < next_check && r < num_a_) continue;
      run_.check_cancelled();
      if (!table_->fits_list() || !fits(r - first, b_blocks)) break;
      fitting_end = r;
      next_check = blocks * kCheckedGrowth;
    }
    return fitting_end;
  }

  /// Where a range ends that meets B in slabs: rows that fit with one slab, or a part of a longer row.
  std::uint32_t range_with_slabs(std::uint32_t first) {
    const std::uint64_t most = std::min<std::uint64_t>(num_a_, first + slab_a_);
    auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, row_end(first)));
    while (end < most) {
      const std::uint32_t next = row_end(end);
      if (next > most) break;
      end = next;
    }
    return end;
  }

  /// Multiplies a range: rows with what they meet, or, if a row does not fit, as much of A as fits with a slab of B,
  /// with one slab after the other. Returns where the next range begins.
  std::uint32_t multiply_range(std::uint32_t first) {
    std::uint32_t end = first;
    std::uint64_t most_b = num_b_;
    {
      const auto timing = run_.clock.scope(Stage::count);
      end = longest_range(first);
      if (end == first) {
        end = range_with_slabs(first);
        most_b = slab_b_;
      }
      table_->restart();
      for (std::uint32_t r = first; r < end; ++r) table_->add(a_.index(r).j);
    }
    const bool is_whole = most_b == num_b_ && num_parts_ == 0;
    for (auto met = table_->next(most_b); !met.empty(); met = table_->next(most_b)) {
      multiply_part({.begin = first, .end = end}, std::move(met), is_whole);
    }
    const bool ends_row = end == num_a_ || a_.index(end).i != a_.index(end - 1).i;
    if (num_parts_ != 0 && ends_row) add_up();
    return end;
  }

  /// One product. Values: is_whole = it has all pairs of its rows.
  void multiply_part(RecordRange range, std::vector<RecordRange> met, bool is_whole) {
    if (!is_whole) {
      num_parts_ += 1;
      partial_.begin_part();
    }
    const std::uint32_t a_span = a_.index(range.end - 1).i - a_.index(range.begin).i + 1;
    const RangesSource a(a_, {range});
    const RangesSource b(b_, std::move(met));
    plan::Choice one = decide(range.size(), b.header().num_blocks, a_span);
    plan::throw_if_refused(one);
    Output kept(partial_);
    Output& output = is_whole ? output_ : kept;
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
    const auto timing = run_.clock.scope(Stage::write);
    choice_.num_slabs = std::max(choice_.num_slabs, std::exchange(num_parts_, 0));
    output_.set_begin(0);
    const std::uint64_t record = output_record_bytes(a_.header().m);
    const auto write = [&](std::span<const std::byte> records) {
      run_.check_cancelled();
      if (records.empty()) return;
      output_.write(total_.num_blocks, records, {});
      output_.wait_until_released(run_);
      add_result(records.size() / record, count_saturated(records));
    };
    if (run_.selection.is_all()) return partial_.add_up(write);
    RecordSelector selector(run_.selection, a_.header().m);
    std::optional<std::uint32_t> row;
    const auto end_row = [&] {
      selector.end_row();
      for (auto kept = selector.take_kept(); !kept.empty(); kept = selector.take_kept()) write(kept);
    };
    partial_.add_up([&](std::span<std::byte> records) {
      for (std::byte* begin = records.data(); begin != records.data() + records.size();) {
        const std::uint32_t next = read_index(begin).i;
        if (row != next) end_row();
        row = next;
        std::byte* end = begin;
        while (end != records.data() + records.size() && read_index(end).i == next) end += record;
        write({begin, selector.select(begin, end)});
        begin = end;
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

  std::uint64_t num_a_;
  std::uint64_t num_b_;
  Output& output_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  plan::Choice& choice_;
  plan::Limits limits_;   // of a range
  bool is_square_;        // one file is both operands
  std::uint64_t record_;  // bytes
  io::ScratchFile file_;
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;
  SortedMatrix& b_;
  std::optional<RowTable> table_;
  std::uint64_t slab_a_ = 1;  // blocks of a range with slabs
  std::uint64_t slab_b_ = 1;  // blocks of a slab
  PartialResults partial_;
  std::uint32_t num_parts_ = 0;  // of this range
  ProductStats total_;
};

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output& output, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders, plan::Choice& choice) {
  return OutOfCore(inputs, output, multiply_at_once, run, scratch_folders, choice).multiply();
}

}  // namespace spmm
