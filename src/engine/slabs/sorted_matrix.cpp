// Sorting in parts that fit in memory: records are distributed to parts, and each part is sorted.
#include "engine/slabs/sorted_matrix.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cpu/operands/order/digit_sorter.hpp"
#include "engine/slabs/index_pass.hpp"

namespace spmm::slabs {
namespace {

constexpr std::uint64_t kShortReadBytes = 64u << 10;                      // of short records, read or written
constexpr std::uint64_t kShortSortBytes = kShortReadBytes + (88u << 10);  // and counters

/// Row and column in one number, the one that comes first in front: the order of records.
std::uint64_t key_of(BlockIndex at, Along along) {
  return along == Along::rows ? (std::uint64_t{at.i} << 32) | at.j : (std::uint64_t{at.j} << 32) | at.i;
}

BlockIndex index_of(std::uint64_t key, Along along) {
  const auto first = static_cast<std::uint32_t>(key >> 32);
  const auto second = static_cast<std::uint32_t>(key);
  return along == Along::rows ? BlockIndex{.i = first, .j = second} : BlockIndex{.i = second, .j = first};
}

struct KeyedRecord {
  std::uint64_t key;
  std::uint32_t number;
};

/// Side 1: row, column and element of a record in one number, if they fit.
class ShortRecords {
 public:
  static constexpr unsigned kElementBits = 16;

  ShortRecords(const MatrixHeader& header, Along along)
      : m_(header.m), index_bits_(static_cast<unsigned>(std::bit_width(header.blocks_per_side()))), along_(along) {}

  [[nodiscard]] bool fit() const { return m_ == 1 && last_bit() <= 64; }
  [[nodiscard]] unsigned last_bit() const { return kElementBits + 2 * index_bits_; }

  [[nodiscard]] std::uint64_t pack(const std::byte* record) const {
    const BlockIndex at = read_index(record);
    std::uint16_t element = 0;
    std::memcpy(&element, record + kIndexBytes, sizeof element);
    const std::uint64_t first = along_ == Along::rows ? at.i : at.j;
    const std::uint64_t second = along_ == Along::rows ? at.j : at.i;
    return ((first << index_bits_) | second) << kElementBits | element;
  }

  [[nodiscard]] BlockIndex index(std::uint64_t item) const {
    const std::uint64_t key = item >> kElementBits;
    const auto first = static_cast<std::uint32_t>(key >> index_bits_);
    const auto second = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << index_bits_) - 1));
    return along_ == Along::rows ? BlockIndex{.i = first, .j = second} : BlockIndex{.i = second, .j = first};
  }

  void unpack(std::uint64_t item, std::byte* record) const {
    write_index(record, index(item));
    const auto element = static_cast<std::uint16_t>(item);
    std::memcpy(record + kIndexBytes, &element, sizeof element);
  }

 private:
  std::uint32_t m_;
  unsigned index_bits_;
  Along along_;
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

/// How records are parted before each part is sorted in memory.
struct SortedMatrix::Parts {
  Along along = Along::rows;
  unsigned num_threads = 1;
  std::uint64_t most_records = 0;           ///< of a part,
  std::uint64_t piece_records = 0;          ///< and of a piece that one thread parts at a time
  std::vector<std::uint64_t> first_keys{};  ///< of all parts but the first
  std::vector<std::uint64_t> begins{0};     ///< [parts + 1] their records in the file

  [[nodiscard]] std::size_t size() const { return first_keys.size() + 1; }
  [[nodiscard]] std::size_t part_of(BlockIndex at) const {
    const std::uint64_t key = key_of(at, along);
    const auto keys = first_keys.begin();
    const std::uint32_t* const near = near_keys_.data() + (key >> key_shift_);
    return static_cast<std::size_t>(std::upper_bound(keys + near[0], keys + near[1], key) - keys);
  }

  Parts(const Source& source, const Sorting& sorting, const Run& run);

 private:
  void choose_keys(const Source& source, std::uint64_t num_parts, const Run& run);
  void list_near_keys(std::uint32_t blocks_per_side);
  void count(const Source& source, const Run& run);

  unsigned key_shift_ = 63;
  std::vector<std::uint32_t> near_keys_{0, 0, 0};  ///< where the keys of each run of rows begin in first_keys
};

SortedMatrix::Parts::Parts(const Source& source, const Sorting& sorting, const Run& run) : along(sorting.along) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const bool are_short = ShortRecords(header, along).fit();
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
  const bool fits = header.num_blocks <= most_records;
  if (!fits) choose_keys(source, (header.num_blocks + mean_records - 1) / mean_records, run);
  list_near_keys(header.blocks_per_side());
  count(source, run);
}

/// The row of most records gives their part, without a search.
void SortedMatrix::Parts::list_near_keys(std::uint32_t blocks_per_side) {
  constexpr int kRunBits = 12;
  const int index_bits = std::bit_width(blocks_per_side);
  key_shift_ = 32u + static_cast<unsigned>(std::max(0, index_bits - kRunBits));
  const std::uint64_t num_runs = (std::uint64_t{blocks_per_side} << 32 >> key_shift_) + 1;
  near_keys_.assign(num_runs + 1, static_cast<std::uint32_t>(first_keys.size()));
  for (std::uint64_t run = 0, next = 0; run < num_runs; ++run) {
    while (next < first_keys.size() && first_keys[next] >> key_shift_ < run) ++next;
    near_keys_[run] = static_cast<std::uint32_t>(next);
  }
}

/// Errors: CannotSort.
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
  begins.resize(size() + 1);
  std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
  if (*std::max_element(counts.begin(), counts.end()) > most_records) throw CannotSort{};
}

void SortedMatrix::Parts::choose_keys(const Source& source, std::uint64_t num_parts, const Run& run) {
  constexpr std::uint64_t kOfPart = 64;
  const std::uint64_t num_blocks = source.header().num_blocks;
  std::vector<std::uint64_t> sample(std::min(num_blocks, num_parts * kOfPart));
  const std::uint64_t stride = num_blocks / sample.size();
  run.parallel_for(sample.size(), 1024, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const AlignedArray<std::byte> raw(input_record_bytes(source.header().m));
    for (std::uint64_t x = begin; x < end; ++x) {
      const std::uint64_t shift = (x * 0x9E37'79B9'7F4A'7C15u >> 32) % stride;  // a fixed place may meet a pattern
      source.read(x * num_blocks / sample.size() + shift, 1, raw.data());       // to the end, if stride was rounded
      sample[x] = key_of(read_index(raw.data()), along);
    }
  });
  std::sort(sample.begin(), sample.end());
  for (std::uint64_t p = 1; p < num_parts; ++p) first_keys.push_back(sample[p * sample.size() / num_parts]);
}

SortedMatrix::SortedMatrix(const Source& source, const io::ScratchFile& file, const Sorting& sorting, const Run& run)
    : header_(source.header()),
      name_(source.name()),
      along_(sorting.along),
      file_(file),
      offset_(sorting.file_offset),
      record_bytes_(input_record_bytes(header_.m)) {
  if (header_.num_blocks == 0) return;
  const Parts parts(source, sorting, run);
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
  const bool are_short = ShortRecords(header_, along_).fit();
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
    order[x] = {.key = key_of(read_index(raw.data() + x * record_bytes_), along_),
                .number = static_cast<std::uint32_t>(x)};
  }
  std::sort(order.begin(), order.end(), [](const KeyedRecord& x, const KeyedRecord& y) { return x.key < y.key; });
  for (std::uint64_t x = 0; x < count; ++x) {
    if (x != 0 && order[x].key == order[x - 1].key) return index_of(order[x].key, along_);
    std::memcpy(sorted.data() + x * record_bytes_, raw.data() + order[x].number * record_bytes_, record_bytes_);
  }
  file_.write_at(offset_ + records.begin * record_bytes_, {sorted.data(), count * record_bytes_});
  return std::nullopt;
}

std::optional<BlockIndex> SortedMatrix::sort_short(const ReadPart& read_part, RecordRange records) const {
  const ShortRecords shorts(header_, along_);
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
      cpu::DigitSorter().sort({items.data(), count}, scratch.data(), ShortRecords::kElementBits, shorts.last_bit());
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

ScratchOperands::ScratchOperands(const Inputs& inputs, io::ScratchFile file, const plan::Execution& execution,
                                 const Run& run)
    : file_(std::move(file)), a_(inputs.a, file_, {.memory_bytes = execution.slab_limits.host_bytes}, run) {
  const bool by_rows = execution.is_sorted_by_rows();
  const auto same = inputs.a.identity();
  if (by_rows && same && same == inputs.b.identity()) return;
  b_.emplace(inputs.b, file_,
             Sorting{.along = by_rows ? Along::rows : Along::columns,
                     .file_offset = inputs.a.header().num_blocks * input_record_bytes(inputs.m()),
                     .memory_bytes = execution.slab_limits.host_bytes},
             run);
}

std::unique_ptr<ScratchOperands> sort_operands(const Inputs& inputs, const Run& run, plan::Execution& execution) {
  io::ScratchFile file = io::ScratchFile::make(run.scratch_folders, execution.scratch_bytes, execution.why_no_scratch);
  if (!file.is_open()) return nullptr;
  try {
    return std::make_unique<ScratchOperands>(inputs, std::move(file), execution, run);
  } catch (const CannotSort&) {
    execution.why_no_scratch = "too many records lie close together to be sorted in memory";
  } catch (const io::ScratchFull& full) {
    execution.why_no_scratch = full.why;
  }
  return nullptr;
}

}  // namespace spmm::slabs
