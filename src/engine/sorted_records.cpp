// Merge sort in a scratch file.
#include "engine/sorted_records.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/records/errors.hpp"
#include "base/run/pieces.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "spmm/saturate.hpp"

namespace spmm::out_of_core {
namespace {

constexpr std::uint64_t kCounterBytes = 88u << 10;  // of a DigitSorter

/// A record while a part is sorted: its row, its column, and its number in the part.
using Item = unsigned __int128;

/// Bytes of whole records: at most so many and 1 MB, or one record.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record) {
  constexpr std::uint64_t kMostBytes = 1u << 20;
  return std::clamp(bytes, record, std::max(record, kMostBytes)) / record * record;
}

/// Adds the elements of a result to those of another one.
void add_saturated(std::byte* to, const std::byte* record, std::uint64_t record_bytes) {
  for (std::uint64_t at = kIndexBytes; at < record_bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, to + at, sizeof x);
    std::memcpy(&y, record + at, sizeof y);
    x = saturating_add(x, y);
    std::memcpy(to + at, &x, sizeof x);
  }
}

/// Sorts some records of a source into a scratch file, from `offset` on. Memory: the records, two items for each,
/// kCounterBytes and buffer_bytes.
void sort_part(const Source& source, std::uint64_t begin, std::uint64_t count, const io::ScratchFile& to,
               std::uint64_t offset, std::uint64_t buffer_bytes, const Run& run) {
  run.check_cancelled();
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const auto index_bits = static_cast<unsigned>(std::bit_width(header.blocks_per_side()));
  const auto number_bits = static_cast<unsigned>(std::bit_width(count));
  const AlignedArray<std::byte> raw(count * record);
  const AlignedArray<Item> items(count);
  const AlignedArray<Item> scratch(count);
  source.read(begin, count, raw.data());
  for (std::uint64_t x = 0; x < count; ++x) {
    const BlockIndex at = read_index(raw.data() + x * record);
    if (std::max(at.i, at.j) >= header.blocks_per_side()) throw_index_out_of_range(source, begin + x, at);
    items[x] = ((Item{at.i} << index_bits | at.j) << number_bits) | x;
  }
  const Item* const order =
      cpu::DigitSorter().sort(items.data(), count, scratch.data(), number_bits, 2 * index_bits + number_bits);
  const std::uint64_t numbers = (std::uint64_t{1} << number_bits) - 1;
  const AlignedArray<std::byte> sorted(whole_records(buffer_bytes, record));
  std::uint64_t used = 0;
  for (std::uint64_t x = 0; x < count; ++x) {
    const std::byte* const from = raw.data() + (static_cast<std::uint64_t>(order[x]) & numbers) * record;
    if (x != 0 && (order[x] ^ order[x - 1]) >> number_bits == 0) throw_stored_twice(source, read_index(from), run);
    std::memcpy(sorted.data() + used, from, record);
    used += record;
    if (used != sorted.size() && x + 1 != count) continue;
    to.write_at(offset, {sorted.data(), used});
    offset += std::exchange(used, 0);
  }
}

/// The next record of a part that is merged.
struct Head {
  SortedRecords* part;
  std::uint64_t number = 0;
  std::uint64_t key = key_of();

  [[nodiscard]] std::uint64_t key_of() const {
    const BlockIndex at = part->index(number);
    return std::uint64_t{at.i} << 32 | at.j;
  }
  /// False at the end of the part.
  bool advance() {
    if (++number == part->size()) return false;
    key = key_of();
    return true;
  }
};

}  // namespace

SortedRecords::SortedRecords(const io::ScratchFile& file, std::uint64_t offset, std::uint64_t count,
                             std::uint64_t record_bytes, std::uint64_t piece_bytes)
    : file_(&file),
      offset_(offset),
      count_(count),
      record_bytes_(record_bytes),
      piece_(whole_records(piece_bytes, record_bytes)) {}

const std::byte* SortedRecords::at(std::uint64_t record) {
  if (record < piece_begin_ || record >= piece_end_) {
    piece_begin_ = record;
    piece_end_ = std::min(count_, record + piece_.size() / record_bytes_);
    read(piece_begin_, piece_end_ - piece_begin_, piece_.data());
  }
  return piece_.data() + (record - piece_begin_) * record_bytes_;
}

void merge(std::span<SortedRecords> parts, bool adds, std::uint64_t record_bytes, std::uint64_t buffer_bytes,
           const std::function<void(std::span<std::byte> records)>& take) {
  const auto comes_later = [](const Head& x, const Head& y) { return x.key > y.key; };
  std::vector<Head> heap;  // the least key in front
  for (SortedRecords& part : parts) {
    if (part.size() != 0) heap.push_back({.part = &part});
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  const AlignedArray<std::byte> merged(whole_records(buffer_bytes, record_bytes));
  std::uint64_t used = 0;
  std::uint64_t last = 0;  // key of the last record in `merged`
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    Head& least = heap.back();
    const std::uint64_t others = heap.size() > 1 ? heap.front().key : std::numeric_limits<std::uint64_t>::max();
    bool has_more = true;
    do {
      const std::byte* const record = least.part->at(least.number);
      if (adds && used != 0 && least.key == last) {
        add_saturated(merged.data() + used - record_bytes, record, record_bytes);
      } else {
        if (used == merged.size()) take({merged.data(), std::exchange(used, 0)});
        std::memcpy(merged.data() + used, record, record_bytes);
        used += record_bytes;
        last = least.key;
      }
      has_more = least.advance();
    } while (has_more && least.key < others);
    if (has_more) {
      std::push_heap(heap.begin(), heap.end(), comes_later);
    } else {
      heap.pop_back();
    }
  }
  if (used != 0) take({merged.data(), used});
}

SortedRecords sort_records(const Source& source, const io::ScratchFile& file, std::uint64_t offset,
                           std::uint64_t spare_offset, std::uint64_t memory_bytes, std::uint64_t piece_bytes,
                           const Run& run) {
  constexpr std::uint64_t kLeastOfThread = 4u << 20;
  constexpr std::uint64_t kBufferBytes = 256u << 10;
  const auto timing = run.clock.scope(Stage::build);
  const std::uint64_t count = source.header().num_blocks;
  const std::uint64_t record = input_record_bytes(source.header().m);
  Run fewer_threads = run;
  fewer_threads.num_threads =
      static_cast<unsigned>(std::clamp<std::uint64_t>(memory_bytes / kLeastOfThread, 1, run.num_threads));
  const std::uint64_t of_thread = memory_bytes / fewer_threads.num_threads;
  const std::uint64_t buffer = std::min(kBufferBytes, of_thread / 8);
  const std::uint64_t others = buffer + std::min(kCounterBytes, of_thread / 2);
  const std::uint64_t most = std::max<std::uint64_t>(1, (of_thread - others) / (record + 2 * sizeof(Item)));
  const bool is_merged = most < count;
  const std::uint64_t parts_offset = is_merged ? spare_offset : offset;
  fewer_threads.parallel_for(count, most, [&](std::uint64_t begin, std::uint64_t end) {
    sort_part(source, begin, end - begin, file, parts_offset + begin * record, buffer, run);
  });
  if (is_merged) {
    const std::uint64_t num_parts = (count - 1) / most + 1;
    std::vector<SortedRecords> parts;
    parts.reserve(num_parts);
    for (std::uint64_t first = 0; first < count; first += most) {
      parts.emplace_back(file, spare_offset + first * record, std::min(most, count - first), record,
                         memory_bytes / 2 / num_parts);
    }
    std::uint64_t end = offset;
    BlockIndex last{};
    merge(parts, false, record, memory_bytes / 2, [&](std::span<const std::byte> records) {
      run.check_cancelled();
      for (std::uint64_t at = 0; at < records.size(); at += record) {
        const BlockIndex index = read_index(records.data() + at);
        if (index == last && end + at != offset) throw_stored_twice(source, index, run);
        last = index;
      }
      file.write_at(end, records);
      end += records.size();
    });
  }
  return {file, offset, count, record, piece_bytes};
}

RangesSource::RangesSource(const Source& source, const SortedRecords& sorted, std::vector<RecordRange> ranges)
    : source_(source), sorted_(sorted), header_(source.header()), ranges_(std::move(ranges)) {
  std::uint64_t count = 0;
  firsts_.reserve(ranges_.size());
  for (const RecordRange& range : ranges_) {
    firsts_.push_back(count);
    count += range.size();
  }
  restrict_to(0, count);
}

void RangesSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  constexpr std::uint64_t kNearBytes = 16u << 10;  // are read together: short ranges often lie close by
  const std::uint64_t record = input_record_bytes(header_.m);
  SortedRecords near = sorted_.with_piece(kNearBytes);
  first += first_;
  auto x = static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), first) - firsts_.begin()) - 1;
  for (; count > 0; ++x) {
    const std::uint64_t begin = ranges_[x].begin + (first - firsts_[x]);
    const std::uint64_t num = std::min<std::uint64_t>(count, ranges_[x].end - begin);
    if (num * record * 2 > kNearBytes) {
      sorted_.read(begin, num, dst);
    } else {
      for (std::uint64_t r = 0; r < num; ++r) std::memcpy(dst + r * record, near.at(begin + r), record);
    }
    dst += num * record;
    first += num;
    count -= num;
  }
}

}  // namespace spmm::out_of_core
