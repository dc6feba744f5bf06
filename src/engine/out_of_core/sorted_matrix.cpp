// Sorting in parts that fit in memory: records are distributed to parts, and each part is sorted.
#include "engine/out_of_core/sorted_matrix.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cpu/operands/order/digit_sorter.hpp"
#include "engine/out_of_core/index_pass.hpp"
#include "spmm/error.hpp"

namespace spmm::out_of_core {
namespace {

constexpr std::uint64_t kShortReadBytes = 64u << 10;                      // of short records, read or written
constexpr std::uint64_t kShortSortBytes = kShortReadBytes + (88u << 10);  // and counters

/// Row and column in one number: the order of records within a column slab.
std::uint64_t key_of(BlockIndex at) {
  return (std::uint64_t{at.i} << 32) | at.j;
}

BlockIndex index_of(std::uint64_t key) {
  return {.i = static_cast<std::uint32_t>(key >> 32), .j = static_cast<std::uint32_t>(key)};
}

struct KeyedRecord {
  std::uint64_t key;
  std::uint32_t number;
};

/// Side 1: row, column and element of a record in one number, if they fit.
class ShortRecords {
 public:
  static constexpr unsigned kElementBits = 16;

  explicit ShortRecords(const MatrixHeader& header)
      : m_(header.m), index_bits_(static_cast<unsigned>(std::bit_width(header.blocks_per_side()))) {}

  [[nodiscard]] bool fit() const { return m_ == 1 && last_bit() <= 64; }
  [[nodiscard]] unsigned last_bit() const { return kElementBits + 2 * index_bits_; }

  [[nodiscard]] std::uint64_t pack(const std::byte* record) const {
    const BlockIndex at = read_index(record);
    std::uint16_t element = 0;
    std::memcpy(&element, record + kIndexBytes, sizeof element);
    return ((std::uint64_t{at.i} << index_bits_) | at.j) << kElementBits | element;
  }

  [[nodiscard]] BlockIndex index(std::uint64_t item) const {
    const std::uint64_t key = item >> kElementBits;
    return {.i = static_cast<std::uint32_t>(key >> index_bits_),
            .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << index_bits_) - 1))};
  }

  void unpack(std::uint64_t item, std::byte* record) const {
    write_index(record, index(item));
    const auto element = static_cast<std::uint16_t>(item);
    std::memcpy(record + kIndexBytes, &element, sizeof element);
  }

 private:
  std::uint32_t m_;
  unsigned index_bits_;
};

void note_lower(std::atomic<std::uint64_t>& to, std::uint64_t value) {
  for (std::uint64_t seen = to; value < seen && !to.compare_exchange_weak(seen, value);) {
  }
}

/// Errors: always FormatError, with the first two records of the source at this position.
[[noreturn]] void throw_twice(const Source& source, BlockIndex twice, const Run& run) {
  std::atomic<std::uint64_t> first = ~std::uint64_t{0};
  std::atomic<std::uint64_t> second = ~std::uint64_t{0};
  const auto visit_those = [&](const auto& visit) {
    for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
      if (at.i == twice.i && at.j == twice.j) visit(record);
    });
  };
  visit_those([&](std::uint64_t record) { note_lower(first, record); });
  visit_those([&](std::uint64_t record) {
    if (record != first) note_lower(second, record);
  });
  if (second == ~std::uint64_t{0}) throw_changed_content(source.name());
  throw_duplicate_block(source, first, second, twice);
}

}  // namespace

/// How records are parted before each part is sorted in memory. A part lies within one column slab.
struct SortedMatrix::Parts {
  unsigned num_threads = 1;
  std::uint64_t most_records = 0;         ///< of a part,
  std::uint64_t piece_records = 0;        ///< and of a piece that one thread parts at a time
  std::vector<std::uint64_t> begins{0};   ///< [parts + 1] their records in the file
  std::vector<std::size_t> slab_parts{};  ///< [slabs + 1] the first part of each slab

  Parts(const Source& source, const Sorting& sorting, const Run& run);

  [[nodiscard]] std::size_t size() const { return first_keys_.size() + 1; }
  [[nodiscard]] std::size_t part_of(BlockIndex at) const {
    const std::uint64_t key = key_of(at);
    const std::size_t run = slab_of(at.j) * num_runs_ + (key >> key_shift_);
    const auto keys = first_keys_.begin();
    return static_cast<std::size_t>(std::upper_bound(keys + near_[run], keys + near_[run + 1], key) - keys);
  }

 private:
  [[nodiscard]] std::size_t slab_of(std::uint32_t column) const {
    if (slab_ends_.size() == 1) return 0;
    return static_cast<std::size_t>(std::upper_bound(slab_ends_.begin(), slab_ends_.end(), column) -
                                    slab_ends_.begin());
  }
  void choose_keys(const Source& source, std::uint64_t num_parts, std::uint64_t samples_of_part, const Run& run);
  void count(const Source& source, const Run& run);

  const std::vector<std::uint64_t>& slab_ends_;
  std::vector<std::uint64_t> first_keys_;  ///< of all parts but the first, slab by slab
  unsigned key_shift_ = 0;                 ///< a run of rows is a key's bits from here on
  std::size_t num_runs_ = 1;               ///< of each slab
  std::vector<std::uint32_t> near_;        ///< [slabs, runs, and one more] where the keys of each begin in first_keys_
};

SortedMatrix::Parts::Parts(const Source& source, const Sorting& sorting, const Run& run)
    : slab_ends_(sorting.slab_ends) {
  constexpr std::uint64_t kFewSamples = 64;  // of a part
  constexpr std::uint64_t kManySamples = 4096;
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const bool are_short = ShortRecords(header).fit();
  const std::uint64_t least_of_thread = are_short ? 1u << 20 : 4u << 20;
  num_threads =
      static_cast<unsigned>(std::clamp<std::uint64_t>(sorting.memory_bytes / least_of_thread, 1, run.num_threads));
  const std::uint64_t of_thread = sorting.memory_bytes / num_threads;
  const std::uint64_t of_part = are_short ? of_thread - std::min(kShortSortBytes, of_thread / 2) : of_thread;
  const std::uint64_t of_record = are_short ? 2 * sizeof(std::uint64_t) : 2 * record + sizeof(KeyedRecord);
  most_records = std::max<std::uint64_t>(1, of_part / of_record);
  piece_records = std::max<std::uint64_t>(1, of_thread / (2 * record + sizeof(KeyedRecord)));
  // Parts are chosen by a sample: none is expected to be this much larger than the others.
  const std::uint64_t mean_records = most_records - most_records * 2 / 5;
  const bool fits = header.num_blocks <= most_records && slab_ends_.size() == 1;
  const std::uint64_t num_parts = fits ? 1 : (header.num_blocks + mean_records - 1) / mean_records;
  for (std::uint64_t samples = kFewSamples; samples <= kManySamples; samples *= 8) {
    choose_keys(source, num_parts, samples, run);
    count(source, run);
    if (begins.back() == header.num_blocks) return;
  }
  throw OutOfMemory(source.name(), "too many records lie close together to be sorted within the limit",
                    "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
}

/// Leaves begins without its last entry if a part is too large.
void SortedMatrix::Parts::count(const Source& source, const Run& run) {
  const std::uint32_t nb = source.header().blocks_per_side();
  const std::uint64_t record = input_record_bytes(source.header().m);
  std::vector<std::uint64_t> counts(size(), 0);
  std::atomic<std::uint64_t> first_bad = ~std::uint64_t{0};
  for_reads(source, run, [&](std::uint64_t first, const std::byte* records, std::uint64_t num) {
    std::vector<std::uint32_t> of_read(size(), 0);
    for (std::uint64_t x = 0; x < num; ++x) {
      const BlockIndex at = read_index(records + x * record);
      if (at.i >= nb || at.j >= nb) return note_lower(first_bad, first + x);
      ++of_read[part_of(at)];
    }
    for (std::size_t p = 0; p < size(); ++p) {
      std::atomic_ref(counts[p]).fetch_add(of_read[p], std::memory_order_relaxed);
    }
  });
  if (first_bad != ~std::uint64_t{0}) throw_bad_index(source, first_bad);
  begins.assign(1, 0);
  if (*std::max_element(counts.begin(), counts.end()) > most_records) return;
  begins.resize(size() + 1);
  std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
}

/// Quantiles of a sample, and the first position of each slab.
void SortedMatrix::Parts::choose_keys(const Source& source, std::uint64_t num_parts, std::uint64_t samples_of_part,
                                      const Run& run) {
  constexpr std::size_t kMostRuns = 4096;  // of all slabs: their rows give the part of most records without a search
  const std::uint64_t num_blocks = source.header().num_blocks;
  const std::uint64_t nb = source.header().blocks_per_side();
  std::vector<std::pair<std::size_t, std::uint64_t>> firsts;  // slab and key
  if (num_parts > 1) {
    std::vector<std::pair<std::size_t, std::uint64_t>> sample(std::min(num_blocks, num_parts * samples_of_part));
    const std::uint64_t stride = num_blocks / sample.size();
    run.parallel_for(sample.size(), 1024, [&](std::uint64_t begin, std::uint64_t end) {
      run.check_cancelled();
      const AlignedArray<std::byte> raw(input_record_bytes(source.header().m));
      for (std::uint64_t x = begin; x < end; ++x) {
        const std::uint64_t shift = (x * 0x9E37'79B9'7F4A'7C15u >> 32) % stride;  // a fixed place may meet a pattern
        source.read(x * num_blocks / sample.size() + shift, 1, raw.data());       // to the end, if stride was rounded
        const BlockIndex at = read_index(raw.data());
        if (at.i < nb && at.j < nb) sample[x] = {slab_of(at.j), key_of(at)};  // others are refused when all are counted
      }
    });
    std::sort(sample.begin(), sample.end());
    // A block that occurs so often that no part can hold it is in the sample more than once.
    const auto twice = std::adjacent_find(sample.begin(), sample.end());
    if (twice != sample.end()) throw_twice(source, index_of(twice->second), run);
    for (std::uint64_t p = 1; p < num_parts; ++p) firsts.push_back(sample[p * sample.size() / num_parts]);
  }
  for (std::size_t s = 1; s < slab_ends_.size(); ++s) firsts.emplace_back(s, 0);
  std::sort(firsts.begin(), firsts.end());
  num_runs_ = std::max<std::size_t>(1, std::min<std::uint64_t>(nb, kMostRuns / slab_ends_.size()));
  key_shift_ = 32;
  while (nb > std::uint64_t{num_runs_} << (key_shift_ - 32)) ++key_shift_;
  near_.assign(slab_ends_.size() * num_runs_ + 1, static_cast<std::uint32_t>(firsts.size()));
  slab_parts.assign(slab_ends_.size() + 1, firsts.size() + 1);
  slab_parts[0] = 0;
  first_keys_.clear();
  std::size_t run_before = 0;
  for (const auto& [slab, key] : firsts) {
    const std::size_t key_run = slab * num_runs_ + (key >> key_shift_);
    for (; run_before <= key_run; ++run_before) near_[run_before] = static_cast<std::uint32_t>(first_keys_.size());
    first_keys_.push_back(key);
    slab_parts[slab] = std::min(slab_parts[slab], first_keys_.size());
  }
}

SortedMatrix::SortedMatrix(const Source& source, const io::ScratchFile& file, const Sorting& sorting, const Run& run)
    : header_(source.header()),
      name_(source.name()),
      file_(file),
      offset_(sorting.file_offset),
      record_bytes_(input_record_bytes(header_.m)) {
  slabs_.resize(sorting.slab_ends.size());
  if (header_.num_blocks == 0) return;
  const Parts parts(source, sorting, run);
  for (std::size_t s = 0; s < slabs_.size(); ++s) {
    slabs_[s] = {.begin = static_cast<std::uint32_t>(parts.begins[parts.slab_parts[s]]),
                 .end = static_cast<std::uint32_t>(parts.begins[parts.slab_parts[s + 1]])};
  }
  Run fewer_threads = run;
  fewer_threads.num_threads = parts.num_threads;
  const auto timing = run.clock.scope(Stage::build);
  if (parts.size() > 1) distribute(source, parts, fewer_threads);
  fewer_threads.parallel_for(parts.size(), 1, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t p = begin; p < end; ++p) sort_part(source, parts, p, fewer_threads);
  });
}

/// Of a record that was in range before. Errors: FormatError.
BlockIndex SortedMatrix::checked_index(const std::byte* record) const {
  const BlockIndex at = read_index(record);
  const std::uint32_t nb = header_.blocks_per_side();
  if (at.i >= nb || at.j >= nb) throw_changed_content(name_);
  return at;
}

void SortedMatrix::distribute(const Source& source, const Parts& parts, const Run& run) const {
  std::vector<std::uint64_t> next(parts.begins.begin(), parts.begins.end() - 1);
  run.parallel_for(header_.num_blocks, parts.piece_records, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const std::uint64_t count = end - begin;
    const AlignedArray<std::byte> raw(count * record_bytes_);
    const AlignedArray<std::byte> parted(count * record_bytes_);
    source.read(begin, count, raw.data());
    AlignedArray<std::uint32_t> part_of(count);
    std::vector<std::uint32_t> ends(parts.size(), 0);
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex at = checked_index(raw.data() + x * record_bytes_);
      part_of[x] = static_cast<std::uint32_t>(parts.part_of(at));
      ++ends[part_of[x]];
    }
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::uint32_t> places(parts.size(), 0);
    std::copy(ends.begin(), ends.end() - 1, places.begin() + 1);
    for (std::uint64_t x = 0; x < count; ++x) {
      std::memcpy(parted.data() + places[part_of[x]]++ * record_bytes_, raw.data() + x * record_bytes_, record_bytes_);
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::uint64_t first = p == 0 ? 0 : ends[p - 1];
      const std::uint64_t num = ends[p] - first;
      if (num == 0) continue;
      const std::uint64_t at = std::atomic_ref(next[p]).fetch_add(num, std::memory_order_relaxed);
      if (at + num > parts.begins[p + 1]) throw_changed_content(name_);
      file_.write_at(offset_ + at * record_bytes_, {parted.data() + first * record_bytes_, num * record_bytes_});
    }
  });
}

void SortedMatrix::sort_part(const Source& source, const Parts& parts, std::size_t part, const Run& run) const {
  const RecordRange records{.begin = static_cast<std::uint32_t>(parts.begins[part]),
                            .end = static_cast<std::uint32_t>(parts.begins[part + 1])};
  if (records.begin == records.end) return;
  run.check_cancelled();
  const auto read_part = [&](std::uint64_t first, std::uint64_t count, std::byte* to) {
    parts.size() == 1 ? source.read(first, count, to) : read(first, count, to);
    for (std::uint64_t x = 0; x < count; ++x) static_cast<void>(checked_index(to + x * record_bytes_));
  };
  const bool are_short = ShortRecords(header_).fit();
  const std::optional<BlockIndex> twice = are_short ? sort_short(read_part, records) : sort_whole(read_part, records);
  if (twice) throw_twice(source, *twice, run);
}

std::optional<BlockIndex> SortedMatrix::sort_whole(const ReadPart& read_part, RecordRange records) const {
  const std::uint64_t count = records.end - records.begin;
  const AlignedArray<std::byte> raw(count * record_bytes_);
  const AlignedArray<std::byte> sorted(count * record_bytes_);
  read_part(records.begin, count, raw.data());
  AlignedArray<KeyedRecord> order(count);
  for (std::uint64_t x = 0; x < count; ++x) {
    order[x] = {.key = key_of(read_index(raw.data() + x * record_bytes_)), .number = static_cast<std::uint32_t>(x)};
  }
  std::sort(order.begin(), order.end(), [](const KeyedRecord& x, const KeyedRecord& y) { return x.key < y.key; });
  for (std::uint64_t x = 0; x < count; ++x) {
    if (x != 0 && order[x].key == order[x - 1].key) return index_of(order[x].key);
    std::memcpy(sorted.data() + x * record_bytes_, raw.data() + order[x].number * record_bytes_, record_bytes_);
  }
  file_.write_at(offset_ + records.begin * record_bytes_, {sorted.data(), count * record_bytes_});
  return std::nullopt;
}

std::optional<BlockIndex> SortedMatrix::sort_short(const ReadPart& read_part, RecordRange records) const {
  const ShortRecords shorts(header_);
  const std::uint64_t count = records.end - records.begin;
  AlignedArray<std::uint64_t> items(count);
  const AlignedArray<std::uint64_t> scratch(count);
  const std::uint64_t at_once = std::min(count, kShortReadBytes / record_bytes_);
  const AlignedArray<std::byte> raw(at_once * record_bytes_);
  const auto for_pieces = [&](const auto& body) {
    for (std::uint64_t x = 0; x < count; x += at_once) body(x, std::min(at_once, count - x));
  };
  for_pieces([&](std::uint64_t first, std::uint64_t num) {
    read_part(records.begin + first, num, raw.data());
    for (std::uint64_t x = 0; x < num; ++x) items[first + x] = shorts.pack(raw.data() + x * record_bytes_);
  });
  const std::uint64_t* const sorted =
      cpu::DigitSorter().sort(items.data(), count, scratch.data(), ShortRecords::kElementBits, shorts.last_bit());
  const auto is_twice = [](std::uint64_t x, std::uint64_t y) { return (x ^ y) >> ShortRecords::kElementBits == 0; };
  const std::uint64_t* const twice = std::adjacent_find(sorted, sorted + count, is_twice);
  if (twice != sorted + count) return shorts.index(*twice);
  for_pieces([&](std::uint64_t first, std::uint64_t num) {
    for (std::uint64_t x = 0; x < num; ++x) shorts.unpack(sorted[first + x], raw.data() + x * record_bytes_);
    file_.write_at(offset_ + (records.begin + first) * record_bytes_, {raw.data(), num * record_bytes_});
  });
  return std::nullopt;
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
    count += range.end - range.begin;
  }
  header_.num_blocks = static_cast<std::uint32_t>(count);
}

void RangesSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (count == 0) return;
  const std::uint64_t record = input_record_bytes(header_.m);
  auto x = static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), first) - firsts_.begin()) - 1;
  for (; count > 0; ++x) {
    const std::uint64_t skip = first - firsts_[x];
    const std::uint64_t here = std::min<std::uint64_t>(count, ranges_[x].end - ranges_[x].begin - skip);
    matrix_.read(ranges_[x].begin + skip, here, dst);
    first += here;
    count -= here;
    dst += here * record;
  }
}

}  // namespace spmm::out_of_core
