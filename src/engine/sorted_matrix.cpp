// Merge sort in a scratch file.
#include "engine/sorted_matrix.hpp"

#include <algorithm>
#include <array>
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

/// Bytes of whole records: at most so many and 1 MB, or one record.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record) {
  constexpr std::uint64_t kMostBytes = 1u << 20;
  return std::clamp(bytes, record, std::max(record, kMostBytes)) / record * record;
}

/// x = min(x + y, 2^32 - 1) for all elements of two results.
void add_saturated(std::byte* x, const std::byte* y, std::uint64_t record_bytes) {
  for (std::uint64_t at = kIndexBytes; at < record_bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    std::memcpy(&left, x + at, sizeof left);
    std::memcpy(&right, y + at, sizeof right);
    const std::uint32_t sum = std::min(left, kMaxVal - right) + right;
    std::memcpy(x + at, &sum, sizeof sum);
  }
}

/// A record while a part is sorted: its row, its column, and its number in the part.
using Item = unsigned __int128;

/// Sorts some records of a source into a scratch file, from `offset` on. Memory: the records, two items for each,
/// kCounterBytes and buffer_bytes.
void sort_part(const Source& source, RecordRange records, const io::ScratchFile& to, std::uint64_t offset,
               std::uint64_t buffer_bytes, const Run& run) {
  run.check_cancelled();
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t count = records.size();
  const auto index_bits = static_cast<unsigned>(std::bit_width(header.blocks_per_side()));
  const auto number_bits = static_cast<unsigned>(std::bit_width(count));
  const AlignedArray<std::byte> raw(count * record);
  const AlignedArray<Item> items(count);
  const AlignedArray<Item> scratch(count);
  source.read(records.begin, count, raw.data());
  for (std::uint64_t x = 0; x < count; ++x) {
    const BlockIndex at = read_index(raw.data() + x * record);
    if (std::max(at.i, at.j) >= header.blocks_per_side()) throw_index_out_of_range(source, records.begin + x, at);
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

/// Reads the records of a part in order.
class PartReader {
 public:
  PartReader(const io::ScratchFile& file, const SortedPart& part, std::uint64_t record_bytes,
             std::uint64_t buffer_bytes)
      : file_(&file), left_(part), record_(record_bytes), buffer_(whole_records(buffer_bytes, record_bytes)) {
    fill();
  }

  [[nodiscard]] bool is_at_end() const { return used_ == filled_; }
  [[nodiscard]] const std::byte* record() const { return buffer_.data() + used_; }
  [[nodiscard]] std::uint64_t key() const { return key_; }
  void next() {
    used_ += record_;
    if (used_ == filled_) fill();
    if (!is_at_end()) set_key();
  }

 private:
  void fill() {
    used_ = 0;
    filled_ = std::min<std::uint64_t>(buffer_.size(), left_.end - left_.begin);
    file_->read_at(left_.begin, {buffer_.data(), filled_});
    left_.begin += filled_;
    if (!is_at_end()) set_key();
  }
  void set_key() {
    const BlockIndex at = read_index(record());
    key_ = std::uint64_t{at.i} << 32 | at.j;
  }

  const io::ScratchFile* file_;
  SortedPart left_;
  std::uint64_t record_;
  AlignedArray<std::byte> buffer_;
  std::uint64_t used_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t key_ = 0;
};

}  // namespace

void merge_parts(const io::ScratchFile& file, std::span<const SortedPart> parts, bool adds, std::uint64_t record_bytes,
                 std::uint64_t memory_bytes, const std::function<void(std::span<std::byte> records)>& take) {
  std::vector<PartReader> readers;
  readers.reserve(parts.size());
  for (const SortedPart& part : parts) {
    if (part.begin != part.end) readers.emplace_back(file, part, record_bytes, memory_bytes / 2 / parts.size());
  }
  std::vector<PartReader*> heap;  // the least key in front
  for (PartReader& reader : readers) heap.push_back(&reader);
  const auto comes_later = [](const PartReader* x, const PartReader* y) { return x->key() > y->key(); };
  std::make_heap(heap.begin(), heap.end(), comes_later);
  const AlignedArray<std::byte> merged(whole_records(memory_bytes / 2, record_bytes));
  std::uint64_t used = 0;
  std::uint64_t last = 0;  // key of the last record in `merged`
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    PartReader& least = *heap.back();
    const std::uint64_t others = heap.size() > 1 ? heap.front()->key() : std::numeric_limits<std::uint64_t>::max();
    do {
      if (adds && used != 0 && least.key() == last) {
        add_saturated(merged.data() + used - record_bytes, least.record(), record_bytes);
      } else {
        if (used == merged.size()) take({merged.data(), std::exchange(used, 0)});
        std::memcpy(merged.data() + used, least.record(), record_bytes);
        used += record_bytes;
        last = least.key();
      }
      least.next();
    } while (!least.is_at_end() && least.key() < others);
    if (least.is_at_end()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), comes_later);
    }
  }
  if (used != 0) take({merged.data(), used});
}

SortedMatrix::SortedMatrix(const Source& source, const io::ScratchFile& file, std::uint64_t offset,
                           std::uint64_t spare_offset, std::uint64_t memory_bytes, std::uint64_t piece_bytes,
                           const Run& run)
    : header_(source.header()),
      name_(source.name()),
      file_(file),
      offset_(offset),
      record_bytes_(input_record_bytes(header_.m)) {
  constexpr std::uint64_t kLeastOfThread = 4u << 20;
  constexpr std::uint64_t kBufferBytes = 256u << 10;
  const auto timing = run.clock.scope(Stage::build);
  Run fewer_threads = run;
  fewer_threads.num_threads =
      static_cast<unsigned>(std::clamp<std::uint64_t>(memory_bytes / kLeastOfThread, 1, run.num_threads));
  const std::uint64_t of_thread = memory_bytes / fewer_threads.num_threads;
  const std::uint64_t buffer = std::min(kBufferBytes, of_thread / 8);
  const std::uint64_t others = buffer + std::min(kCounterBytes, of_thread / 2);
  const std::uint64_t most = std::max<std::uint64_t>(1, (of_thread - others) / (record_bytes_ + 2 * sizeof(Item)));
  const bool is_merged = most < header_.num_blocks;
  const std::uint64_t sorted_offset = is_merged ? spare_offset : offset;
  fewer_threads.parallel_for(header_.num_blocks, most, [&](std::uint64_t begin, std::uint64_t end) {
    const RecordRange records{.begin = static_cast<std::uint32_t>(begin), .end = static_cast<std::uint32_t>(end)};
    sort_part(source, records, file, sorted_offset + begin * record_bytes_, buffer, run);
  });
  piece_ = AlignedArray<std::byte>(whole_records(piece_bytes, record_bytes_));
  if (!is_merged) return;
  std::vector<SortedPart> parts;
  for (std::uint64_t first = 0; first < header_.num_blocks; first += most) {
    const std::uint64_t end = std::min<std::uint64_t>(first + most, header_.num_blocks);
    parts.push_back({.begin = spare_offset + first * record_bytes_, .end = spare_offset + end * record_bytes_});
  }
  BlockIndex last{};
  merge_parts(file, parts, false, record_bytes_, memory_bytes, [&](std::span<const std::byte> records) {
    run.check_cancelled();
    for (std::uint64_t at = 0; at < records.size(); at += record_bytes_) {
      const BlockIndex index = read_index(records.data() + at);
      if (index == last && offset + at != offset_) throw_stored_twice(source, index, run);
      last = index;
    }
    file.write_at(offset, records);
    offset += records.size();
  });
}

BlockIndex SortedMatrix::index(std::uint32_t record) {
  if (record < in_piece_.begin || record >= in_piece_.end) {
    const std::uint64_t end = std::min<std::uint64_t>(header_.num_blocks, record + piece_.size() / record_bytes_);
    in_piece_ = {.begin = record, .end = static_cast<std::uint32_t>(end)};
    read(record, in_piece_.size(), piece_.data());
  }
  return read_index(piece_.data() + (record - in_piece_.begin) * record_bytes_);
}

RangesSource::RangesSource(const SortedMatrix& whole, std::vector<RecordRange> ranges)
    : whole_(whole), header_(whole.header()), ranges_(std::move(ranges)) {
  std::uint64_t count = 0;
  firsts_.reserve(ranges_.size());
  for (const RecordRange& range : ranges_) {
    firsts_.push_back(count);
    count += range.size();
  }
  header_.num_blocks = static_cast<std::uint32_t>(count);
}

void RangesSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  std::array<std::byte, 16u << 10> near;  // records that were read together: short ranges often lie close by
  std::uint64_t near_begin = 0;
  std::uint64_t near_end = 0;
  const std::uint64_t record = input_record_bytes(header_.m);
  auto x = static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), first) - firsts_.begin()) - 1;
  for (; count > 0; ++x) {
    const std::uint64_t begin = ranges_[x].begin + (first - firsts_[x]);
    const std::uint64_t num = std::min<std::uint64_t>(count, ranges_[x].end - begin);
    if (num * record * 2 > near.size()) {
      whole_.read(begin, num, dst);
    } else {
      if (begin < near_begin || begin + num > near_end) {
        near_begin = begin;
        near_end = std::min<std::uint64_t>(ranges_.back().end, begin + near.size() / record);
        whole_.read(near_begin, near_end - near_begin, near.data());
      }
      std::memcpy(dst, near.data() + (begin - near_begin) * record, num * record);
    }
    dst += num * record;
    first += num;
    count -= num;
  }
}

}  // namespace spmm::out_of_core
