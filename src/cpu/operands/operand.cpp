#include "cpu/operands/operand.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/run/pieces.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "cpu/operands/pack_block.hpp"
#include "cpu/operands/read_records.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kMinPerThread = 1u << 15;  // below it, starting a thread costs more than it saves
constexpr std::uint64_t kRecordsPerCheck = 1u << 18;
constexpr std::uint64_t kBucketsPerTurn = 4;  // a worker takes at a time
constexpr std::uint64_t kRecordsAhead = 40;   // that are fetched before they are packed
constexpr std::uint64_t kNone = ~std::uint64_t{0};

/// std::lower_bound() on [from, end) for a value that is expected near `from`: in steps that double.
template <class Iterator, class Value>
Iterator lower_bound_near(Iterator from, Iterator end, const Value& value) {
  std::ptrdiff_t step = 1;
  while (step < end - from && from[step - 1] < value) {
    from += step;
    step *= 2;
  }
  return std::lower_bound(from, from + std::min<std::ptrdiff_t>(step, end - from), value);
}

/// Copies the blocks of records into an operand.
class BlockPacker {
 public:
  BlockPacker(const IndexedRecords& records, Side side, const PackedShape& shape, const PackedOperand& out)
      : raw_(records.raw.data()),
        record_(input_record_bytes(shape.m)),
        shape_(shape),
        pack_(side == Side::a ? choose_pack_a(shape) : choose_pack_b(shape)),
        stride_(side == Side::a ? shape.a_elements() : shape.b_elements()),
        values_(out.values.data()) {}

  void fetch(std::uint64_t record) const {
    const std::byte* const from = raw_ + record * record_;
    __builtin_prefetch(from);
    __builtin_prefetch(from + 64);
    __builtin_prefetch(from + record_ - 1);
  }

  /// Returns the bits that occur in any element.
  std::uint32_t pack(std::uint64_t record, std::uint64_t block) const {
    return pack_(shape_, raw_ + record * record_ + kIndexBytes, values_ + block * stride_);
  }

 private:
  const std::byte* raw_;
  std::uint64_t record_;
  PackedShape shape_;
  PackBlock pack_;
  std::uint64_t stride_;
  std::uint16_t* values_;
};

/// Sorts the records of a source: a counting sort by the upper bits of their block rows, which parts them into buckets,
/// then each bucket by the rest of their positions. An entry is this rest and the number of the record, or, of side 1,
/// its only element. Values: Word = 8 bytes, or 16 if key_bits() need them.
template <class Word>
class OperandBuilder {
 public:
  /// Values: first_row, last_row = the smallest and the largest block row of a record. Matrices that were padded to a
  /// square, and ranges, have few.
  OperandBuilder(const Source& source, std::uint32_t first_row, std::uint32_t last_row, const PackedShape& shape,
                 Side side, const Run& run)
      : source_(source), shape_(shape), side_(side), run_(run), first_row_(std::min(first_row, last_row)) {
    span_ = std::min(source.header().blocks_per_side() - 1, last_row) - first_row_ + 1;
    const auto row_bits = std::min(bits_.index, static_cast<unsigned>(std::bit_width(last_row - first_row_)));
    row_shift_ = row_bits - std::min(row_bits, bits_.bucket);
    begins_.resize((std::size_t{1} << (row_bits - row_shift_)) + 1, 0);
  }

  PackedOperand build(IndexedRecords records) {
    part(records);
    records.elements = {};
    AlignedArray<Word> scratch;
    if constexpr (std::is_same_v<Word, std::uint64_t>) {
      scratch = std::move(records.heads);
    } else {
      records.heads = {};
      scratch = AlignedArray<Word>(size_);
    }
    const OperandSizes sizes = operand_sizes(source_.header(), side_, shape_, span_);
    out_.rows = AlignedArray<std::uint32_t>(sizes.rows);
    out_.row_ptr = AlignedArray<std::uint32_t>(sizes.rows + 1);
    out_.cols = AlignedArray<std::uint32_t>(sizes.blocks);
    out_.values = AlignedArray<std::uint16_t>(sizes.blocks * sizes.block_elements);
    place_rows();
    const BlockPacker packer(records, side_, shape_, out_);
    const auto fill_buckets = [&](std::uint64_t begin, std::uint64_t end) {
      run_.check_cancelled();
      DigitSorter sorter;
      for (std::uint64_t bucket = begin; bucket < end; ++bucket) {
        const std::uint64_t first = begins_[bucket];
        const Word* const sorted =
            sorter.sort(entries_.data() + first, begins_[bucket + 1] - first, scratch.data() + first, bits_.payload,
                        bits_.payload + bits_.index + row_shift_);
        shape_.m == 1 ? fill<true>(bucket, sorted, packer) : fill<false>(bucket, sorted, packer);
      }
    };
    const std::uint64_t for_one_thread = num_buckets() * kMinPerThread / std::max<std::uint64_t>(1, size_);
    run_.parallel_for(num_buckets(), std::max(kBucketsPerTurn, for_one_thread), fill_buckets);
    if (twice_at_ != kNone) throw_stored_twice(source_, twice_, run_);
    join_rows();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::uint64_t num_buckets() const { return begins_.size() - 1; }

  /// Fills entries_ and begins_; the records of a bucket stay in their order. Errors: FormatError for the first record
  /// whose index is out of range.
  void part(const IndexedRecords& records) {
    const std::uint32_t nb = source_.header().blocks_per_side();
    const KeyBits bits = bits_;
    const unsigned row_shift = row_shift_;
    const std::uint32_t first_row = first_row_;
    const Word low_rows = (std::uint64_t{1} << row_shift) - 1;
    const auto num_workers =
        static_cast<unsigned>(std::clamp<std::uint64_t>(size_ / kMinPerThread, 1, std::max(1u, run_.num_threads)));
    const auto for_workers = [&](const auto& body) {  // body(worker, record) for a share of the records
      run_.run_workers(num_workers, [&](unsigned worker) {
        const std::uint64_t last = size_ * (worker + 1) / num_workers;
        for (std::uint64_t r = size_ * worker / num_workers; r < last;) {
          run_.check_cancelled();
          for (const std::uint64_t stop = std::min(last, r + kRecordsPerCheck); r < stop; ++r) body(worker, r);
        }
      });
    };
    std::vector<std::vector<std::uint64_t>> next(num_workers, std::vector<std::uint64_t>(num_buckets(), 0));
    std::atomic<std::uint64_t> first_bad = kNone;
    for_workers([&, counts = next.data()](unsigned worker, std::uint64_t r) {
      const BlockIndex at = records.index(r);
      if (std::max(at.i, at.j) < nb) {
        ++counts[worker][(at.i - first_row) >> row_shift];
        return;
      }
      std::uint64_t known = first_bad.load();
      while (r < known && !first_bad.compare_exchange_weak(known, r)) {
      }
    });
    if (first_bad != kNone) throw_index_out_of_range(source_, first_bad, records.index(first_bad));
    std::uint64_t before = 0;
    for (std::uint64_t bucket = 0; bucket < num_buckets(); ++bucket) {
      begins_[bucket] = before;
      for (std::vector<std::uint64_t>& of_worker : next) before += std::exchange(of_worker[bucket], before);
    }
    begins_.back() = before;
    entries_ = AlignedArray<Word>(size_);
    const std::uint16_t* const elements = records.elements.data();
    for_workers([&, to = entries_.data(), places = next.data()](unsigned worker, std::uint64_t r) {
      const BlockIndex at = records.index(r);
      const std::uint32_t row = at.i - first_row;
      const Word key = (row & low_rows) << bits.index | at.j;
      to[places[worker][row >> row_shift]++] = key << bits.payload | (elements != nullptr ? elements[r] : r);
    });
  }

  /// Fills first_rows_: each bucket gets room for as many rows as it may have.
  void place_rows() {
    first_rows_.assign(begins_.size(), 0);
    num_rows_.assign(num_buckets(), 0);
    for (std::uint64_t bucket = 0; bucket < num_buckets(); ++bucket) {
      const std::uint64_t first = std::min<std::uint64_t>(span_, bucket << row_shift_);
      const std::uint64_t rows = std::min<std::uint64_t>(span_ - first, std::uint64_t{1} << row_shift_);
      first_rows_[bucket + 1] = first_rows_[bucket] + std::min(begins_[bucket + 1] - begins_[bucket], rows);
    }
  }

  /// Rows, columns and blocks of a sorted bucket. Values: kElements = side 1. Threads: any.
  template <bool kElements>
  void fill(std::uint64_t bucket, const Word* sorted, const BlockPacker& packer) {
    const KeyBits bits = bits_;  // a copy: it cannot change while arrays are written
    const Word columns = (std::uint64_t{1} << bits.index) - 1;
    const Word payloads = (std::uint64_t{1} << bits.payload) - 1;
    const std::uint64_t begin = begins_[bucket];
    const std::uint64_t count = begins_[bucket + 1] - begin;
    std::uint32_t* const rows = out_.rows.data() + first_rows_[bucket];
    std::uint32_t* const row_ptr = out_.row_ptr.data() + first_rows_[bucket];
    std::uint32_t* const cols = out_.cols.data() + begin;
    std::uint16_t* const values = out_.values.data() + begin;
    Word before = ~Word{0};  // no key
    std::uint32_t num_rows = 0;
    std::uint32_t seen = 0;
    for (std::uint64_t x = 0; x < count; ++x) {
      if (x % kRecordsPerCheck == kRecordsPerCheck - 1) run_.check_cancelled();
      const Word key = sorted[x] >> bits.payload;
      cols[x] = static_cast<std::uint32_t>(key & columns);
      if constexpr (kElements) {
        values[x] = static_cast<std::uint16_t>(sorted[x]);
        seen |= values[x];
      } else {
        if (x + kRecordsAhead < count) packer.fetch(static_cast<std::uint64_t>(sorted[x + kRecordsAhead] & payloads));
        seen |= packer.pack(static_cast<std::uint64_t>(sorted[x] & payloads), begin + x);
      }
      const Word row = key >> bits.index;
      if (key == before) {
        note_twice(begin + x, {.i = rows[num_rows - 1], .j = cols[x]});
      } else if (num_rows == 0 || row != before >> bits.index) {
        rows[num_rows] =
            first_row_ + static_cast<std::uint32_t>(bucket << row_shift_) + static_cast<std::uint32_t>(row);
        row_ptr[num_rows++] = static_cast<std::uint32_t>(begin + x);
      }
      before = key;
    }
    num_rows_[bucket] = num_rows;
    std::atomic_ref(out_.seen_bits).fetch_or(seen, std::memory_order_relaxed);
  }

  void note_twice(std::uint64_t at, BlockIndex index) {
    const std::lock_guard lock(mutex_);
    if (at >= twice_at_) return;
    twice_at_ = at;
    twice_ = index;
  }

  /// Moves the rows of all buckets next to each other.
  void join_rows() {
    std::uint64_t next = 0;
    for (std::uint64_t bucket = 0; bucket < num_buckets(); ++bucket) {
      const std::uint64_t from = first_rows_[bucket];
      if (from != next) {
        std::copy_n(out_.rows.data() + from, num_rows_[bucket], out_.rows.data() + next);
        std::copy_n(out_.row_ptr.data() + from, num_rows_[bucket], out_.row_ptr.data() + next);
      }
      next += num_rows_[bucket];
    }
    out_.rows.truncate(next);
    out_.row_ptr.truncate(next + 1);
    out_.row_ptr[next] = static_cast<std::uint32_t>(size_);
  }

  const Source& source_;
  const PackedShape shape_;
  const Side side_;
  const Run& run_;
  const KeyBits bits_ = key_bits(source_.header());
  const std::uint64_t size_ = source_.header().num_blocks;
  const std::uint32_t first_row_;
  std::uint32_t span_ = 0;                 // block rows from the first to the last, in the matrix
  unsigned row_shift_ = 0;                 // from a block row, less the first one, to its bucket
  AlignedArray<Word> entries_;             // bucket by bucket
  std::vector<std::uint64_t> begins_;      // [buckets + 1]
  std::vector<std::uint64_t> first_rows_;  // [buckets + 1] in the arrays of rows
  std::vector<std::uint32_t> num_rows_;    // [buckets]
  PackedOperand out_;
  std::mutex mutex_;
  std::uint64_t twice_at_ = kNone;  // the first entry whose position is that of the entry before
  BlockIndex twice_{};
};

}  // namespace

PackedOperand build_operand(const Source& source, Side side, const PackedShape& shape, Progress& progress,
                            const Run& run) {
  IndexedRecords records = read_indexed_records(source, progress, run);
  const auto timing = run.clock.scope(Stage::build);
  const auto [first_row, last_row] = std::pair(records.first_row, records.last_row);
  if (key_bits(source.header()).word_bytes() == sizeof(std::uint64_t)) {
    return OperandBuilder<std::uint64_t>(source, first_row, last_row, shape, side, run).build(std::move(records));
  }
  return OperandBuilder<unsigned __int128>(source, first_row, last_row, shape, side, run).build(std::move(records));
}

AlignedArray<std::uint64_t> link_rows(PackedOperand& a, const PackedOperand& b, std::uint32_t blocks_per_side,
                                      const Run& run) {
  const bool has_all_rows = b.num_rows() == blocks_per_side;  // then positions are block rows
  AlignedArray<std::uint32_t> table;                          // [blocks_per_side], where it pays
  if (!has_all_rows && has_row_table(blocks_per_side, a.cols.size() + b.cols.size())) {
    table = AlignedArray<std::uint32_t>(blocks_per_side);
    for_ranges(run, table.size(), [&](std::uint64_t begin, std::uint64_t end) {
      std::fill(table.data() + begin, table.data() + end, kNoRow);
    });
    for_ranges(run, b.num_rows(), [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t r = begin; r < end; ++r) table[b.rows[r]] = static_cast<std::uint32_t>(r);
    });
  }
  // Columns ascend within a row of A: a search begins where the last one ended.
  const auto find_row = [&](std::uint32_t row, const std::uint32_t*& near) {
    if (table.size() != 0) return table[row];
    near = lower_bound_near(near, static_cast<const std::uint32_t*>(b.rows.end()), row);
    return near != b.rows.end() && *near == row ? static_cast<std::uint32_t>(near - b.rows.begin()) : kNoRow;
  };
  AlignedArray<std::uint64_t> pairs(a.num_rows());
  run.parallel_for(a.num_rows(), 256, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t r = begin; r < end; ++r) {
      std::uint64_t of_row = 0;
      const std::uint32_t* near = b.rows.begin();
      for (std::uint32_t x = a.row_ptr[r]; x < a.row_ptr[r + 1]; ++x) {
        std::uint32_t row = a.cols[x];
        if (!has_all_rows) {
          row = find_row(row, near);
          a.cols[x] = row;
          if (row == kNoRow) continue;
        }
        const std::uint32_t* const cols = b.cols.data() + b.row_ptr[row];
        const std::uint32_t* const cols_end = b.cols.data() + b.row_ptr[row + 1];
        const auto* const first = run.selection.upper_triangle ? std::lower_bound(cols, cols_end, a.rows[r]) : cols;
        of_row += static_cast<std::uint64_t>(cols_end - first);
      }
      pairs[r] = of_row;
    }
  });
  return pairs;
}

}  // namespace spmm::cpu
