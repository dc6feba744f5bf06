// Sorting in parts that fit in memory: records are distributed to parts, and each part is sorted.
#include "engine/out_of_core/sorted_matrix.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "engine/out_of_core/index_pass.hpp"

namespace spmm::out_of_core {
namespace {

constexpr std::uint64_t kCounterBytes = 88u << 10;  // of a DigitSorter

/// Row and column in one number.
std::uint64_t key_of_position(BlockIndex at) {
  return (std::uint64_t{at.i} << 32) | at.j;
}

/// A record while a part is sorted: row, column, and its number in the part, in 64 bits if they fit.
struct ItemBits {
  unsigned index;
  unsigned number;

  explicit ItemBits(const MatrixHeader& header)
      : index(static_cast<unsigned>(std::bit_width(header.blocks_per_side()))),
        number(static_cast<unsigned>(std::bit_width(header.num_blocks))) {}
  [[nodiscard]] unsigned all() const { return 2 * index + number; }
  [[nodiscard]] std::uint64_t bytes() const { return all() <= 64 ? 8 : 16; }
};

/// Errors: always FormatError, with the first two records of the source at this position.
[[noreturn]] void throw_twice(const Source& source, BlockIndex twice, const Run& run) {
  std::atomic<std::uint64_t> first = kNoRecord;
  std::atomic<std::uint64_t> second = kNoRecord;
  for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
    if (at == twice) lower_to(first, record);
  });
  for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
    if (at == twice && record != first) lower_to(second, record);
  });
  if (second == kNoRecord) throw_changed_content(source.name());
  throw_duplicate_block(source, first, second, twice);
}

}  // namespace

std::size_t Parts::of(std::uint64_t key) const {
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), key) - ends.begin());
}

Parts cut_keys(const Source& source, const KeyOf& key_of, std::uint64_t key_end, std::uint64_t most_records,
               std::uint64_t memory_bytes, const Run& run) {
  constexpr std::uint64_t kMostCounters = 1u << 16;
  struct Interval {
    std::uint64_t begin, end, count;
  };
  const std::uint64_t read_bytes = std::clamp<std::uint64_t>(memory_bytes / 4 / run.num_threads, 4u << 10, kReadBytes);
  const std::uint64_t counters = std::clamp<std::uint64_t>(memory_bytes / 2 / sizeof(std::uint32_t), 2, kMostCounters);
  std::vector<Interval> done;
  std::vector<Interval> coarse{{.begin = 0, .end = key_end, .count = source.header().num_blocks}};
  while (!coarse.empty()) {
    // Each interval has an equal number of counters, one for each run of `width` keys.
    const std::uint64_t each = std::max<std::uint64_t>(2, counters / coarse.size());
    const auto width = [&](const Interval& one) { return (one.end - one.begin - 1) / each + 1; };
    std::vector<std::uint32_t> counts(each * coarse.size(), 0);
    const auto count_key = [&](std::uint64_t, BlockIndex at) {
      const std::uint64_t key = key_of(at);
      const auto behind = std::upper_bound(coarse.begin(), coarse.end(), key,
                                           [](std::uint64_t k, const Interval& one) { return k < one.begin; });
      if (behind == coarse.begin() || key >= std::prev(behind)->end) return;
      const auto number = static_cast<std::uint64_t>(behind - coarse.begin()) - 1;
      const std::uint64_t counter = number * each + (key - coarse[number].begin) / width(coarse[number]);
      std::atomic_ref(counts[counter]).fetch_add(1, std::memory_order_relaxed);
    };
    for_indices(source, run, count_key, read_bytes);
    std::vector<Interval> finer;
    for (std::size_t number = 0; number < coarse.size(); ++number) {
      const Interval& whole = coarse[number];
      Interval open{.begin = whole.begin, .end = whole.begin, .count = 0};
      for (std::uint64_t x = 0; x < each && open.end < whole.end; ++x) {
        const std::uint64_t count = counts[number * each + x];
        const std::uint64_t end = open.end + std::min(width(whole), whole.end - open.end);
        if (open.count + count > most_records) {
          if (open.count != 0) done.push_back(open);
          open = {.begin = open.end, .end = open.end, .count = 0};
        }
        open = {.begin = open.begin, .end = end, .count = open.count + count};
        if (open.count <= most_records || width(whole) == 1) continue;
        finer.push_back(open);
        open = {.begin = end, .end = end, .count = 0};
      }
      if (open.count != 0) done.push_back(open);
    }
    coarse = std::move(finer);
  }
  std::sort(done.begin(), done.end(), [](const Interval& x, const Interval& y) { return x.begin < y.begin; });
  Parts parts{.begins = {0}};
  for (const Interval& one : done) {
    parts.ends.push_back(one.end);
    parts.begins.push_back(parts.begins.back() + one.count);
  }
  if (parts.ends.empty()) throw_changed_content(source.name());
  parts.ends.back() = ~std::uint64_t{0};
  return parts;
}

SortedMatrix::SortedMatrix(const Source& source, const io::ScratchFile& file, std::uint64_t file_offset,
                           std::uint64_t memory_bytes, const Run& run)
    : header_(source.header()),
      name_(source.name()),
      file_(file),
      offset_(file_offset),
      record_bytes_(input_record_bytes(header_.m)),
      slabs_{{.begin = 0, .end = header_.num_blocks}} {
  constexpr std::uint64_t kLeastOfThread = 4u << 20;
  if (header_.num_blocks == 0) return;
  Run fewer_threads = run;
  fewer_threads.num_threads =
      static_cast<unsigned>(std::clamp<std::uint64_t>(memory_bytes / kLeastOfThread, 1, run.num_threads));
  const std::uint64_t of_thread = memory_bytes / fewer_threads.num_threads;
  const ItemBits bits(header_);
  const std::uint64_t most_records = std::max<std::uint64_t>(
      1, (of_thread - std::min(kCounterBytes, of_thread / 2)) / (2 * (record_bytes_ + bits.bytes())));
  const std::uint64_t key_end = std::uint64_t{header_.blocks_per_side()} << 32;
  const Parts parts = cut_keys(source, key_of_position, key_end, most_records, memory_bytes, run);
  const auto timing = run.clock.scope(Stage::build);
  const RangesSource distributed(*this);
  const Source& from = parts.size() == 1 ? source : distributed;
  if (parts.size() > 1) distribute(source, key_of_position, parts, of_thread, fewer_threads);
  fewer_threads.parallel_for(parts.size(), 1, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t p = begin; p < end; ++p) {
      const RecordRange records{.begin = static_cast<std::uint32_t>(parts.begins[p]),
                                .end = static_cast<std::uint32_t>(parts.begins[p + 1])};
      if (records.size() > most_records) {  // of one position
        const AlignedArray<std::byte> first(record_bytes_);
        from.read(records.begin, 1, first.data());
        throw_twice(source, read_index(first.data()), run);
      }
      if (bits.bytes() == 8) {
        sort_part<std::uint64_t>(source, from, records, fewer_threads);
      } else {
        sort_part<unsigned __int128>(source, from, records, fewer_threads);
      }
    }
  });
}

SortedMatrix::SortedMatrix(const SortedMatrix& by_rows, Parts slabs, std::uint64_t file_offset,
                           std::uint64_t memory_bytes, const Run& run)
    : header_(by_rows.header_),
      name_(by_rows.name_),
      file_(by_rows.file_),
      offset_(file_offset),
      record_bytes_(by_rows.record_bytes_) {
  for (std::size_t s = 0; s < slabs.size(); ++s) {
    slabs_.push_back(
        {.begin = static_cast<std::uint32_t>(slabs.begins[s]), .end = static_cast<std::uint32_t>(slabs.begins[s + 1])});
  }
  const auto timing = run.clock.scope(Stage::build);
  Run in_order = run;
  in_order.num_threads = 1;
  distribute(
      RangesSource(by_rows), [](BlockIndex at) { return std::uint64_t{at.j}; }, slabs, memory_bytes, in_order);
}

/// Of a record that was in range before. Errors: FormatError.
BlockIndex SortedMatrix::checked_index(const std::byte* record) const {
  const BlockIndex at = read_index(record);
  const std::uint32_t nb = header_.blocks_per_side();
  if (at.i >= nb || at.j >= nb) throw_changed_content(name_);
  return at;
}

/// Writes each record into its part; by one thread in the order of the source. Memory: memory_bytes for each thread.
void SortedMatrix::distribute(const Source& source, const KeyOf& key_of, const Parts& parts, std::uint64_t memory_bytes,
                              const Run& run) const {
  std::vector<std::uint64_t> next(parts.begins.begin(), parts.begins.end() - 1);
  const std::uint64_t of_record = 2 * record_bytes_ + sizeof(std::uint32_t);
  const std::uint64_t piece = std::max<std::uint64_t>(1, memory_bytes / of_record);
  run.parallel_for(header_.num_blocks, piece, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const std::uint64_t count = end - begin;
    const AlignedArray<std::byte> raw(count * record_bytes_);
    const AlignedArray<std::byte> parted(count * record_bytes_);
    const AlignedArray<std::uint32_t> part_of(count);
    source.read(begin, count, raw.data());
    std::vector<std::uint32_t> places(parts.size() + 1, 0);
    for (std::uint64_t x = 0; x < count; ++x) {
      part_of[x] = static_cast<std::uint32_t>(parts.of(key_of(checked_index(raw.data() + x * record_bytes_))));
      ++places[part_of[x] + 1];
    }
    std::partial_sum(places.begin(), places.end(), places.begin());
    for (std::uint64_t x = 0; x < count; ++x) {
      std::memcpy(parted.data() + places[part_of[x]]++ * record_bytes_, raw.data() + x * record_bytes_, record_bytes_);
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {  // places are ends now
      const std::uint64_t first = p == 0 ? 0 : places[p - 1];
      const std::uint64_t num = places[p] - first;
      if (num == 0) continue;
      const std::uint64_t at = std::atomic_ref(next[p]).fetch_add(num, std::memory_order_relaxed);
      if (at + num > parts.begins[p + 1]) throw_changed_content(name_);
      file_.write_at(offset_ + at * record_bytes_, {parted.data() + first * record_bytes_, num * record_bytes_});
    }
  });
}

/// Errors: FormatError if a block occurs twice: with its records in `source`.
template <class Item>
void SortedMatrix::sort_part(const Source& source, const Source& from, RecordRange records, const Run& run) const {
  if (records.size() == 0) return;
  run.check_cancelled();
  const std::uint64_t count = records.size();
  const AlignedArray<std::byte> raw(count * record_bytes_);
  const AlignedArray<std::byte> sorted(count * record_bytes_);
  from.read(records.begin, count, raw.data());
  const ItemBits bits(header_);
  const AlignedArray<Item> items(count);
  const AlignedArray<Item> scratch(count);
  for (std::uint64_t x = 0; x < count; ++x) {
    const BlockIndex at = checked_index(raw.data() + x * record_bytes_);
    items[x] = ((Item{at.i} << bits.index | at.j) << bits.number) | x;
  }
  const Item* const order = cpu::DigitSorter().sort(items.data(), count, scratch.data(), bits.number, bits.all());
  const Item numbers = (Item{1} << bits.number) - 1;
  for (std::uint64_t x = 0; x < count; ++x) {
    const auto number = static_cast<std::uint64_t>(order[x] & numbers);
    if (x != 0 && (order[x] ^ order[x - 1]) >> bits.number == 0) {
      throw_twice(source, read_index(raw.data() + number * record_bytes_), run);
    }
    std::memcpy(sorted.data() + x * record_bytes_, raw.data() + number * record_bytes_, record_bytes_);
  }
  file_.write_at(offset_ + records.begin * record_bytes_, {sorted.data(), count * record_bytes_});
}

void SortedMatrix::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  file_.read_at(offset_ + first * record_bytes_, {dst, count * record_bytes_});
}

RangesSource::RangesSource(const SortedMatrix& matrix, std::vector<RecordRange> ranges)
    : matrix_(matrix), header_(matrix.header()), ranges_(std::move(ranges)) {
  std::uint64_t count = 0;
  firsts_.reserve(ranges_.size());
  for (const RecordRange& range : ranges_) {
    firsts_.push_back(count);
    count += range.size();
  }
  header_.num_blocks = static_cast<std::uint32_t>(count);
}

void RangesSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  constexpr std::uint64_t kBufferBytes = 64u << 10;
  constexpr std::uint64_t kGapBytes = 2u << 10;  // are read in about the time of another call
  std::array<std::byte, kBufferBytes> buffer;
  const std::uint64_t record = input_record_bytes(header_.m);
  auto x = static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), first) - firsts_.begin()) - 1;
  while (count > 0) {
    // What one call reads: records of this range, and of next ones that lie close behind it.
    const std::uint64_t begin = ranges_[x].begin + (first - firsts_[x]);
    std::uint64_t end = std::min<std::uint64_t>(ranges_[x].end, begin + count);
    std::uint64_t num = end - begin;
    std::size_t behind = x + 1;
    for (; behind < ranges_.size() && num < count; ++behind) {
      const RecordRange& next = ranges_[behind];
      const std::uint64_t next_end = std::min<std::uint64_t>(next.end, next.begin + (count - num));
      if ((next.begin - end) * record > kGapBytes || (next_end - begin) * record > kBufferBytes) break;
      num += next_end - next.begin;
      end = next_end;
    }
    if (behind == x + 1) {
      matrix_.read(begin, num, dst);
      dst += num * record;
    } else {
      matrix_.read(begin, end - begin, buffer.data());
      for (std::size_t y = x; y < behind; ++y) {
        const std::uint64_t from = std::max<std::uint64_t>(begin, ranges_[y].begin);
        const std::uint64_t bytes = (std::min<std::uint64_t>(end, ranges_[y].end) - from) * record;
        std::memcpy(dst, buffer.data() + (from - begin) * record, bytes);
        dst += bytes;
      }
    }
    first += num;
    count -= num;
    x = behind;
  }
}

}  // namespace spmm::out_of_core
