// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core/out_of_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
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

io::ScratchFile make_scratch_file(std::span<const std::string> folders, std::uint64_t bytes) {
  std::string why;
  io::ScratchFile file = io::ScratchFile::make(folders, bytes, why);
  if (file.is_open()) return file;
  throw OutOfMemory("the memory limit",
                    text("the operands do not fit, and no scratch file of ", human_bytes(bytes), " can be made: ", why),
                    "raise EngineOptions::memory_limit_bytes, or set TMPDIR to a folder on a disk with that much room");
}

/// Whole records, at least one.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record) {
  constexpr std::uint64_t kMostBytes = 1u << 20;
  return std::clamp(bytes, record, std::max(record, kMostBytes)) / record * record;
}

/// Keeps the records of one column slab after the other in a scratch file.
class SlabResults final : public Sink {
 public:
  SlabResults(io::ScratchFile file, std::uint32_t m) : file_(std::move(file)), record_(output_record_bytes(m)) {}

  void restart() { ends_.assign(1, 0); }
  void begin_slab() { ends_.push_back(ends_.back()); }
  void write(std::uint64_t, std::span<const std::byte> records, Release) override {
    file_.write_at(ends_.back(), records);
    ends_.back() += records.size();
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Interleaves the slabs row by row into `sink`; returns when that has released everything.
  /// Memory: memory_bytes, or a record and one for each slab if that is more. Errors: as Sink; Interrupted.
  void merge(std::uint64_t memory_bytes, Output& sink, const Run& run) const {
    const auto timing = run.clock.scope(Stage::write);
    std::vector<SlabReader> readers;
    for (std::size_t slab = 1; slab < ends_.size(); ++slab) {
      if (ends_[slab - 1] == ends_[slab]) continue;
      readers.emplace_back(*this, ends_[slab - 1], ends_[slab],
                           whole_records(memory_bytes / 2 / (ends_.size() - 1), record_));
    }
    const AlignedArray<std::byte> merged(whole_records(memory_bytes / 2, record_));
    std::uint64_t used = 0;
    std::uint64_t num_written = 0;
    const auto flush = [&] {
      run.check_cancelled();
      sink.write(num_written, {merged.data(), used}, {});
      sink.wait_until_released(run);
      num_written += used / record_;
      used = 0;
    };
    while (!readers.empty()) {
      std::uint32_t row = ~0u;
      for (const SlabReader& reader : readers) row = std::min(row, read_index(reader.record()).i);
      for (SlabReader& reader : readers) {  // slabs follow each other along the row
        for (; !reader.is_at_end() && read_index(reader.record()).i == row; reader.next()) {
          if (used == merged.size()) flush();
          std::memcpy(merged.data() + used, reader.record(), record_);
          used += record_;
        }
      }
      std::erase_if(readers, [](const SlabReader& reader) { return reader.is_at_end(); });
    }
    flush();
  }

 private:
  /// Reads the records of a slab, bytes [begin, end), in order.
  class SlabReader {
   public:
    SlabReader(const SlabResults& from, std::uint64_t begin, std::uint64_t end, std::uint64_t buffer_bytes)
        : from_(&from), next_(begin), end_(end), buffer_(buffer_bytes) {
      fill();
    }
    [[nodiscard]] bool is_at_end() const { return used_ == filled_; }
    [[nodiscard]] const std::byte* record() const { return buffer_.data() + used_; }
    void next() {
      used_ += from_->record_;
      if (used_ == filled_) fill();
    }

   private:
    void fill() {
      used_ = 0;
      filled_ = std::min<std::uint64_t>(buffer_.size(), end_ - next_);
      from_->file_.read_at(next_, {buffer_.data(), filled_});
      next_ += filled_;
    }

    const SlabResults* from_;
    std::uint64_t next_;
    std::uint64_t end_;
    AlignedArray<std::byte> buffer_;
    std::uint64_t used_ = 0;
    std::uint64_t filled_ = 0;
  };

  io::ScratchFile file_;
  std::uint64_t record_;
  std::vector<std::uint64_t> ends_{0};  // [slabs + 1] bytes
};

bool is_same_file(const Inputs& inputs) {
  const std::string identity = inputs.a.identity();
  return !identity.empty() && identity == inputs.b.identity();
}

std::uint64_t bytes_of(const MatrixHeader& header) {
  return header.num_blocks * input_record_bytes(header.m);
}

/// Whole rows of A that fit with the records of B that they may meet, and what is known of them.
struct FittingRows {
  RecordRange a{};
  std::uint64_t b_blocks = 0;
  double pairs = 0;  ///< at most
  RecordRange longest_row{};
  bool fits = true;  ///< false: a single row that does not
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once, const Run& run,
            std::span<const std::string> scratch_folders, plan::Execution& execution)
      : sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        scratch_folders_(scratch_folders),
        execution_(execution),
        limits_(execution.range_limits),
        read_bytes_(std::clamp<std::uint64_t>(execution.host_limit_bytes / 64, 4u << 10, kReadBytes)),
        most_marks_(execution.host_limit_bytes / kMarkShare / RangesSource::kRangeBytes),
        is_square_(is_same_file(inputs)),
        b_offset_(is_square_ ? 0 : bytes_of(inputs.a.header())),
        file_(make_scratch_file(scratch_folders, std::max<std::uint64_t>(1, b_offset_ + bytes_of(inputs.b.header())))),
        sort_bytes_(execution.host_limit_bytes / 4 * 3),
        a_(inputs.a, file_, 0, sort_bytes_, run),
        indices_(a_, read_bytes_) {
    execution_.scratch_bytes = std::max<std::uint64_t>(1, b_offset_ + bytes_of(inputs.b.header()));
    if (!is_square_) own_b_.emplace(inputs.b, file_, b_offset_, sort_bytes_, run);
    const std::uint64_t others = limits_.host_bytes + 2 * read_bytes_ + most_marks_ * RangesSource::kRangeBytes;
    add_tables(execution.host_limit_bytes - std::min(execution.host_limit_bytes, others));
  }

  /// Leaves in the execution what ran.
  ProductStats multiply() {
    const RecordRange all{.begin = 0, .end = a_.header().num_blocks};
    std::uint32_t num_ranges = 0;
    if (all.size() == 0 || b().header().num_blocks == 0) {  // both are checked, and nothing is left to multiply
      if (execution_.backend == Backend::cpu) total_.device = cpu::isa_name(cpu::choose_isa());
    } else if (plan_slabs(); tables_.size() == 1) {
      num_ranges = multiply_slab(0, all, sink_);
    } else {
      SlabResults results(make_scratch_file(scratch_folders_, 1), a_.header().m);  // it grows
      for (RecordRange left = all; left.begin < all.end; ++num_ranges) {
        const RecordRange rows = next_rows(left);
        results.restart();
        sink_.set_begin(total_.num_blocks);
        for (std::size_t slab = 0; slab < tables_.size(); ++slab) {
          results.begin_slab();
          multiply_slab(slab, rows, results);
        }
        results.merge(limits_.host_bytes, sink_, run_);
        left.begin = rows.end;
      }
    }
    execution_.num_a_slabs = std::max(2U, num_ranges);
    execution_.num_b_slabs = static_cast<std::uint32_t>(tables_.size());
    return total_;
  }

 private:
  [[nodiscard]] const SortedMatrix& b() const { return slabs_of_b_ ? *slabs_of_b_ : own_b_ ? *own_b_ : a_; }

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
    RecordRange row{.begin = records.begin, .end = records.begin};
    std::uint32_t number = 0;
    for (std::uint32_t r = records.begin; r <= records.end; ++r) {
      const BlockIndex at = r < records.end ? indices_.at(r) : BlockIndex{};
      if (r == records.end || (r != records.begin && at.i != number)) {  // the end of a row
        row.end = longer.a.end = r;
        if (row.size() > longer.longest_row.size()) longer.longest_row = row;
        longer.fits =
            room_->fits(longer.a.size(), longer.b_blocks) && (best.a.size() == 0 || table.num_marked() <= most_marks_);
        if (!longer.fits) return best.a.size() == 0 ? longer : best;
        best = longer;
        row.begin = r;
      }
      if (r == records.end) break;
      number = at.i;
      const RowTable::Met met = table.add(at.j);
      longer.b_blocks += met.is_new ? met.num_records : 0;
      longer.pairs += met.num_records;
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
      RecordRange rows{.begin = records.begin, .end = records.begin};
      if (!ends_.empty()) {
        rows.end = ends_[num_ranges];
      } else {
        const FittingRows range = next_range(table, records);
        if (!range.fits) throw_row_too_large(range.a);
        rows = range.a;
      }
      table.restart();  // the search went too far
      for (std::uint32_t r = rows.begin; r < rows.end; ++r) table.add(indices_.at(r).j);
      const RangesSource a(a_, {rows});
      const RangesSource b(this->b(), table.marked());
      records.begin = rows.end;
      ++num_ranges;
      const bool is_last = records.begin == records.end && slab + 1 == tables_.size();
      if (b.header().num_blocks == 0 && !(is_last && total_.device.empty())) continue;  // one at least says what ran
      plan::Execution one =
          plan::decide_range(a_.header(), a.header().num_blocks, b.header(), b.header().num_blocks, limits_);
      plan::throw_if_refused(one);
      one.range_limits = limits_;
      if (tables_.size() == 1) sink_.set_begin(total_.num_blocks);
      add(multiply_at_once_({a, b}, sink, one));
      sink_.wait_until_released(run_);  // buffers of a range are free before those of the next one are allocated
      execution_.id = one.id;
      execution_.kernel = one.kernel;
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
    const auto a_blocks = static_cast<double>(a_.header().num_blocks);
    const auto b_blocks = static_cast<double>(b().header().num_blocks);
    // What ranges with all columns build, and the longest row.
    double num_built = 0;
    double num_pairs = 0;
    bool all_fit = true;
    RecordRange longest_row{};
    for (RecordRange left{.begin = 0, .end = a_.header().num_blocks}; left.begin < left.end;) {
      const FittingRows range = next_range(tables_.front(), left);
      all_fit = all_fit && range.fits;
      num_built += range.a.size() + static_cast<double>(range.b_blocks);
      num_pairs += range.pairs;
      if (range.longest_row.size() > longest_row.size()) longest_row = range.longest_row;
      left.begin = range.a.end;
      ends_.push_back(range.a.end);
    }
    constexpr double kSurely = 3;  // times the operands: no slabs take less
    if (all_fit && num_built <= kSurely * (a_blocks + b_blocks)) return;

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
    double best_s =
        all_fit ? seconds(num_built, static_cast<double>(ends_.size())) : std::numeric_limits<double>::infinity();
    std::uint64_t slab_blocks = 0;
    for (double most_b = b_blocks; most_b >= 1; most_b /= 1.25) {
      const std::uint64_t most_a = room_->most_of_a(static_cast<std::uint64_t>(most_b));
      if (most_a < longest_row.size() || most_a == 0) continue;
      const double slabs = std::ceil(b_blocks / most_b);
      const double ranges = std::ceil(a_blocks / static_cast<double>(most_a));
      const double s = seconds(slabs * a_blocks + ranges * b_blocks, slabs * ranges) + merge_s;
      if (s >= best_s) continue;
      best_s = s;
      slab_blocks = static_cast<std::uint64_t>(most_b);
      most_of_a_ = most_a;
    }
    if (slab_blocks != 0) return sort_into_slabs(slab_blocks);
    if (!all_fit) throw_row_too_large(longest_row);
  }

  void sort_into_slabs(std::uint64_t slab_blocks) {
    const SortedMatrix& by_rows = b();
    const std::uint64_t table_bytes = tables_.front().bytes();
    tables_.clear();
    ends_.clear();
    Parts slabs = cut_keys(
        RangesSource(by_rows), [](BlockIndex at) { return std::uint64_t{at.j}; }, by_rows.header().blocks_per_side(),
        slab_blocks, sort_bytes_, run_);
    slabs_of_b_.emplace(by_rows, std::move(slabs), b_offset_ + bytes_of(by_rows.header()), sort_bytes_, run_);
    add_tables(table_bytes);  // a coarse one will do: a range reads most of a slab
    // A slab may be larger than planned if one column is: then each of its rows is tried before anything is written.
    for (std::size_t slab = 0; slab < tables_.size(); ++slab) {
      if (b().slabs()[slab].size() <= slab_blocks) continue;
      RecordRange left{.begin = 0, .end = a_.header().num_blocks};
      while (left.begin < left.end) {
        const FittingRows range = next_range(tables_[slab], left);
        if (!range.fits) throw_row_too_large(range.a);
        left.begin = range.a.end;
      }
    }
  }

  /// Errors: always OutOfMemory.
  [[noreturn]] void throw_row_too_large(RecordRange row) {
    throw OutOfMemory(text("block row ", indices_.at(row.begin).i, " of A"),
                      text("its ", row.size(), " blocks do not fit the limit with one column of B"),
                      "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }

  static constexpr std::uint32_t kRecordsPerCheck = 1u << 20;
  static constexpr std::uint64_t kMarkShare = 16;

  Output& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  std::span<const std::string> scratch_folders_;
  plan::Execution& execution_;
  plan::Limits limits_;  // of a range
  std::uint64_t read_bytes_;
  std::uint64_t most_marks_;  // runs of rows of B that a range of several rows meets
  bool is_square_;            // one file is both operands
  std::uint64_t b_offset_;
  io::ScratchFile file_;
  std::uint64_t sort_bytes_;
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;       // unless one file is both operands
  std::optional<SortedMatrix> slabs_of_b_;  // B once more, if it is cut into slabs
  std::optional<plan::RangeRoom> room_;
  IndexReader indices_;
  std::vector<RowTable> tables_;     // [slabs]
  std::vector<std::uint32_t> ends_;  // without slabs: of the ranges of A
  std::uint64_t most_of_a_ = 0;      // with slabs: blocks of A whose results are merged at a time
  ProductStats total_;
};

}  // namespace

ProductStats multiply_out_of_core(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders,
                                  plan::Execution& execution) {
  try {
    return OutOfCore(inputs, sink, multiply_at_once, run, scratch_folders, execution).multiply();
  } catch (const io::ScratchFull& full) {
    throw OutOfMemory("the scratch file", full.why,
                      "free space there, set TMPDIR to a folder on a larger disk, or raise "
                      "EngineOptions::memory_limit_bytes");
  }
}

}  // namespace spmm
