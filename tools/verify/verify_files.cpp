// Proves that one file is the product of two others.
#include "tools/verify/verify_files.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "engine/product/rows_source.hpp"
#include "io/files/input_file.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/common/matrix_file.hpp"
#include "verify/record_order.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kReadBytes = 1u << 20;

/// SeenBlocks of all blocks of a matrix, to find one that is there twice: a bit for each place where that is less
/// memory, else a sorted list. Threads: set() from several.
class SeenBlocks {
 public:
  SeenBlocks(std::uint64_t count, std::uint32_t blocks_per_side) : nb_(blocks_per_side) {
    const std::uint64_t num_words = (std::uint64_t{nb_} * nb_ + 63) / 64;
    has_bits_ = num_words <= count;
    keys_ = AlignedArray<std::uint64_t>(has_bits_ ? num_words : count);
    if (has_bits_) std::fill(keys_.begin(), keys_.end(), 0);
  }

  /// Values: at lies within the matrix.
  void set(std::uint64_t record, BlockIndex at) {
    if (!has_bits_) {
      keys_[record] = key_of(at);
      return;
    }
    const std::uint64_t place = std::uint64_t{at.i} * nb_ + at.j;
    const std::uint64_t bit = std::uint64_t{1} << place % 64;
    const std::uint64_t before = std::atomic_ref(keys_[place / 64]).fetch_or(bit, std::memory_order_relaxed);
    if ((before & bit) != 0) {
      const std::lock_guard lock(mutex_);
      twice_ = std::min(twice_.value_or(key_of(at)), key_of(at));
    }
  }

  /// The block that is there twice; nothing if none is.
  [[nodiscard]] std::optional<BlockIndex> find_duplicate(const Run& run) {
    if (!has_bits_) {
      std::sort(keys_.begin(), keys_.end(), [&](std::uint64_t x, std::uint64_t y) {
        run.check_cancelled();
        return x < y;
      });
      const std::uint64_t* const found = std::adjacent_find(keys_.begin(), keys_.end());
      if (found != keys_.end()) twice_ = *found;
    }
    if (!twice_) return std::nullopt;
    return BlockIndex{.i = static_cast<std::uint32_t>(*twice_ >> 32), .j = static_cast<std::uint32_t>(*twice_)};
  }

 private:
  static std::uint64_t key_of(BlockIndex at) { return std::uint64_t{at.i} << 32 | at.j; }

  std::uint32_t nb_;
  bool has_bits_ = false;
  AlignedArray<std::uint64_t> keys_;
  std::mutex mutex_;
  std::optional<std::uint64_t> twice_;  // the smallest
};

/// Calls body(records, first, count) for pieces of a file on all threads of the run.
/// Shapes: read(first, count, dst) copies records.
template <class Read, class Body>
void for_pieces_of(std::uint64_t num_records, std::uint64_t record_bytes, const Read& read, const Run& run,
                   const Body& body) {
  const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / record_bytes);
  run.parallel_for(num_records, most, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const AlignedArray<std::byte> raw((end - begin) * record_bytes);
    read(begin, end - begin, raw.data());
    body(raw.data(), begin, end - begin);
  });
}

/// Errors: FormatError (both records are named).
template <class Read>
[[noreturn]] void throw_duplicate(const std::string& name, std::uint64_t num_records, std::uint64_t record_bytes,
                                  const Read& read, BlockIndex twice, const Run& run) {
  std::mutex mutex;
  std::vector<std::uint64_t> records;
  for_pieces_of(num_records, record_bytes, read, run,
                [&](const std::byte* raw, std::uint64_t first, std::uint64_t count) {
                  for (std::uint64_t x = 0; x < count; ++x) {
                    if (read_index(raw + x * record_bytes) != twice) continue;
                    const std::lock_guard lock(mutex);
                    records.push_back(first + x);
                  }
                });
  std::sort(records.begin(), records.end());
  records.resize(std::max<std::size_t>(2, records.size()));
  throw_duplicate_block(name, records[0], records[1], record_bytes, twice);
}

/// Errors: FormatError (a block twice; index out of range).
void check_operand(const Source& source, const Run& run) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const auto read = [&](std::uint64_t first, std::uint64_t count, std::byte* dst) { source.read(first, count, dst); };
  SeenBlocks places(header.num_blocks, header.blocks_per_side());
  for_pieces_of(header.num_blocks, record, read, run,
                [&](const std::byte* raw, std::uint64_t first, std::uint64_t count) {
                  for (std::uint64_t x = 0; x < count; ++x) {
                    const BlockIndex at = read_index(raw + x * record);
                    if (at.i >= header.blocks_per_side() || at.j >= header.blocks_per_side()) {
                      throw_index_out_of_range(source.name(), first + x, record, at, header.blocks_per_side());
                    }
                    places.set(first + x, at);
                  }
                });
  const auto twice = places.find_duplicate(run);
  if (twice) throw_duplicate(source.name(), header.num_blocks, record, read, *twice, run);
}

void check_shapes(const MatrixHeader& first, const std::string& first_name, const MatrixHeader& second,
                  const std::string& second_name) {
  if (first.n == second.n && first.m == second.m) return;
  throw ShapeError(
      text(first_name, " and ", second_name),
      text("header (byte offset 0): n = ", first.n, ", m = ", first.m, " against n = ", second.n, ", m = ", second.m),
      "give two matrices and their product");
}

/// The records of C on their way to the proof.
class ResultFile {
 public:
  ResultFile(const io::InputFile& file, Proof& proof, const VerifyFilesOptions& options, RowRange rows)
      : file_(file), proof_(proof), any_order_(options.any_order), rows_(rows), order_(file.record_bytes()) {}

  void look(const Run& run) {
    SeenBlocks places(any_order_ ? file_.num_records() : 0, any_order_ ? file_.header().blocks_per_side() : 0);
    const auto read = reader();
    for_pieces_of(file_.num_records(), file_.record_bytes(), read, run,
                  [&](const std::byte* raw, std::uint64_t first, std::uint64_t count) {
                    const std::span records(raw, count * file_.record_bytes());
                    if (!any_order_) check_order(first, records);
                    check_flaw(first, records);
                    check_rows(first, records);
                    num_saturated_ += count_saturated(records);
                    for (std::uint64_t x = 0; any_order_ && x < count; ++x) {
                      places.set(first + x, read_index(raw + x * file_.record_bytes()));
                    }
                  });
    file_.check_unchanged();
    if (!any_order_) return;
    const auto twice = places.find_duplicate(run);
    if (twice) throw_duplicate(file_.name(), file_.num_records(), file_.record_bytes(), read, *twice, run);
  }

  /// Elements at the limit of what look() has read.
  [[nodiscard]] std::uint64_t num_saturated() const { return num_saturated_; }

  /// Calls take(index, values) for the blocks of a row.
  bool find_row(std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take, const Run& run) {
    const std::uint64_t bytes = file_.record_bytes();
    std::mutex mutex;
    const auto in_row = [&](const std::byte* raw, std::uint64_t, std::uint64_t count) {
      for (std::uint64_t x = 0; x < count; ++x) {
        const BlockIndex at = read_index(raw + x * bytes);
        const std::lock_guard lock(mutex);
        if (at.i == row) take(at, raw + x * bytes + kIndexBytes);
      }
    };
    if (any_order_) {
      for_pieces_of(file_.num_records(), bytes, reader(), run, in_row);
      return true;
    }
    std::vector<std::byte> one(bytes);
    const auto first_from = [&](std::uint64_t bound) {  // records in front of this block row
      std::uint64_t low = 0;
      for (std::uint64_t high = file_.num_records(); low < high;) {
        const std::uint64_t middle = (low + high) / 2;
        file_.read_records(middle, 1, one.data());
        (read_index(one.data()).i < bound ? low : high) = read_index(one.data()).i < bound ? middle + 1 : middle;
      }
      return low;
    };
    const std::uint64_t end = first_from(std::uint64_t{row} + 1);
    for (std::uint64_t x = first_from(row); x < end; ++x) {
      file_.read_records(x, 1, one.data());
      in_row(one.data(), x, 1);
    }
    return true;
  }

 private:
  [[nodiscard]] std::function<void(std::uint64_t, std::uint64_t, std::byte*)> reader() const {
    return [this](std::uint64_t first, std::uint64_t count, std::byte* dst) { file_.read_records(first, count, dst); };
  }

  void check_order(std::uint64_t first, std::span<const std::byte> records) {
    const auto flaw = order_.add(first, records);
    if (!flaw) return;
    const std::uint64_t bytes = file_.record_bytes();
    if (flaw->is_duplicate()) throw_duplicate_block(file_.name(), flaw->record - 1, flaw->record, bytes, flaw->at);
    throw FormatError(at_record(file_.name(), flaw->record, bytes),
                      text("block (", flaw->at.i, ", ", flaw->at.j, ") follows (", flaw->before.i, ", ", flaw->before.j,
                           "), expected blocks in the order of (i, j)"),
                      "give --any-order for files of other programs");
  }

  void check_rows(std::uint64_t first, std::span<const std::byte> records) const {
    const std::uint64_t bytes = file_.record_bytes();
    for (std::uint64_t x = 0; x < records.size() / bytes; ++x) {
      const BlockIndex at = read_index(records.data() + x * bytes);
      if (at.i >= rows_.first && at.i < rows_.end) continue;
      throw FormatError(
          at_record(file_.name(), first + x, bytes),
          text("block (", at.i, ", ", at.j, ") lies outside the block rows ", rows_.first, ":", rows_.end),
          "give --rows as it was given to spmm");
    }
  }

  void check_flaw(std::uint64_t first, std::span<const std::byte> records) {
    const auto flaw = proof_.look(records);
    if (!flaw) return;
    const std::uint64_t record = first + flaw->record;
    const std::uint64_t bytes = file_.record_bytes();
    if (flaw->kind == ProofFlaw::Kind::out_of_range) {
      throw_index_out_of_range(file_.name(), record, bytes, flaw->at, file_.header().blocks_per_side());
    }
    throw FormatError(at_record(file_.name(), record, bytes),
                      text("block (", flaw->at.i, ", ", flaw->at.j, ") is all zero, expected only blocks that are not"),
                      "give --allow-zero-blocks for files of other programs");
  }

  const io::InputFile& file_;
  Proof& proof_;
  bool any_order_;
  RowRange rows_;
  RecordOrder order_;
  std::atomic<std::uint64_t> num_saturated_{0};
};

}  // namespace

VerifiedFiles verify_files(const std::filesystem::path& a, const std::filesystem::path& b,
                           const std::filesystem::path& c, const VerifyFilesOptions& options, const Run& run) {
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  const io::InputFile file(c, ElementType::u32);
  check_shapes(source_a->header(), source_a->name(), source_b->header(), source_b->name());
  check_shapes(source_a->header(), source_a->name(), file.header(), file.name());
  check_operand(*source_a, run);
  check_operand(*source_b, run);
  const RowRange rows = checked_rows(options.rows, file.header().blocks_per_side());
  std::optional<RowsSource> picked;
  if (rows != RowRange{.first = 0, .end = file.header().blocks_per_side()}) {
    picked.emplace(*source_a, rows, &BlockIndex::i, run);
  }
  const Source& left = picked ? *picked : *source_a;
  constexpr std::uint64_t kLeastBytes = 64u << 10;  // for operands
  const std::uint64_t fixed =
      Proof::resident_bytes(left.header()) + Proof::finish_bytes(left.header(), source_b->header());
  if (options.memory_limit_bytes != 0 && fixed + kLeastBytes > options.memory_limit_bytes) {
    throw OutOfMemory("--memory-limit",
                      text("the proof needs ", human_bytes(fixed + kLeastBytes), " at least, the limit is ",
                           human_bytes(options.memory_limit_bytes)),
                      "raise --memory-limit");
  }
  Proof proof(left, *source_b,
              {.key = options.key,
               .memory_bytes = options.memory_limit_bytes == 0 ? 0 : options.memory_limit_bytes - fixed,
               .allow_zero_blocks = options.allow_zero_blocks,
               .on_notice = options.on_notice},
              run);
  ResultFile result(file, proof, options, rows);
  result.look(run);
  VerifiedFiles verified{.result = proof.finish(
                             [&](std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take) {
                               return result.find_row(row, take, run);
                             },
                             run),
                         .num_blocks = file.num_records(),
                         .num_saturated = result.num_saturated()};
  source_a->check_unchanged();
  source_b->check_unchanged();
  return verified;
}

}  // namespace spmm::tools
