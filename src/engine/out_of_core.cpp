// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/selector.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/product.hpp"
#include "engine/sorted_records.hpp"
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
  /// For each run that a range meets: a number, of which a growing vector has three times as many, and a range.
  static constexpr std::uint64_t kMetBytes = 3 * sizeof(std::uint32_t) + RangesSource::kRangeBytes;

  /// Reads the matrix once. Values: not empty. Memory: most_bytes, 16 at least. Errors: Interrupted.
  RowTable(SortedRecords& b, std::uint64_t most_bytes, const Run& run) {
    constexpr std::uint64_t kRunBits = 33;
    const auto num_records = static_cast<std::uint32_t>(b.size());
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

  /// Runs that the range has met so far.
  [[nodiscard]] std::uint64_t num_met() const { return met_.size(); }

  /// The range meets a block row. Returns the records of its run if it had not met that before.
  std::uint32_t add(std::uint32_t row) {
    const std::uint32_t run = (row - first_row_) / rows_per_run_;
    if (row < first_row_ || run >= is_met_.size() || is_met_[run] || records_of(run).size() == 0) return 0;
    is_met_[run] = true;
    met_.push_back(run);
    return records_of(run).size();
  }

  /// The records of all runs that the range meets; neighbours are joined. What is added from now on is of another
  /// range.
  std::vector<RecordRange> take() {
    std::sort(met_.begin(), met_.end());
    std::vector<RecordRange> ranges;
    ranges.reserve(met_.size());  // growing would take twice as much
    for (const std::uint32_t run : met_) {
      is_met_[run] = false;
      const RecordRange records = records_of(run);
      if (ranges.empty() || ranges.back().end != records.begin) ranges.push_back(records);
      ranges.back().end = records.end;
    }
    met_ = {};
    return ranges;
  }

 private:
  [[nodiscard]] RecordRange records_of(std::uint32_t run) const {
    return {.begin = first_records_[run], .end = first_records_[run + 1]};
  }

  std::uint32_t first_row_ = 0;
  std::uint32_t rows_per_run_ = 1;
  AlignedArray<std::uint32_t> first_records_;  // [runs + 1]
  std::vector<bool> is_met_;                   // [runs]
  std::vector<std::uint32_t> met_;             // each once
};

/// Keeps the results of parts of a range in the scratch file until they are added up.
class PartialResults final : public Sink {
 public:
  /// Memory: buffer_bytes; memory_bytes while they are added up.
  PartialResults(const io::ScratchFile& file, std::uint64_t offset, std::uint32_t m, std::uint64_t memory_bytes,
                 std::uint64_t buffer_bytes)
      : file_(file),
        offset_(offset),
        record_(output_record_bytes(m)),
        memory_bytes_(memory_bytes),
        end_(offset),
        buffer_(buffer_bytes) {}

  /// What comes next are the results of another part. As many as can be merged at once become one.
  void begin_part() {
    constexpr std::uint64_t kShare = 4;  // of the memory, for a record of each
    flush();
    if (begins_.size() >= std::max<std::uint64_t>(2, memory_bytes_ / kShare / record_)) {
      const std::uint64_t begin = end_;
      merge_all([&](std::span<std::byte> records) { append(records); });
      flush();
      begins_ = {begin};
    }
    begins_.push_back(end_);
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override { append(records); }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Calls take(records) for the sums of all parts, in order, and forgets them. Errors: IoError, what take() throws.
  void add_up(const std::function<void(std::span<std::byte> records)>& take) {
    flush();
    merge_all(take);
    end_ = offset_;
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
    file_.write_at(end_, {buffer_.data(), used_});
    end_ += std::exchange(used_, 0);
  }
  void merge_all(const std::function<void(std::span<std::byte> records)>& take) {
    std::vector<SortedRecords> parts;
    parts.reserve(begins_.size());
    begins_.push_back(end_);
    for (std::size_t p = 0; p + 1 < begins_.size(); ++p) {
      parts.emplace_back(file_, begins_[p], (begins_[p + 1] - begins_[p]) / record_, record_,
                         memory_bytes_ / 2 / parts.capacity());
    }
    begins_.clear();
    merge(parts, true, record_, memory_bytes_ / 2, take);
  }

  const io::ScratchFile& file_;
  std::uint64_t offset_;
  std::uint64_t record_;
  std::uint64_t memory_bytes_;
  std::uint64_t end_;  // of what is written
  AlignedArray<std::byte> buffer_;
  std::uint64_t used_ = 0;             // of the buffer
  std::vector<std::uint64_t> begins_;  // of the parts, each of which ends where the next one begins
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& output, const cuda::DeviceRun& run, std::span<const std::string> folders,
            plan::Choice& choice)
      : inputs_(inputs),
        num_a_(inputs.a.header().num_blocks),
        num_b_(inputs.b.header().num_blocks),
        output_(output),
        run_(run),
        choice_(choice),
        limits_(choice.limits),
        is_square_(is_same_file(inputs)),
        record_(input_record_bytes(inputs.m())),
        file_(folders, choice.scratch_bytes = plan::scratch_bytes(inputs.a.header(), inputs.b.header(), is_square_)),
        a_(sorted(inputs.a, 0)),
        own_b_(is_square_ ? std::nullopt : std::optional<SortedRecords>(sorted(inputs.b, num_a_ * record_))),
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
  [[nodiscard]] SortedRecords sorted(const Source& source, std::uint64_t offset) const {
    return sort_records(source, file_, offset, spare_offset(), choice_.host_limit_bytes / 4 * 3, piece_bytes(), run_);
  }

  void make_table() {
    constexpr std::uint64_t kTableShare = 4;  // of the limit, at most
    table_.emplace(b_, choice_.host_limit_bytes / kTableShare, run_);
    limits_.host_bytes -= std::min(limits_.host_bytes, table_->bytes());
  }

  /// The decision on a range. Values: num_met = runs of rows of B that it meets; a_span = of its block rows.
  [[nodiscard]] plan::Choice decide(std::uint64_t a_blocks, std::uint64_t b_blocks, std::uint64_t num_met,
                                    std::uint32_t a_span = plan::kAnySpan) const {
    plan::Limits limits = limits_;
    limits.host_bytes -= std::min(limits.host_bytes, num_met * RowTable::kMetBytes);
    plan::Counts s = plan::expected_counts(plan::with_blocks(inputs_.a.header(), static_cast<double>(a_blocks)),
                                           plan::with_blocks(inputs_.b.header(), static_cast<double>(b_blocks)));
    s.a_span = a_span;
    return plan::decide_at_once(s, limits);
  }
  /// Whether it fits beside the lists of all threads.
  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks, std::uint64_t num_met) const {
    const plan::Choice e = decide(a_blocks, b_blocks, num_met);
    return !e.is_refused() && (e.backend == Backend::cuda || e.num_threads >= limits_.num_threads);
  }

  /// As large a slab of B as fits with a third as many blocks of A.
  void choose_slabs() {
    slab_b_ = plan::largest_that_fits(num_b_, [&](std::uint64_t blocks) {
      const std::uint64_t of_a = plan::least_a_blocks(inputs_.a.header(), blocks);
      return blocks == 1 || fits(of_a, blocks, of_a);
    });
    slab_a_ = plan::least_a_blocks(inputs_.a.header(), slab_b_);
  }

  /// Where as many rows end, the first of which may have begun before, as fit with what they meet in B, less a few;
  /// `first` if one does not. Values: fits(blocks of A, blocks of B).
  template <class Fits>
  std::uint32_t longest_range(std::uint32_t first, const Fits& fits) {
    constexpr double kCheckedGrowth = 1.02;  // decisions on every row would take longer than the rest
    std::uint32_t fitting_end = first;
    std::uint64_t b_blocks = 0;
    double next_check = 0;
    for (std::uint32_t r = first; r < num_a_;) {
      const BlockIndex at = a_.index(r);
      b_blocks += table_->add(at.j);
      if (++r < num_a_ && a_.index(r).i == at.i) continue;
      const double blocks = r - first + static_cast<double>(b_blocks);
      if (blocks < next_check && r < num_a_) continue;
      run_.check_cancelled();
      if (!fits(r - first, b_blocks)) break;
      fitting_end = r;
      next_check = blocks * kCheckedGrowth;
    }
    table_->take();
    return fitting_end;
  }

  /// Where a range that meets B in slabs ends: whole rows, or a part of one.
  [[nodiscard]] std::uint32_t end_with_slabs(std::uint32_t first) {
    const std::uint32_t end = longest_range(first, [&](std::uint64_t of_a, std::uint64_t) { return of_a <= slab_a_; });
    return end != first ? end : static_cast<std::uint32_t>(first + slab_a_);
  }

  /// Whether that range takes less than ranges like [first, end).
  [[nodiscard]] bool slabs_pay(std::uint32_t first, std::uint32_t end) {
    double met = 0;  // blocks of B for each of A
    for (std::uint32_t r = first; r < end; ++r) met += static_cast<double>(table_->add(a_.index(r).j)) / (end - first);
    table_->take();
    const auto all = static_cast<double>(num_b_);
    if (!plan::slabs_pay(met * static_cast<double>(slab_a_), all, 0)) return false;
    const std::uint32_t slab_end = end_with_slabs(first);
    const std::uint32_t rows = a_.index(slab_end - 1).i - a_.index(first).i + 1;
    const double num_slabs = std::ceil(all / static_cast<double>(slab_b_));
    return slab_end > end &&
           plan::slabs_pay(met * (slab_end - first), all, num_slabs * rows * inputs_.a.header().blocks_per_side());
  }

  /// Multiplies a range: rows with what they meet, or as much of A as fits with a slab of B, with one slab after the
  /// other, if that takes less or a row does not fit; of a longer row a part. Returns where the next range begins.
  std::uint32_t multiply_range(std::uint32_t first) {
    std::optional<RangesSource> b;
    RecordRange range{.begin = first, .end = first};
    bool is_whole = num_parts_ == 0;
    std::uint64_t slab = num_b_;
    {
      const auto timing = run_.clock.scope(Stage::count);
      range.end = longest_range(
          first, [&](std::uint64_t of_a, std::uint64_t of_b) { return fits(of_a, of_b, table_->num_met()); });
      if (range.size() == 0 || slabs_pay(first, range.end)) {
        is_whole = false;
        slab = slab_b_;
        range.end = end_with_slabs(first);
      }
      for (std::uint32_t r = first; r < range.end; ++r) table_->add(a_.index(r).j);
      b.emplace(inputs_.b, b_, table_->take());
    }
    const std::uint64_t num_met = b->header().num_blocks;
    for (std::uint64_t begin = 0; begin < num_met; begin += slab) {
      b->restrict_to(begin, std::min(slab, num_met - begin));
      multiply_part(range, *b, is_whole);
    }
    const bool ends_row = range.end == num_a_ || a_.index(range.end).i != a_.index(range.end - 1).i;
    if (num_parts_ != 0 && ends_row) add_up();
    return range.end;
  }

  /// One product. Values: is_whole = it has all pairs of its rows.
  void multiply_part(RecordRange range, const RangesSource& b, bool is_whole) {
    if (!is_whole) {
      num_parts_ += 1;
      partial_.begin_part();
    }
    const std::uint32_t a_span = a_.index(range.end - 1).i - a_.index(range.begin).i + 1;
    const RangesSource a(inputs_.a, a_, {range});
    plan::Choice one = decide(range.size(), b.header().num_blocks, b.num_ranges(), a_span);
    plan::throw_if_refused(one);
    Output kept(partial_);
    Output& output = is_whole ? output_ : kept;
    output.set_begin(is_whole ? total_.num_blocks : 0);
    cuda::DeviceRun run = run_;
    // Sums of parts are not those of C: of these, only what lies below the triangle can go.
    if (!is_whole) run.selection = {.upper_triangle = run_.selection.upper_triangle};
    const ProductStats stats = multiply_at_once({a, b}, output, one, run);
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
    const std::uint64_t record = output_record_bytes(inputs_.m());
    const auto write = [&](std::span<const std::byte> records) {
      run_.check_cancelled();
      if (records.empty()) return;
      output_.write(total_.num_blocks, records, {});
      output_.wait_until_released(run_);
      add_result(records.size() / record, count_saturated(records));
    };
    if (run_.selection.is_all()) return partial_.add_up(write);
    RecordSelector selector(run_.selection, inputs_.m());
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

  const Inputs& inputs_;
  std::uint64_t num_a_;
  std::uint64_t num_b_;
  Output& output_;
  const cuda::DeviceRun& run_;
  plan::Choice& choice_;
  plan::Limits limits_;   // of a range
  bool is_square_;        // one file is both operands
  std::uint64_t record_;  // bytes
  io::ScratchFile file_;
  SortedRecords a_;
  std::optional<SortedRecords> own_b_;
  SortedRecords& b_;
  std::optional<RowTable> table_;
  std::uint64_t slab_a_ = 1;  // blocks of a range with slabs
  std::uint64_t slab_b_ = 1;  // blocks of a slab
  PartialResults partial_;
  std::uint32_t num_parts_ = 0;  // of this range
  ProductStats total_;
};

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output& output, const cuda::DeviceRun& run,
                                  std::span<const std::string> scratch_folders, plan::Choice& choice) {
  return OutOfCore(inputs, output, run, scratch_folders, choice).multiply();
}

}  // namespace spmm
