// Out of core: both operands are sorted into a scratch file, then the product is computed range by range.
#include "engine/out_of_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cpu/simd/isa.hpp"
#include "engine/row_table.hpp"
#include "engine/sorted_matrix.hpp"
#include "io/files/scratch_file.hpp"
#include "io/memory/picked_source.hpp"
#include "plan/out_of_core.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

using namespace out_of_core;

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

/// Keeps the records of one column slab after the other in a scratch file.
class SlabResults final : public Sink {
 public:
  SlabResults(const io::ScratchFile& file, std::uint32_t m) : file_(file), record_(output_record_bytes(m)) {}

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

  /// Interleaves the slabs row by row into `sink`; returns when that has released everything. Errors: as Sink;
  /// Interrupted.
  void merge(std::uint64_t memory_bytes, Output& sink, const Run& run) const {
    const auto timing = run.clock.scope(Stage::write);
    std::uint64_t num_written = 0;
    merge_parts(file_, slabs_, SortedBy::rows, record_, memory_bytes, [&](std::span<const std::byte> records) {
      run.check_cancelled();
      sink.write(num_written, records, {});
      sink.wait_until_released(run);
      num_written += records.size() / record_;
    });
  }

 private:
  const io::ScratchFile& file_;
  std::uint64_t record_;
  std::vector<SortedPart> slabs_;
};

/// The rows of B that a range of A meets, and a few others: a bit for all rows of one hash.
class RowFilter {
 public:
  RowFilter(std::uint64_t num_rows, std::uint64_t most_bytes) {
    constexpr std::uint64_t kWordBits = 64;
    constexpr std::uint64_t kBitsOfRow = 8;  // an eighth of the other rows passes
    const std::uint64_t bits = std::bit_floor(std::clamp(num_rows * kBitsOfRow, kWordBits, most_bytes * 8 + kWordBits));
    words_.assign(bits / kWordBits, 0);
    shift_ = 64 - static_cast<unsigned>(std::bit_width(bits - 1));
  }

  void add(std::uint32_t row) { words_[place(row) / 64] |= std::uint64_t{1} << place(row) % 64; }
  [[nodiscard]] bool contains(std::uint32_t row) const { return (words_[place(row) / 64] >> place(row) % 64 & 1) != 0; }

 private:
  [[nodiscard]] std::uint64_t place(std::uint32_t row) const {
    return (row * std::uint64_t{0x9E37'79B9'7F4A'7C15}) >> shift_;
  }

  std::vector<std::uint64_t> words_;
  unsigned shift_ = 0;
};

/// Whole rows of A that fit with the records of B that they may meet.
struct MetRange {
  RecordRange a{};
  std::uint64_t b_blocks = 0;
  double pairs = 0;  ///< at most
  bool fits = true;  ///< false: a single row that does not
};

class OutOfCore {
 public:
  OutOfCore(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once, const Run& run,
            std::span<const std::string> scratch_folders, plan::Execution& execution)
      : sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        execution_(execution),
        limits_(execution.range_limits),
        limit_bytes_(execution.host_limit_bytes),
        read_bytes_(std::clamp<std::uint64_t>(limit_bytes_ / 64, 4u << 10, 256u << 10)),
        list_bytes_(limit_bytes_ / 16),
        is_square_(is_same_file(inputs)),
        b_offset_(is_square_ ? 0 : bytes_of(inputs.a.header())),
        spare_(make_scratch_file(scratch_folders, std::max(bytes_of(inputs.a.header()), bytes_of(inputs.b.header())))),
        file_(make_scratch_file(scratch_folders, b_offset_ + bytes_of(inputs.b.header()))),
        a_(inputs.a, SortedBy::rows, file_, 0, spare_, sort_bytes(), run),
        indices_(a_, read_bytes_) {
    execution_.scratch_bytes = plan::scratch_bytes(inputs.a.header(), inputs.b.header(), is_square_);
    if (!is_square_) own_b_.emplace(inputs.b, SortedBy::rows, file_, b_offset_, spare_, sort_bytes(), run);
  }

  /// Leaves in the execution what ran.
  ProductStats multiply() {
    const std::uint32_t num_a_blocks = a_.header().num_blocks;
    const bool is_empty = b().header().num_blocks == 0;  // both are checked, and nothing is left to multiply
    std::uint32_t num_ranges = 0;
    if (!is_empty) {
      for (std::uint32_t first = 0; first < num_a_blocks; ++num_ranges) {
        run_.check_cancelled();
        sink_.set_begin(total_.num_blocks);
        const MetRange range = next_range(first);
        first = slabs_pay(range) ? multiply_slabs(first) : multiply_rows(range.a);
      }
    }
    if (total_.device.empty() && execution_.backend == Backend::cpu) total_.device = cpu::isa_name(cpu::choose_isa());
    execution_.num_a_slabs = std::max(2U, num_ranges);
    execution_.num_b_slabs = most_slabs_;
    return total_;
  }

 private:
  [[nodiscard]] const SortedMatrix& b() const { return own_b_ ? *own_b_ : a_; }
  [[nodiscard]] std::uint64_t sort_bytes() const { return limit_bytes_ / 4 * 3; }

  /// What a table or a filter of so many bytes leaves to a range.
  [[nodiscard]] plan::Limits limits_beside(std::uint64_t bytes) const {
    plan::Limits limits = execution_.range_limits;
    limits.host_bytes = limit_bytes_ - std::min(limit_bytes_, bytes + 2 * read_bytes_ + list_bytes_);
    return limits;
  }

  /// As many whole rows of A as fit with what they meet in B, at least one.
  MetRange next_range(std::uint32_t first) {
    constexpr std::uint32_t kRecordsPerCheck = 1u << 20;
    if (!table_) {
      const std::uint64_t others = execution_.range_limits.host_bytes + 2 * read_bytes_ + list_bytes_;
      table_.emplace(b(), limit_bytes_ - std::min(limit_bytes_, others), read_bytes_, run_);
      limits_ = limits_beside(table_->bytes());
      room_.emplace(a_.header(), b().header(), limits_);
    }
    const std::uint64_t most_marks = list_bytes_ / RangesSource::kRangeBytes;
    MetRange best{.a = {.begin = first, .end = first}};
    MetRange longer = best;
    table_->restart();
    const std::uint32_t num_blocks = a_.header().num_blocks;
    std::uint32_t row = 0;
    for (std::uint32_t r = first; r <= num_blocks; ++r) {
      const BlockIndex at = r < num_blocks ? indices_.at(r) : BlockIndex{};
      if (r == num_blocks || (r != first && at.i != row)) {  // the end of a row
        longer.a.end = r;
        longer.fits =
            room_->fits(longer.a.size(), longer.b_blocks) && (best.a.size() == 0 || table_->num_marked() <= most_marks);
        if (!longer.fits) return best.a.size() == 0 ? longer : best;
        best = longer;
        if (r == num_blocks) break;
      }
      row = at.i;
      const RowTable::Met met = table_->add(at.j);
      longer.b_blocks += met.is_new ? met.num_records : 0;
      longer.pairs += met.num_records;
      if (r % kRecordsPerCheck == 0) run_.check_cancelled();
    }
    return best;
  }

  /// Rows of A with those of B that they meet. Returns where the next range begins.
  std::uint32_t multiply_rows(RecordRange rows) {
    table_->restart();  // the search went too far
    for (std::uint32_t r = rows.begin; r < rows.end; ++r) table_->add(indices_.at(r).j);
    multiply_range(rows, RangesSource(b(), table_->marked()), sink_);
    return rows.end;
  }

  /// Seconds for each block of A to multiply a range of so many blocks with slabs of B.
  [[nodiscard]] double slab_seconds(double a_blocks, double slab_blocks) const {
    const double b_blocks = b().header().num_blocks;
    const double slabs = std::ceil(b_blocks / slab_blocks);
    return seconds(slabs * a_blocks + b_blocks, slabs) / a_blocks;
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

  /// The sizes of ranges with slabs that take the least time.
  void choose_slabs() {
    plan::RangeRoom room(a_.header(), b().header(), limits_beside(list_bytes_));
    double best_s = std::numeric_limits<double>::infinity();
    for (double most_b = b().header().num_blocks; most_b >= 1; most_b /= 1.25) {
      const std::uint64_t most_a = room.most_of_a(static_cast<std::uint64_t>(most_b));
      if (most_a == 0 || slab_seconds(static_cast<double>(most_a), most_b) >= best_s) continue;
      best_s = slab_seconds(static_cast<double>(most_a), most_b);
      slab_a_ = static_cast<std::uint32_t>(most_a);
      slab_b_ = most_b;
    }
    slab_a_ = std::max(1u, slab_a_);
  }

  /// Whether a block of A takes less time in a range with slabs than in this one, or this one does not fit.
  bool slabs_pay(const MetRange& range) {
    if (slab_a_ == 0) choose_slabs();
    if (!range.fits) return true;
    constexpr double kMergeBytesPerS = 0.5e9;  // written, read and copied
    const double a_blocks = a_.header().num_blocks;
    const double even = plan::expected_statistics(a_.header(), b().header()).num_c_blocks;
    const double c_blocks = std::min(range.pairs / range.a.size(), even / a_blocks);
    const double merge_s = c_blocks * static_cast<double>(output_record_bytes(a_.header().m)) / kMergeBytesPerS;
    return slab_seconds(std::min<double>(slab_a_, a_blocks - range.a.begin), slab_b_) + merge_s <
           seconds(range.a.size() + static_cast<double>(range.b_blocks), 1) / range.a.size();
  }

  /// Whole rows of A from a record on: as many as have so many blocks, at least one.
  RecordRange whole_rows(std::uint32_t first, std::uint32_t most_blocks) {
    const std::uint32_t num_blocks = a_.header().num_blocks;
    RecordRange rows{.begin = first, .end = first};
    for (std::uint32_t r = first + 1; r < num_blocks; ++r) {
      if (indices_.at(r).i != indices_.at(r - 1).i) rows.end = r;
      if (rows.size() != 0 && r + 1 - first > most_blocks) return rows;
    }
    return {.begin = first, .end = num_blocks};
  }

  /// Rows of A with one slab of B after the other. Returns where the next range begins.
  std::uint32_t multiply_slabs(std::uint32_t first) {
    table_.reset();
    if (!columns_) {
      columns_.emplace(b(), SortedBy::columns, file_, b_offset_ + bytes_of(b().header()), spare_, sort_bytes(), run_);
    }
    for (std::uint32_t most = std::max(1u, slab_a_);; most /= 2) {
      const RecordRange rows = whole_rows(first, std::max(1u, most));
      const bool is_row = row_span(rows) == 1;
      RowFilter filter(rows.size(), list_bytes_);
      for (std::uint32_t r = rows.begin; r < rows.end; ++r) filter.add(indices_.at(r).j);
      limits_ = limits_beside(list_bytes_);
      const io::PickedSource met(
          *columns_, [&](BlockIndex at) { return filter.contains(at.i); }, run_);
      const std::vector<std::uint32_t> ends = slab_ends(met, rows);
      if (ends.empty() && is_row) throw_row_too_large(rows);
      if (ends.empty()) continue;
      most_slabs_ = std::max(most_slabs_, static_cast<std::uint32_t>(ends.size()));
      SlabResults results(spare_, a_.header().m);
      const std::uint64_t num_before = total_.num_blocks;
      const bool is_in_order = is_row || ends.size() == 1;
      for (RecordRange slab; const std::uint32_t end : ends) {
        slab = {.begin = slab.end, .end = end};
        results.begin_slab();
        sink_.set_begin(total_.num_blocks);
        multiply_range(rows, RangesSource(met, {slab}), is_in_order ? static_cast<Sink&>(sink_) : results);
      }
      if (is_in_order) return rows.end;
      sink_.set_begin(num_before);
      results.merge(limits_.host_bytes, sink_, run_);
      return rows.end;
    }
  }

  /// Block rows from the first to the last of a range of A.
  std::uint32_t row_span(RecordRange rows) { return indices_.at(rows.end - 1).i - indices_.at(rows.begin).i + 1; }

  /// Ends of slabs of whole columns that fit with rows of A; none if a column does not.
  std::vector<std::uint32_t> slab_ends(const Source& met, RecordRange rows) {
    const std::uint32_t num_blocks = met.header().num_blocks;
    const std::uint64_t most = plan::most_of_b(a_.header(), rows.size(), row_span(rows), met.header(), limits_);
    if (num_blocks == 0) return {0};
    IndexReader columns(met, 4u << 10);
    const auto column_of = [&](std::uint64_t record) { return columns.at(static_cast<std::uint32_t>(record)).j; };
    std::vector<std::uint32_t> ends;
    for (std::uint64_t begin = 0; begin < num_blocks; begin = ends.back()) {
      std::uint64_t end = begin + most;
      if (end < num_blocks) {  // the first record of the column there
        const std::uint32_t column = column_of(end);
        std::uint64_t low = begin;
        for (std::uint64_t step = 16; step < end - begin && low == begin; step *= 2) {
          if (column_of(end - step) < column) low = end - step;
        }
        while (low < end) {
          const std::uint64_t middle = low + (end - low) / 2;
          const bool is_before = column_of(middle) < column;
          (is_before ? low : end) = is_before ? middle + 1 : middle;
        }
      }
      if (end == begin) return {};
      ends.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(end, num_blocks)));
    }
    return ends;
  }

  /// One product; none if no block of B is left, unless it is the last one and nothing says yet what runs.
  void multiply_range(RecordRange rows, const Source& b, Sink& sink) {
    const bool is_last = rows.end == a_.header().num_blocks;
    if (b.header().num_blocks == 0 && !(is_last && total_.device.empty())) return;
    plan::Execution one =
        plan::decide_range(a_.header(), rows.size(), row_span(rows), b.header(), b.header().num_blocks, limits_);
    plan::throw_if_refused(one);
    one.range_limits = limits_;
    const RangesSource a(a_, {rows});
    const ProductStats before = std::exchange(total_, multiply_at_once_({a, b}, sink, one));
    sink_.wait_until_released(run_);  // buffers of a range are free before those of the next one are allocated
    total_.num_blocks += before.num_blocks;
    check_num_output_blocks(total_.num_blocks);
    total_.pairs += before.pairs;
    total_.num_panels += before.num_panels;
    total_.num_saturated += before.num_saturated;
    total_.peak_device_bytes = std::max(total_.peak_device_bytes, before.peak_device_bytes);
    execution_.id = one.id;
    execution_.kernel = one.kernel;
  }

  /// Errors: always OutOfMemory.
  [[noreturn]] void throw_row_too_large(RecordRange row) {
    throw OutOfMemory(text("block row ", indices_.at(row.begin).i, " of A"),
                      text("its ", row.size(), " blocks do not fit the limit with one column of B"),
                      "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
  }

  Output& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  plan::Execution& execution_;
  plan::Limits limits_;  // of a range
  std::uint64_t limit_bytes_;
  std::uint64_t read_bytes_;
  std::uint64_t list_bytes_;  // which rows of B a range meets
  bool is_square_;            // one file is both operands
  std::uint64_t b_offset_;
  io::ScratchFile spare_;  // parts of an operand while it is sorted, then results of slabs
  io::ScratchFile file_;
  SortedMatrix a_;
  std::optional<SortedMatrix> own_b_;    // unless one file is both operands
  std::optional<SortedMatrix> columns_;  // B by columns, once slabs are needed
  IndexReader indices_;
  std::optional<RowTable> table_;  // between ranges with slabs, which need the memory
  std::optional<plan::RangeRoom> room_;
  std::uint32_t slab_a_ = 0;  // blocks of A in a range with slabs; 0 = not chosen yet
  double slab_b_ = 1;         // blocks of B in a slab
  std::uint32_t most_slabs_ = 1;
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
