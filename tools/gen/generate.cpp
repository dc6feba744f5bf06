// Writes a random matrix file, record by record from its number.
#include "tools/gen/generate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "cli/program.hpp"
#include "io/files/output_file.hpp"
#include "io/formats/format.hpp"
#include "tools/common/random.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kWriteBytes = std::uint64_t{4} << 20;         // records of one write
constexpr std::uint64_t kSlotGrain = std::uint64_t{1} << 20;          // slots that one thread scans at a time
constexpr std::uint64_t kBucketRecords = std::uint64_t{1} << 17;      // records that are sorted at a time
constexpr std::uint64_t kMinRecordsPerPass = std::uint64_t{8} << 20;  // positions held at a time
constexpr std::uint64_t kMaxPasses = 16;

/// What a random number is for: each use has its own sequence.
enum Use : std::uint64_t { kOrder, kValues, kPart };

/// The blocks of the matrix: slot 0 .. k - 1 -> position i * nb + j -> record.
class Blocks {
 public:
  Blocks(const std::vector<Part>& pattern, const GenerateOptions& options)
      : options_(options),
        nb_(options.header.blocks_per_side()),
        elements_(std::uint64_t{options.header.m} * options.header.m),
        values_key_(random_at(options.seed, kValues)),
        zero_below_(static_cast<std::uint64_t>(options.zero_blocks * 0x1p53)) {
    std::uint64_t first = 0;
    for (std::size_t p = 0; p < pattern.size(); ++p) {
      const Region& region = *pattern[p].region;
      const std::uint64_t size = std::max<std::uint64_t>(region.capacity(), 1);
      placed_.push_back({.region = &region,
                         .first_slot = first,
                         .count = pattern[p].count,
                         .rank_of = Permutation(size, random_at(options.seed, kPart + p))});
      first += pattern[p].count;
    }
  }

  struct Placed {
    const Region* region;
    std::uint64_t first_slot;
    std::uint64_t count;
    Permutation rank_of;
  };

  [[nodiscard]] const std::vector<Placed>& parts() const { return placed_; }

  [[nodiscard]] std::uint64_t position(BlockIndex at) const { return at.i * nb_ + at.j; }

  [[nodiscard]] BlockIndex index(std::uint64_t position) const {
    return {.i = static_cast<std::uint32_t>(position / nb_), .j = static_cast<std::uint32_t>(position % nb_)};
  }

  [[nodiscard]] BlockIndex index_of_slot(std::uint64_t slot) const {
    std::size_t p = 0;
    while (slot - placed_[p].first_slot >= placed_[p].count) ++p;
    return placed_[p].region->cell(placed_[p].rank_of(slot - placed_[p].first_slot));
  }

  /// Writes one record. Shapes: dst [input_record_bytes(m)].
  void put_record(std::byte* dst, BlockIndex at) const {
    write_index(dst, at);
    dst += kIndexBytes;
    const std::uint64_t key = random_at(values_key_, position(at));
    if (mix(key) >> 11 < zero_below_) {
      std::memset(dst, 0, elements_ * 2);
      return;
    }
    const std::uint64_t range = std::uint64_t{options_.max_value} + 1;
    for (std::uint64_t e = 0; e < elements_; e += 2) {
      const std::uint64_t bits = random_at(key, e);
      const std::uint16_t pair[2] = {static_cast<std::uint16_t>((bits >> 32) * range >> 32),
                                     static_cast<std::uint16_t>((bits & 0xFFFF'FFFFu) * range >> 32)};
      std::memcpy(dst + e * 2, pair, e + 1 < elements_ ? 4 : 2);
    }
  }

 private:
  const GenerateOptions& options_;
  std::uint64_t nb_;
  std::uint64_t elements_;
  std::uint64_t values_key_;
  std::uint64_t zero_below_;
  std::vector<Placed> placed_;
};

/// Makes the records [first, first + count) of the file and writes them. `index_of(r)` = block of record r.
template <class IndexOf>
void write_records(io::OutputFile& file, const Blocks& blocks, std::uint64_t record, std::uint64_t first,
                   std::uint64_t count, const IndexOf& index_of) {
  const std::uint64_t per_write = std::clamp<std::uint64_t>(count, 1, std::max<std::uint64_t>(1, kWriteBytes / record));
  std::vector<std::byte> buffer(per_write * record);
  for (std::uint64_t begin = first; begin < first + count; begin += per_write) {
    cli::check_cancelled("spmm-gen");
    const std::uint64_t here = std::min(per_write, first + count - begin);
    for (std::uint64_t r = 0; r < here; ++r) blocks.put_record(buffer.data() + r * record, index_of(begin + r));
    file.write_at(kHeaderBytes + begin * record, std::span(buffer).first(here * record));
  }
}

/// Record r holds the block of slot order(r).
void write_shuffled(io::OutputFile& file, const Blocks& blocks, const GenerateOptions& options) {
  const std::uint64_t k = options.header.num_blocks;
  const std::uint64_t record = input_record_bytes(options.header.m);
  const Permutation order(k, random_at(options.seed, kOrder));
  const auto block_of = [&](std::uint64_t r) { return blocks.index_of_slot(order(r)); };
  parallel_for(options.num_threads, k, std::max<std::uint64_t>(1, kWriteBytes / record),
               [&](std::uint64_t begin, std::uint64_t end) {
                 write_records(file, blocks, record, begin, end - begin, block_of);
               });
}

/// Writes the records in the order of their positions. The positions are cut into buckets of about the same number of
/// blocks; each pass computes all slots again and keeps the positions that fall into its own buckets.
class SortedWriter {
 public:
  SortedWriter(io::OutputFile& file, const Blocks& blocks, const GenerateOptions& options)
      : file_(file), blocks_(blocks), options_(options), k_(options.header.num_blocks) {
    const std::uint64_t num_buckets = (k_ - 1) / kBucketRecords + 1;
    for (std::uint64_t b = 0; b < num_buckets; ++b) bounds_.push_back(position_with_share(b, num_buckets));
    bounds_.push_back(num_positions());
  }

  void run() {
    const std::uint64_t per_pass = std::max(kMinRecordsPerPass, k_ / kMaxPasses) / kBucketRecords;
    for (std::size_t b = 0; b + 1 < bounds_.size(); b += per_pass) {
      const std::size_t end = std::min<std::size_t>(b + per_pass, bounds_.size() - 1);
      std::vector<std::vector<std::uint64_t>> buckets = collect(b, end);
      emit(buckets);
    }
    if (next_record_ != k_) throw std::logic_error("the sorted pattern lost blocks");
  }

 private:
  [[nodiscard]] std::uint64_t num_positions() const {
    const std::uint64_t nb = options_.header.blocks_per_side();
    return nb * nb;
  }

  /// First position before which the share b / num_buckets of all blocks is to be expected.
  [[nodiscard]] std::uint64_t position_with_share(std::uint64_t b, std::uint64_t num_buckets) const {
    const double wanted = static_cast<double>(k_) * static_cast<double>(b) / static_cast<double>(num_buckets);
    std::uint64_t low = 0;
    std::uint64_t high = num_positions();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      double expected = 0;
      for (const auto& part : blocks_.parts()) {
        expected += static_cast<double>(part.count) *
                    static_cast<double>(part.region->cells_before(blocks_.index(middle))) /
                    static_cast<double>(part.region->capacity());
      }
      if (expected >= wanted) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// Positions of the blocks in buckets [first, end).
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> collect(std::size_t first, std::size_t end) const {
    using Buckets = std::vector<std::vector<std::uint64_t>>;
    Buckets buckets(end - first);
    for (auto& bucket : buckets) bucket.reserve(kBucketRecords + kBucketRecords / 32);
    std::mutex mutex;
    for (const auto& part : blocks_.parts()) {
      const std::uint64_t low_rank = part.region->cells_before(blocks_.index(bounds_[first]));
      const std::uint64_t high_rank = part.region->cells_before(blocks_.index(bounds_[end]));
      parallel_for(options_.num_threads, part.count, kSlotGrain, [&](std::uint64_t begin, std::uint64_t stop) {
        cli::check_cancelled("spmm-gen");
        Buckets found(buckets.size());
        for (std::uint64_t slot = begin; slot < stop; ++slot) {
          const std::uint64_t rank = part.rank_of(slot);
          if (rank < low_rank || rank >= high_rank) continue;
          const std::uint64_t position = blocks_.position(part.region->cell(rank));
          const auto above = std::upper_bound(bounds_.begin() + static_cast<std::ptrdiff_t>(first),
                                              bounds_.begin() + static_cast<std::ptrdiff_t>(end), position);
          found[static_cast<std::size_t>(above - bounds_.begin()) - first - 1].push_back(position);
        }
        const std::lock_guard lock(mutex);
        for (std::size_t b = 0; b < found.size(); ++b) {
          buckets[b].insert(buckets[b].end(), found[b].begin(), found[b].end());
        }
      });
    }
    return buckets;
  }

  void emit(std::vector<std::vector<std::uint64_t>>& buckets) {
    std::vector<std::uint64_t> first_record;
    for (const auto& bucket : buckets) {
      first_record.push_back(next_record_);
      next_record_ += bucket.size();
    }
    const std::uint64_t record = input_record_bytes(options_.header.m);
    parallel_for(options_.num_threads, buckets.size(), 1, [&](std::uint64_t b, std::uint64_t) {
      std::vector<std::uint64_t> positions = std::move(buckets[b]);
      std::sort(positions.begin(), positions.end());
      write_records(file_, blocks_, record, first_record[b], positions.size(),
                    [&](std::uint64_t r) { return blocks_.index(positions[r - first_record[b]]); });
    });
  }

  io::OutputFile& file_;
  const Blocks& blocks_;
  const GenerateOptions& options_;
  std::uint64_t k_;
  std::vector<std::uint64_t> bounds_;  ///< bucket b holds the positions [bounds_[b], bounds_[b + 1])
  std::uint64_t next_record_ = 0;
};

}  // namespace

void generate_file(const std::filesystem::path& path, const std::vector<Part>& pattern,
                   const GenerateOptions& options) {
  io::OutputFile file(path, {});
  file.expect_bytes(io::file_bytes_of(ElementType::u16, options.header));
  const Blocks blocks(pattern, options);
  if (options.header.num_blocks > 0) {
    if (options.sorted) {
      SortedWriter(file, blocks, options).run();
    } else {
      write_shuffled(file, blocks, options);
    }
  }
  file.finish(options.header);
  file.publish();
}

}  // namespace spmm::tools
