#include "cpu/operands/element_operand.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cpu/operands/element_rows.hpp"
#include "cpu/operands/element_runs.hpp"
#include "cpu/operands/order/digit_sorter.hpp"
#include "cpu/operands/order/radix_sort.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kRecord = input_record_bytes(1);
constexpr std::uint64_t kPieceEntries = 1u << 16;      // of a bucket that all threads share
constexpr std::uint32_t kBucketsPerTurn = 4;           // a worker takes at a time
constexpr std::uint64_t kMinSharedEntries = 1u << 20;  // buckets below are sorted by one thread

using Nanoseconds = std::chrono::nanoseconds;

/// The time of a phase in which threads read and build in turns goes to both stages in proportion.
class SharedTime {
 public:
  explicit SharedTime(StageClock& clock) : clock_(clock), begin_(now()) {}
  ~SharedTime() {
    const double spent = static_cast<double>(reading_ + building_);
    if (spent == 0) return;
    const double wall = std::chrono::duration<double>(now() - begin_).count();
    clock_.add_seconds(Stage::read, wall * static_cast<double>(reading_) / spent);
    clock_.add_seconds(Stage::build, wall * static_cast<double>(building_) / spent);
  }
  SharedTime(const SharedTime&) = delete;
  SharedTime& operator=(const SharedTime&) = delete;

  using Point = std::chrono::steady_clock::time_point;
  static Point now() { return std::chrono::steady_clock::now(); }
  void add(Point begin, Point read, Point built) {
    reading_ += std::chrono::duration_cast<Nanoseconds>(read - begin).count();
    building_ += std::chrono::duration_cast<Nanoseconds>(built - read).count();
  }

 private:
  StageClock& clock_;
  Point begin_;
  std::atomic<std::int64_t> reading_ = 0;
  std::atomic<std::int64_t> building_ = 0;
};

void read_runs(const Source& source, Progress& progress, const Run& run, ElementRuns& runs) {
  SharedTime time(run.clock);
  run.parallel_for(runs.num_chunks(), 1, [&](std::uint64_t chunk, std::uint64_t) {
    run.check_cancelled();
    const std::uint64_t count = runs.num_records(chunk);
    const AlignedArray<std::byte> records(count * kRecord);
    const auto begin = SharedTime::now();
    {
      const TraceSpan piece(run.clock.trace(), stage_name(Stage::read), {.bytes = count * kRecord});
      source.read(runs.first_record(chunk), count, records.data());
    }
    const auto read = SharedTime::now();
    {
      const TraceSpan piece(run.clock.trace(), stage_name(Stage::build));
      runs.add(chunk, records.data());
    }
    time.add(begin, read, SharedTime::now());
    progress.add(count * kRecord);
  });
  run.clock.add_bytes(Stage::read, source.header().num_blocks * kRecord);
}

/// Calls body(number, index) for all records of a source, in their order, until it returns false.
template <class Body>
void for_records(const Source& source, const Run& run, const Body& body) {
  const std::uint64_t size = source.header().num_blocks;
  const AlignedArray<std::byte> records(plan::kRunChunkRecords * kRecord);
  for (std::uint64_t first = 0; first < size; first += plan::kRunChunkRecords) {
    run.check_cancelled();
    const std::uint64_t count = std::min(plan::kRunChunkRecords, size - first);
    source.read(first, count, records.data());
    for (std::uint64_t r = 0; r < count; ++r) {
      if (!body(first + r, read_index(records.data() + r * kRecord))) return;
    }
  }
}

[[noreturn]] void throw_first_duplicate(const Source& source, BlockIndex at, const Run& run) {
  std::array<std::uint64_t, 2> numbers = {0, 0};
  std::size_t found = 0;
  for_records(source, run, [&](std::uint64_t number, BlockIndex here) {
    if (here.i == at.i && here.j == at.j) numbers[found++] = number;
    return found < numbers.size();
  });
  throw_duplicate_block(source, numbers[0], numbers[1], at);
}

/// Entries in order of their positions, by one thread.
class Sorter {
 public:
  /// Room for a bucket. Memory: 16 bytes per entry of the largest one.
  std::uint64_t* items_for(std::uint64_t count) {
    if (items_.size() < count) {
      items_ = {};
      scratch_ = {};
      items_ = AlignedArray<std::uint64_t>(count);
      scratch_ = AlignedArray<std::uint64_t>(count);
    }
    return items_.data();
  }

  /// Sorts what is in items_for(count) by bits [first_bit, last_bit). Returns where the result lies.
  const std::uint64_t* sort(std::uint64_t count, unsigned first_bit, unsigned last_bit) {
    return digits_.sort({items_.data(), count}, scratch_.data(), first_bit, last_bit);
  }

 private:
  AlignedArray<std::uint64_t> items_;
  AlignedArray<std::uint64_t> scratch_;
  DigitSorter digits_;
};

/// Sorted buckets become rows, columns and elements.
class Emitter {
 public:
  Emitter(const ElementRuns& runs, const MatrixHeader& header)
      : runs_(runs), begins_(runs.bucket_begins()), first_slots_(runs.num_buckets() + std::size_t{1}, 0) {
    const std::uint64_t most_rows = std::min(header.num_blocks, header.blocks_per_side());
    const std::uint64_t rows_per_bucket = std::uint64_t{1} << (runs.bits().index - runs.bits().bucket);
    for (std::uint32_t bucket = 0; bucket < runs.num_buckets(); ++bucket) {
      const std::uint64_t rows =
          std::min<std::uint64_t>(rows_per_bucket, header.blocks_per_side() - runs.first_row(bucket));
      first_slots_[bucket + 1] = first_slots_[bucket] + (size(bucket) == 0 ? 0 : std::min(size(bucket), rows));
    }
    num_rows_.resize(runs.num_buckets(), 0);
    out_.rows = AlignedArray<std::uint32_t>(most_rows);  // no fewer than slots
    out_.row_ptr = AlignedArray<std::uint32_t>(most_rows + 1);
    out_.cols = AlignedArray<std::uint32_t>(header.num_blocks);
    out_.values = AlignedArray<std::uint16_t>(header.num_blocks);
  }

  [[nodiscard]] std::uint64_t size(std::uint32_t bucket) const { return begins_[bucket + 1] - begins_[bucket]; }

  /// Entries [first, last) of a sorted bucket; `row` = rows that start before them in the bucket. Returns how many
  /// start in them. Threads: any.
  std::uint32_t emit(std::uint32_t bucket, const std::uint64_t* sorted, std::uint64_t first, std::uint64_t last,
                     std::uint32_t row) {
    const plan::ShortKeyBits bits = runs_.bits();  // a copy: it cannot change while arrays are written
    const std::uint64_t columns = (std::uint64_t{1} << bits.index) - 1;
    const std::uint64_t slot = first_slots_[bucket] + row;
    const std::uint64_t begin = begins_[bucket];
    std::uint32_t* const rows = out_.rows.data() + slot;
    std::uint32_t* const row_ptr = out_.row_ptr.data() + slot;
    std::uint32_t* const cols = out_.cols.data() + begin;
    std::uint16_t* const values = out_.values.data() + begin;
    std::uint32_t count = 0;
    std::uint64_t before = first == 0 ? ~std::uint64_t{0} : sorted[first - 1] >> bits.payload;
    std::uint32_t seen = 0;
    for (std::uint64_t x = first; x < last; ++x) {
      const std::uint64_t key = sorted[x] >> bits.payload;
      const auto element = static_cast<std::uint16_t>(sorted[x]);
      cols[x] = static_cast<std::uint32_t>(key & columns);
      values[x] = element;
      seen |= element;
      if (key == before) note_twice(begin + x, runs_.index_of(bucket, sorted[x]));
      if (key >> bits.index != before >> bits.index) {
        rows[count] = runs_.first_row(bucket) + static_cast<std::uint32_t>(key >> bits.index);
        row_ptr[count] = static_cast<std::uint32_t>(begin + x);
        ++count;
      }
      before = key;
    }
    seen_bits_.fetch_or(seen, std::memory_order_relaxed);
    return count;
  }

  void set_rows(std::uint32_t bucket, std::uint32_t count) { num_rows_[bucket] = count; }

  /// A whole bucket, which `rows` brings into order. Threads: any.
  void emit(std::uint32_t bucket, ElementRows& rows) {
    const std::uint64_t begin = begins_[bucket];
    const std::uint64_t slot = first_slots_[bucket];
    const BucketRows found = rows.emit(bucket, size(bucket),
                                       {.rows = out_.rows.data() + slot,
                                        .row_ptr = out_.row_ptr.data() + slot,
                                        .cols = out_.cols.data() + begin,
                                        .values = out_.values.data() + begin,
                                        .first = static_cast<std::uint32_t>(begin)});
    set_rows(bucket, found.num_rows);
    seen_bits_.fetch_or(found.seen, std::memory_order_relaxed);
    if (found.twice_at != ElementRuns::kNone) note_twice(found.twice_at, found.twice);
  }

  /// The first position that occurs twice, if any does.
  [[nodiscard]] bool has_twice() const { return twice_at_ != ElementRuns::kNone; }
  [[nodiscard]] BlockIndex twice() const { return twice_; }

  PackedOperand finish() {
    std::uint64_t next = 0;
    for (std::uint32_t bucket = 0; bucket < runs_.num_buckets(); ++bucket) {
      const std::uint64_t from = first_slots_[bucket];
      if (from != next) {
        std::copy_n(out_.rows.data() + from, num_rows_[bucket], out_.rows.data() + next);
        std::copy_n(out_.row_ptr.data() + from, num_rows_[bucket], out_.row_ptr.data() + next);
      }
      next += num_rows_[bucket];
    }
    out_.rows.truncate(next);
    out_.row_ptr.truncate(next + 1);
    out_.row_ptr[next] = static_cast<std::uint32_t>(begins_.back());
    out_.seen_bits = seen_bits_;
    return std::move(out_);
  }

 private:
  void note_twice(std::uint64_t at, BlockIndex index) {
    const std::lock_guard lock(mutex_);
    if (at >= twice_at_) return;
    twice_at_ = at;
    twice_ = index;
  }

  const ElementRuns& runs_;
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint64_t> first_slots_;  // [buckets + 1] of rows, where each row has one entry
  std::vector<std::uint32_t> num_rows_;     // [buckets] in use
  PackedOperand out_;
  std::atomic<std::uint32_t> seen_bits_ = 0;
  std::mutex mutex_;
  std::uint64_t twice_at_ = ElementRuns::kNone;
  BlockIndex twice_{};
};

void emit_small_buckets(const ElementRuns& runs, std::uint64_t most_entries, const Run& run, Emitter& emitter) {
  std::atomic<std::uint32_t> next = 0;
  const std::uint64_t turns = runs.num_buckets() / kBucketsPerTurn + 1;
  run.run_workers(static_cast<unsigned>(std::min<std::uint64_t>(std::max(1u, run.num_threads), turns)), [&](unsigned) {
    Sorter sorter;
    ElementRows rows(runs, choose_isa());
    const plan::ShortKeyBits& bits = runs.bits();
    for (std::uint32_t first = 0; (first = next.fetch_add(kBucketsPerTurn)) < runs.num_buckets();) {
      run.check_cancelled();
      const std::uint32_t last = std::min(first + kBucketsPerTurn, runs.num_buckets());
      for (std::uint32_t bucket = first; bucket < last; ++bucket) {
        const std::uint64_t size = emitter.size(bucket);
        if (size == 0 || size > most_entries) continue;
        if (rows.suits(size)) {
          emitter.emit(bucket, rows);
          continue;
        }
        runs.gather(bucket, sorter.items_for(size));
        const std::uint64_t* const sorted = sorter.sort(size, bits.payload, bits.payload + bits.key());
        emitter.set_rows(bucket, emitter.emit(bucket, sorted, 0, size, 0));
      }
    }
  });
}

/// A bucket with a good part of all entries, by all threads.
void emit_large_bucket(const ElementRuns& runs, std::uint32_t bucket, const Run& run, Emitter& emitter) {
  const plan::ShortKeyBits& bits = runs.bits();
  const std::uint64_t size = emitter.size(bucket);
  const AlignedArray<std::uint64_t> items(size);
  runs.gather(bucket, items.data());
  {
    const AlignedArray<std::uint64_t> scratch(size);
    radix_sort({items.data(), size}, scratch.data(), bits.payload, bits.payload + bits.key(), run.num_threads, &run);
  }
  const auto row_of = [&](std::uint64_t x) { return items[x] >> (bits.payload + bits.index); };
  std::vector<std::uint32_t> rows((size - 1) / kPieceEntries + 2, 0);
  run.parallel_for(size, kPieceEntries, [&](std::uint64_t begin, std::uint64_t end) {
    std::uint32_t count = 0;
    for (std::uint64_t x = begin; x < end; ++x) count += x == 0 || row_of(x) != row_of(x - 1) ? 1 : 0;
    rows[begin / kPieceEntries + 1] = count;
  });
  std::partial_sum(rows.begin(), rows.end(), rows.begin());
  run.parallel_for(size, kPieceEntries, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    emitter.emit(bucket, items.data(), begin, end, rows[begin / kPieceEntries]);
  });
  emitter.set_rows(bucket, rows.back());
}

/// Where rows begin among the records of a chunk.
struct RowStart {
  std::uint32_t row;
  std::uint32_t first;
};

/// The elements of a chunk of records that are in order; lists where rows begin. Returns the bits of all elements.
/// Errors: FormatError (not in order).
std::uint32_t take_sorted(const Source& source, std::uint64_t first, std::uint64_t count, PackedOperand& out,
                          std::vector<RowStart>& starts) {
  const std::uint64_t lead = first == 0 ? 0 : 1;  // the record before the chunk
  const AlignedArray<std::byte> records((count + lead) * kRecord);
  source.read(first - lead, count + lead, records.data());
  const std::byte* from = records.data() + lead * kRecord;
  BlockIndex before = lead == 0 ? BlockIndex{} : read_index(records.data());
  std::uint32_t seen = 0;
  for (std::uint64_t x = first; x < first + count; ++x, from += kRecord) {
    const BlockIndex at = read_index(from);
    if (x != 0 && !(before.i < at.i || (before.i == at.i && before.j < at.j))) throw_changed_content(source.name());
    if (x == 0 || at.i != before.i) starts.push_back({.row = at.i, .first = static_cast<std::uint32_t>(x)});
    std::uint16_t element = 0;
    std::memcpy(&element, from + kIndexBytes, sizeof element);
    out.cols[x] = at.j;
    out.values[x] = element;
    seen |= element;
    before = at;
  }
  return seen;
}

}  // namespace

PackedOperand build_sorted_elements(const Source& source, Progress& progress, const Run& run) {
  const auto timing = run.clock.scope(Stage::read);
  const std::uint64_t size = source.header().num_blocks;
  PackedOperand out;
  out.cols = AlignedArray<std::uint32_t>(size);
  out.values = AlignedArray<std::uint16_t>(size);
  std::vector<std::vector<RowStart>> starts((size + plan::kSortedChunkRecords - 1) / plan::kSortedChunkRecords);
  std::atomic<std::uint32_t> seen = 0;
  run.parallel_for(size, plan::kSortedChunkRecords, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    seen |= take_sorted(source, begin, end - begin, out, starts[begin / plan::kSortedChunkRecords]);
    progress.add((end - begin) * kRecord);
  });
  run.clock.add_bytes(Stage::read, size * kRecord);
  const std::uint64_t num_rows = std::accumulate(starts.begin(), starts.end(), std::uint64_t{0},
                                                 [](auto sum, const auto& x) { return sum + x.size(); });
  out.rows = AlignedArray<std::uint32_t>(num_rows);
  out.row_ptr = AlignedArray<std::uint32_t>(num_rows + 1);
  std::uint64_t row = 0;
  for (const std::vector<RowStart>& list : starts) {
    for (const RowStart& one : list) {
      out.rows[row] = one.row;
      out.row_ptr[row++] = one.first;
    }
  }
  out.row_ptr[num_rows] = static_cast<std::uint32_t>(size);
  out.seen_bits = seen;
  return out;
}

PackedOperand build_element_operand(const Source& source, Progress& progress, const Run& run) {
  const MatrixHeader& header = source.header();
  ElementRuns runs(header);
  read_runs(source, progress, run, runs);
  const auto timing = run.clock.scope(Stage::build);
  if (const std::uint64_t bad = runs.first_bad(); bad != ElementRuns::kNone) {
    std::array<std::byte, kRecord> record;
    source.read(bad, 1, record.data());
    throw_index_out_of_range(source, bad, read_index(record.data()));
  }
  Emitter emitter(runs, header);
  const std::uint64_t most_entries =
      std::max(kMinSharedEntries, header.num_blocks / (4 * std::uint64_t{std::max(1u, run.num_threads)}));
  emit_small_buckets(runs, most_entries, run, emitter);
  for (std::uint32_t bucket = 0; bucket < runs.num_buckets(); ++bucket) {
    if (emitter.size(bucket) > most_entries) emit_large_bucket(runs, bucket, run, emitter);
  }
  if (emitter.has_twice()) throw_first_duplicate(source, emitter.twice(), run);
  return emitter.finish();
}

}  // namespace spmm::cpu
