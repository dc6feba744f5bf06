// Sorting in parts that fit in memory: records are distributed to parts, and each part is sorted.
#include "engine/slabs/sorted_matrix.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "engine/slabs/index_pass.hpp"

namespace spmm::slabs {
namespace {

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

/// Errors: always FormatError, with the first two records of the source at this position.
[[noreturn]] void throw_twice(const Source& source, BlockIndex twice, const Run& run) {
  std::atomic<std::uint64_t> first = ~std::uint64_t{0};
  std::atomic<std::uint64_t> second = ~std::uint64_t{0};
  const auto lower = [](std::atomic<std::uint64_t>& to, std::uint64_t value) {
    for (std::uint64_t seen = to; value < seen && !to.compare_exchange_weak(seen, value);) {
    }
  };
  const auto visit_those = [&](const auto& visit) {
    for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
      if (at.i == twice.i && at.j == twice.j) visit(record);
    });
  };
  visit_those([&](std::uint64_t record) { lower(first, record); });
  visit_those([&](std::uint64_t record) {
    if (record != first) lower(second, record);
  });
  if (second == ~std::uint64_t{0}) throw_changed_content(source.name());
  throw_duplicate_block(source, first, second, twice);
}

}  // namespace

/// How records are parted before each part is sorted in memory.
struct SortedMatrix::Parts {
  Along along = Along::rows;
  unsigned num_threads = 1;
  std::uint64_t most_records = 0;           ///< of a part, and of a piece that one thread parts at a time
  std::vector<std::uint64_t> first_keys{};  ///< of all parts but the first
  std::vector<std::uint64_t> begins{0};     ///< [parts + 1] their records in the file

  [[nodiscard]] std::size_t size() const { return first_keys.size() + 1; }
  [[nodiscard]] std::size_t part_of(BlockIndex at) const {
    const auto next = std::upper_bound(first_keys.begin(), first_keys.end(), key_of(at, along));
    return static_cast<std::size_t>(next - first_keys.begin());
  }

  Parts(const Source& source, const Sorting& sorting, const Run& run);

 private:
  void choose_keys(const Source& source, std::uint64_t num_parts, const Run& run);
};

SortedMatrix::Parts::Parts(const Source& source, const Sorting& sorting, const Run& run) : along(sorting.along) {
  constexpr std::uint64_t kLeastOfThread = 4u << 20;
  const MatrixHeader& header = source.header();
  const std::uint64_t of_record = 2 * input_record_bytes(header.m) + sizeof(KeyedRecord);
  num_threads =
      static_cast<unsigned>(std::clamp<std::uint64_t>(sorting.memory_bytes / kLeastOfThread, 1, run.num_threads));
  most_records = std::max<std::uint64_t>(1, sorting.memory_bytes / num_threads / of_record);
  // Parts are chosen by a sample: none is expected to be this much larger than the others.
  const std::uint64_t mean_records = most_records - most_records * 2 / 5;
  const bool fits = header.num_blocks <= most_records;
  if (!fits) choose_keys(source, (header.num_blocks + mean_records - 1) / mean_records, run);
  std::vector<std::uint64_t> counts(size(), 0);
  for_indices(source, run, [&](std::uint64_t, BlockIndex at) {
    std::atomic_ref(counts[part_of(at)]).fetch_add(1, std::memory_order_relaxed);
  });
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
      source.read(x * stride + shift, 1, raw.data());
      sample[x] = key_of(read_index(raw.data()), along);
    }
  });
  std::sort(sample.begin(), sample.end());
  for (std::uint64_t p = 1; p < num_parts; ++p) first_keys.push_back(sample[p * sample.size() / num_parts]);
}

SortedMatrix::SortedMatrix(const Source& source, const io::ScratchFile& file, const Sorting& sorting, const Run& run)
    : header_(source.header()),
      name_(source.name()),
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

void SortedMatrix::distribute(const Source& source, const Parts& parts, const Run& run) const {
  std::vector<std::uint64_t> next(parts.begins.begin(), parts.begins.end() - 1);
  run.parallel_for(header_.num_blocks, parts.most_records, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const std::uint64_t count = end - begin;
    const AlignedArray<std::byte> raw(count * record_bytes_);
    const AlignedArray<std::byte> parted(count * record_bytes_);
    source.read(begin, count, raw.data());
    AlignedArray<std::uint32_t> part_of(count);
    std::vector<std::uint32_t> ends(parts.size(), 0);
    for (std::uint64_t x = 0; x < count; ++x) {
      part_of[x] = static_cast<std::uint32_t>(parts.part_of(read_index(raw.data() + x * record_bytes_)));
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
  const std::uint64_t begin = parts.begins[part];
  const std::uint64_t count = parts.begins[part + 1] - begin;
  if (count == 0) return;
  run.check_cancelled();
  const AlignedArray<std::byte> raw(count * record_bytes_);
  const AlignedArray<std::byte> sorted(count * record_bytes_);
  if (parts.size() == 1) {
    source.read(0, count, raw.data());
  } else {
    read(begin, count, raw.data());
  }
  AlignedArray<KeyedRecord> order(count);
  const std::uint64_t nb = header_.blocks_per_side();
  for (std::uint64_t x = 0; x < count; ++x) {
    const BlockIndex at = read_index(raw.data() + x * record_bytes_);
    if (at.i >= nb || at.j >= nb) throw_changed_content(name_);  // it was in range before
    order[x] = {.key = key_of(at, parts.along), .number = static_cast<std::uint32_t>(x)};
  }
  std::sort(order.begin(), order.end(), [](const KeyedRecord& x, const KeyedRecord& y) { return x.key < y.key; });
  run.check_cancelled();
  for (std::uint64_t x = 0; x < count; ++x) {
    if (x != 0 && order[x].key == order[x - 1].key) throw_twice(source, index_of(order[x].key, parts.along), run);
    std::memcpy(sorted.data() + x * record_bytes_, raw.data() + order[x].number * record_bytes_, record_bytes_);
  }
  file_.write_at(offset_ + begin * record_bytes_, {sorted.data(), count * record_bytes_});
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
