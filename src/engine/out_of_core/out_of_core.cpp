// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core/out_of_core.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/out_of_core/index_pass.hpp"
#include "engine/out_of_core/row_table.hpp"
#include "engine/out_of_core/sorted_matrix.hpp"
#include "io/files/scratch_file.hpp"
#include "plan/out_of_core.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

using namespace out_of_core;

/// Keeps the records of one column slab after the other in a scratch file.
class SlabResults : public Sink {
 public:
  explicit SlabResults(io::ScratchFile file) : file_(std::move(file)) {}

  /// Bytes [begin, end) of the records of one slab.
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void restart() { slabs_.clear(); }
  void begin_slab() {
    const std::uint64_t end = slabs_.empty() ? 0 : slabs_.back().end;
    slabs_.push_back({.begin = end, .end = end});
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override {
    file_.write_at(slabs_.back().end, records);
    slabs_.back().end += records.size();
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Interleaves the slabs row by row into `sink`; returns when that has released everything.
  /// Memory: memory_bytes, or four records and one for each slab if that is more. Errors: as Sink; Interrupted.
  void merge(std::uint32_t m, std::uint64_t memory_bytes, Output& sink, const Run& run) const {
    constexpr std::uint64_t kMostBytes = 1u << 20;  // of a buffer
    constexpr std::uint64_t kNumBuffers = 4;        // on their way to the sink
    const auto timing = run.clock.scope(Stage::write);
    const std::uint64_t record = output_record_bytes(m);
    const auto whole_records = [&](std::uint64_t bytes) {
      return std::clamp(bytes, record, std::max(record, kMostBytes)) / record * record;
    };
    std::vector<SlabReader> readers;
    for (const Extent& slab : slabs_) {
      if (slab.begin == slab.end) continue;
      readers.emplace_back(file_, slab, record, whole_records(memory_bytes / 2 / slabs_.size()));
    }
    cpu::OutputQueue queue(sink, kNumBuffers, whole_records(memory_bytes / 2 / kNumBuffers), record, run);
    cpu::OutputQueue::Job job;
    queue.start(job, [] { return true; });
    cpu::RowUnitOutput out(queue, job, record);
    out.set_may_saturate(false);  // counted before
    while (!readers.empty()) {
      std::uint32_t row = ~0u;
      for (const SlabReader& reader : readers) row = std::min(row, reader.row());
      for (SlabReader& reader : readers) {  // slabs follow each other along the row
        run.check_cancelled();
        while (!reader.is_at_end() && reader.row() == row) reader.move_row(out);
      }
      std::erase_if(readers, [](const SlabReader& reader) { return reader.is_at_end(); });
    }
    queue.finish(job);
    sink.wait_until_released(run);
  }

 private:
  /// Reads the records of a slab in order.
  class SlabReader {
   public:
    SlabReader(const io::ScratchFile& file, Extent slab, std::uint64_t record_bytes, std::uint64_t buffer_bytes)
        : file_(&file), left_(slab), record_bytes_(record_bytes), buffer_(buffer_bytes) {
      fill();
    }

    [[nodiscard]] bool is_at_end() const { return at_ == end_; }
    [[nodiscard]] std::uint32_t row() const { return read_index(buffer_.data() + at_).i; }

    /// Copies records of the current row that are here and fit.
    void move_row(cpu::RowUnitOutput& out) {
      const std::uint32_t current = row();
      const std::uint64_t most = std::min(out.room(), (end_ - at_) / record_bytes_);
      std::uint64_t count = 1;
      while (count < most && read_index(buffer_.data() + at_ + count * record_bytes_).i == current) ++count;
      std::memcpy(out.position(), buffer_.data() + at_, count * record_bytes_);
      out.advance_to(out.position() + count * record_bytes_);
      at_ += count * record_bytes_;
      if (at_ == end_) fill();
    }

   private:
    void fill() {
      at_ = 0;
      end_ = std::min<std::uint64_t>(buffer_.size(), left_.end - left_.begin);
      file_->read_at(left_.begin, {buffer_.data(), end_});
      left_.begin += end_;
    }

    const io::ScratchFile* file_;
    Extent left_;
    std::uint64_t record_bytes_;
    AlignedArray<std::byte> buffer_;
    std::uint64_t at_ = 0;
    std::uint64_t end_ = 0;
  };

  io::ScratchFile file_;
  std::vector<Extent> slabs_;
};

io::ScratchFile make_scratch_file(std::uint64_t bytes, const Run& run) {
  std::string why;
  io::ScratchFile file = io::ScratchFile::make(run.scratch_folders, bytes, why);
  if (file.is_open()) return file;
  throw OutOfMemory("the memory limit",
                    text("the operands do not fit, and no scratch file of ", human_bytes(bytes), " can be made: ", why),
                    "raise EngineOptions::memory_limit_bytes, or set TMPDIR to a folder on a disk with that much room");
}

/// Whole rows of A that fit with the records of a column slab of B that they may meet.
struct FittingRows {
  RecordRange a{};
  std::uint64_t b_blocks = 0;
  bool fits = true;  ///< false: a single row that does not
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once, const Run& run,
            const plan::Execution& execution)
      : sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        execution_(execution),
        limits_(execution.range_limits),
        read_bytes_(std::clamp<std::uint64_t>(execution.host_limit_bytes / 64, 4u << 10, kReadBytes)),
        most_marks_(execution.host_limit_bytes / kMarkShare / RangesSource::kRangeBytes),
        file_(make_scratch_file(execution.scratch_bytes, run)),
        sort_bytes_(execution.host_limit_bytes / 4 * 3),
        a_(inputs.a, file_, {.memory_bytes = sort_bytes_}, run),
        indices_(a_, read_bytes_) {
    const auto same = inputs.a.identity();
    if (!same || same != inputs.b.identity()) {
      own_b_.emplace(inputs.b, file_, Sorting{.file_offset = bytes_of(inputs.a.header()), .memory_bytes = sort_bytes_},
                     run);
    }
    const std::uint64_t others = limits_.host_bytes + 2 * read_bytes_ + most_marks_ * RangesSource::kRangeBytes;
    add_tables(execution.host_limit_bytes - std::min(execution.host_limit_bytes, others));
  }

  ProductStats multiply(plan::Execution& execution) {
    const RecordRange all{.begin = 0, .end = a_.header().num_blocks};
    const bool is_empty = all.size() == 0 || b().header().num_blocks == 0;
    std::uint32_t num_ranges = 0;
    if (is_empty) {  // both are checked, and nothing is left to multiply
      last_ = execution_;
      if (last_.backend == Backend::cpu) total_.device = cpu::isa_name(cpu::choose_isa());
    } else if (plan_slabs(); tables_.size() == 1) {
      num_ranges = multiply_slab(0, all, sink_);
    } else {
      SlabResults results(make_scratch_file(1, run_));  // it grows
      std::uint64_t num_merged = 0;
      for (RecordRange left = all; left.begin < all.end; ++num_ranges) {
        const RecordRange rows = next_rows(left);
        results.restart();
        for (std::size_t slab = 0; slab < tables_.size(); ++slab) {
          results.begin_slab();
          multiply_slab(slab, rows, results);
        }
        sink_.set_begin(num_merged);
        num_merged = total_.num_blocks;
        results.merge(a_.header().m, limits_.host_bytes, sink_, run_);
        left.begin = rows.end;
      }
    }
    last_.num_a_slabs = std::max(2U, num_ranges);
    last_.num_b_slabs = static_cast<std::uint32_t>(tables_.size());
    last_.scratch_bytes = execution_.scratch_bytes;
    last_.host_limit_bytes = execution_.host_limit_bytes;
    last_.host_need_bytes = execution_.host_need_bytes;
    last_.predicted_s = execution_.predicted_s;
    last_.predicted_cuda_s = execution_.predicted_cuda_s;
    last_.predicted_cpu_s = execution_.predicted_cpu_s;
    execution = std::move(last_);
    return total_;
  }

 private:
  [[nodiscard]] const SortedMatrix& b() const { return slabs_of_b_ ? *slabs_of_b_ : own_b_ ? *own_b_ : a_; }
  [[nodiscard]] static std::uint64_t bytes_of(const MatrixHeader& header) {
    return header.num_blocks * input_record_bytes(header.m);
  }

  /// A table for each column slab of B, and what they leave to ranges.
  void add_tables(std::uint64_t most_bytes) {
    const std::uint64_t limit = execution_.host_limit_bytes;
    const std::uint64_t most_runs = most_bytes / RowTable::kRunBytes / b().slabs().size();
    std::uint64_t bytes = 2 * read_bytes_ + most_marks_ * RangesSource::kRangeBytes;
    for (const RecordRange& slab : b().slabs()) {
      tables_.emplace_back(b(), slab, std::max<std::uint64_t>(2, most_runs / 2 * 2), read_bytes_, run_);
      bytes += tables_.back().bytes();
    }
    limits_.host_bytes = limit - std::min(limit, bytes);
    room_.emplace(a_.header(), b().header(), limits_);
  }

  /// As many whole rows of these records of A as fit with what they meet in a slab, at least one.
  FittingRows next_range(RowTable& table, RecordRange records) {
    FittingRows best{.a = {.begin = records.begin, .end = records.begin}};
    FittingRows longer = best;
    table.restart();
    std::uint32_t row = 0;
    for (std::uint32_t r = records.begin; r <= records.end; ++r) {
      const BlockIndex at = r < records.end ? indices_.at(r) : BlockIndex{};
      if (r == records.end || (r != records.begin && at.i != row)) {  // the end of a row
        longer.a.end = r;
        longer.fits =
            room_->fits(longer.a.size(), longer.b_blocks) && (best.a.size() == 0 || table.num_marked() <= most_marks_);
        if (!longer.fits) return best.a.size() == 0 ? longer : best;
        best = longer;
      }
      if (r == records.end) break;
      row = at.i;
      longer.b_blocks += table.add(at.j);
      if (r % kRecordsPerCheck == 0) run_.check_cancelled();
    }
    return best;
  }

  /// With column slabs: rows of A whose results are merged at a time, at least one.
  RecordRange next_rows(RecordRange records) {
    RecordRange rows{.begin = records.begin, .end = records.begin};
    std::uint32_t row = 0;
    for (std::uint32_t r = records.begin; r < records.end; ++r) {
      const std::uint32_t i = indices_.at(r).i;
      if (r != records.begin && i != row) rows.end = r;  // whole rows up to here
      if (rows.size() != 0 && r + 1 - rows.begin > most_of_a_) return rows;
      row = i;
    }
    return records;
  }

  /// Some rows of A with a slab of B, range by range; returns the number of ranges.
  std::uint32_t multiply_slab(std::size_t slab, RecordRange records, Sink& sink) {
    RowTable& table = tables_[slab];
    std::uint32_t num_ranges = 0;
    do {
      run_.check_cancelled();
      const FittingRows range = next_range(table, records);
      if (!range.fits) throw_row_too_large(range);
      table.restart();  // the search went too far
      for (std::uint32_t r = range.a.begin; r < range.a.end; ++r) table.add(indices_.at(r).j);
      const RangesSource a(a_, {range.a});
      const RangesSource b(this->b(), table.marked());
      records.begin = range.a.end;
      ++num_ranges;
      const bool is_last = records.begin == records.end && slab + 1 == tables_.size();
      if (b.header().num_blocks == 0 && !(is_last && total_.device.empty())) continue;  // one at least says what ran
      last_ = plan::decide_range(a_.header(), a.header().num_blocks, b.header(), b.header().num_blocks, limits_);
      plan::throw_if_refused(last_);
      last_.range_limits = limits_;
      sink_.set_begin(total_.num_blocks);
      add(multiply_at_once_({a, b}, sink, last_));
      sink_.wait_until_released(run_);  // buffers of a range are free before those of the next one are allocated
    } while (records.begin < records.end);
    return num_ranges;
  }

  void add(const ProductStats& one) {
    const ProductStats before = std::exchange(total_, one);
    total_.num_blocks += before.num_blocks;
    check_num_output_blocks(total_.num_blocks);
    total_.pairs += before.pairs;
    total_.num_panels += before.num_panels;
    total_.num_saturated += before.num_saturated;
    total_.peak_device_bytes = std::max(one.peak_device_bytes, before.peak_device_bytes);
  }

  /// Sorts B into column slabs if that ends earlier than ranges of A with all columns, or if a row does not fit else.
  void plan_slabs() {
    const auto timing = run_.clock.scope(Stage::plan);
    const RecordRange all{.begin = 0, .end = a_.header().num_blocks};
    // What ranges with all columns build, and the longest row.
    double num_built = 0;
    double num_ranges = 0;
    double num_pairs = 0;
    bool all_fit = true;
    for (RecordRange left = all; left.begin < all.end; ++num_ranges) {
      const FittingRows range = next_range(tables_.front(), left);
      all_fit = all_fit && range.fits;
      num_built += range.a.size() + static_cast<double>(range.b_blocks);
      left.begin = range.a.end;
    }
    RecordRange longest_row{};
    for (std::uint32_t r = 0, begin = 0, row = 0; r < all.end; ++r) {
      const BlockIndex at = indices_.at(r);
      if (r == 0 || at.i != row) begin = r;
      row = at.i;
      if (r + 1 - begin > longest_row.size()) longest_row = {.begin = begin, .end = r + 1};
      num_pairs += tables_.front().most_records(at.j);
    }
    const double blocks = static_cast<double>(all.end) + b().header().num_blocks;
    constexpr double kSurely = 3;  // times the operands: no slabs take less
    if (all_fit && num_built <= kSurely * blocks) return;

    // The best shares of a range's memory for A and B.
    const auto in_record = static_cast<double>(input_record_bytes(a_.header().m));
    const auto out_record = static_cast<double>(output_record_bytes(a_.header().m));
    const auto seconds = [&](double built, double ranges) {
      // Measured: evenly spread blocks, m = 1 to 32, limits of 0.8 to 0.1 times both operands, a thread of a Zen 5.
      constexpr double kBlockNs = 12;
      constexpr double kByteNs = 0.75;
      constexpr double kRangeNs = 130e3;
      return (built * (kBlockNs + in_record * kByteNs) + ranges * kRangeNs) / 1e9;
    };
    constexpr double kMergeBytesPerS = 0.5e9;  // written, read and copied
    const plan::Statistics even = plan::expected_statistics(a_.header(), b().header());
    const double merge_s = std::min(num_pairs, even.num_c_blocks) * out_record / kMergeBytesPerS;
    double best_s = all_fit ? seconds(num_built, num_ranges) : std::numeric_limits<double>::infinity();
    std::uint64_t slab_blocks = 0;
    for (double most_b = b().header().num_blocks; most_b >= 1; most_b /= 1.25) {
      const std::uint64_t most_a = room_->most_of_a(static_cast<std::uint64_t>(most_b));
      if (most_a < longest_row.size() || most_a == 0) continue;
      const double slabs = std::ceil(b().header().num_blocks / most_b);
      const double ranges = std::ceil(static_cast<double>(all.end) / static_cast<double>(most_a));
      const double s = seconds(slabs * all.end + ranges * b().header().num_blocks, slabs * ranges) + merge_s;
      if (s >= best_s) continue;
      best_s = s;
      slab_blocks = static_cast<std::uint64_t>(most_b);
      most_of_a_ = most_a;
    }
    if (slab_blocks != 0) return sort_into_slabs(slab_blocks);
    if (!all_fit) throw_row_too_large({.a = longest_row, .b_blocks = 1});
  }

  void sort_into_slabs(std::uint64_t slab_blocks) {
    std::vector<std::uint64_t> ends;
    const SortedMatrix& by_rows = b();
    const RangesSource all(by_rows, {{.begin = 0, .end = by_rows.header().num_blocks}});
    const std::uint64_t table_bytes = tables_.front().bytes();
    tables_.clear();
    cut_columns(all, 0, by_rows.header().blocks_per_side(), slab_blocks, ends);
    ends.back() = Sorting::kAllColumns;
    slabs_of_b_.emplace(all, file_,
                        Sorting{.slab_ends = std::move(ends),
                                .file_offset = bytes_of(a_.header()) + (own_b_ ? bytes_of(by_rows.header()) : 0),
                                .memory_bytes = sort_bytes_},
                        run_);
    add_tables(table_bytes);  // a coarse one will do: a range reads most of a slab
    // A slab may be larger than planned if one column is: then each of its rows is tried before anything is written.
    for (std::size_t slab = 0; slab < tables_.size(); ++slab) {
      if (b().slabs()[slab].size() <= slab_blocks) continue;
      RecordRange left{.begin = 0, .end = a_.header().num_blocks};
      while (left.begin < left.end) {
        const FittingRows range = next_range(tables_[slab], left);
        if (!range.fits) throw_row_too_large(range);
        left.begin = range.a.end;
      }
    }
  }

  /// Ends of slabs with at most `most` blocks, or one column, of columns [begin, end).
  void cut_columns(const Source& b, std::uint64_t begin, std::uint64_t end, std::uint64_t most,
                   std::vector<std::uint64_t>& ends) {
    const std::uint64_t most_counters = std::max<std::uint64_t>(2, sort_bytes_ / 4 / sizeof(std::uint32_t));
    const std::uint64_t width = (end - begin - 1) / std::min<std::uint64_t>(most_counters, 1u << 16) + 1;
    std::vector<std::uint32_t> counts((end - begin - 1) / width + 1, 0);
    const auto count = [&](std::uint64_t, BlockIndex at) {
      if (at.j < begin || at.j >= end) return;
      std::atomic_ref(counts[(at.j - begin) / width]).fetch_add(1, std::memory_order_relaxed);
    };
    for_indices(b, run_, count, read_bytes_);
    std::uint64_t blocks = 0;
    for (std::size_t x = 0; x < counts.size(); ++x) {
      const std::uint64_t first = begin + x * width;
      const std::uint64_t last = std::min(end, first + width);
      if (blocks != 0 && blocks + counts[x] > most) {
        ends.push_back(first);
        blocks = 0;
      }
      blocks += counts[x];
      if (blocks <= most || width == 1) continue;
      cut_columns(b, first, last, most, ends);
      blocks = 0;
    }
    if (ends.empty() || ends.back() != end) ends.push_back(end);
  }

  /// Errors: always OutOfMemory.
  [[noreturn]] void throw_row_too_large(const FittingRows& range) {
    throw OutOfMemory(text("block row ", indices_.at(range.a.begin).i, " of A"),
                      text("its ", range.a.size(), " blocks do not fit the limit with one column of B"),
                      "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }

  static constexpr std::uint32_t kRecordsPerCheck = 1u << 20;
  static constexpr std::uint64_t kMarkShare = 16;

  Output& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  const plan::Execution& execution_;
  plan::Limits limits_;  // of a range
  std::uint64_t read_bytes_;
  std::uint64_t most_marks_;  // runs of rows of B that a range of several rows meets
  io::ScratchFile file_;
  std::uint64_t sort_bytes_;
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;       // unless one file is both operands
  std::optional<SortedMatrix> slabs_of_b_;  // B once more, if it is cut into slabs
  std::optional<plan::RangeRoom> room_;
  IndexReader indices_;
  std::vector<RowTable> tables_;  // [slabs]
  std::uint64_t most_of_a_ = 0;   // with slabs: blocks of A whose results are merged at a time
  plan::Execution last_;
  ProductStats total_;
};

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, plan::Execution& execution) {
  const plan::Execution planned = execution;
  try {
    return OutOfCore(inputs, sink, multiply_at_once, run, planned).multiply(execution);
  } catch (const io::ScratchFull& full) {
    throw OutOfMemory("the scratch file", full.why,
                      "free space there, set TMPDIR to a folder on a larger disk, or raise "
                      "EngineOptions::memory_limit_bytes");
  }
}

}  // namespace spmm
