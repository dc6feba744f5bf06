// --verify: a proof that C = A B, saturated, from the three matrices alone; of all rows, or of some chosen at random.
//
// Freivalds: with X random modulo p = 2^61 - 1, every element row of C without saturated elements must satisfy
// C X = A (B X). A wrong one passes with a probability of at most 3 / p: see random_vector.hpp. The equation says that
// all sums agree modulo p, and true sums of at most 536,887,296 terms are smaller than p. Rows of larger matrices, and
// rows with saturated elements, are computed again from the definition: R = min(A B, 2^32 - 1), and C X = R X must
// hold. So are all rows if a selection drops elements, of R, too. The largest `keep` of a row of R are those that do
// not go behind the last one of C's, by value and column, if C has so many.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/exact_rows.hpp"
#include "verify/random_vector.hpp"

namespace spmm {

struct ProofSettings {
  std::uint64_t num_blocks = 0;    ///< of A, chosen at random: their block rows are proven; 0 = all rows
  std::uint64_t seed = 1;          ///< of that choice
  std::uint64_t key = 0;           ///< of X; 0 = random numbers of the system, for which alone the bound holds
  std::uint64_t memory_bytes = 0;  ///< of finish(), for operands; 0 = no limit
  std::uint64_t limit_bytes = 0;   ///< of which memory_bytes are a part, for messages
  RowRange rows{};                 ///< block rows of C that A has, for the number of rows that are proven
  bool allow_zero_blocks = false;  ///< of C
  Selection selection{};           ///< elements of the product that C has
  NoticeFn on_notice{};            ///< before rows are computed again for more than a second; may be empty
};

/// What breaks the format of C, whatever the sums are.
struct RecordFlaw {
  enum class Kind : std::uint8_t { out_of_range, zero_block, twice, out_of_order };
  Kind kind{};
  std::uint64_t record = 0;  ///< Proof: among those that were examined; RecordOrder: of all
  BlockIndex at{};
  BlockIndex before{};  ///< of the order: the block in front
};

/// Finds the records of a block row of C again, for messages. False if it cannot.
/// Shapes: calls take(index, values) for each record; values [m, m] u32, unaligned.
using FindRow =
    std::function<bool(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take)>;

struct ProofResult {
  std::uint64_t num_rows = 0;       ///< element rows that were proven
  std::uint64_t num_blocks = 0;     ///< blocks of C in them
  std::uint64_t num_saturated = 0;  ///< elements of C that are kMaxVal
  std::uint64_t num_exact = 0;      ///< block rows in which some were computed again
  std::uint64_t num_wrong = 0;      ///< block rows that are wrong
  std::string differences{};        ///< what is wrong; empty where nothing is
};

class Proof {
 public:
  /// Values: both sources outlive it. Memory: resident_bytes(), with a selection also what finish() takes. Errors:
  /// FormatError (index out of range), OutOfMemory (also if a selection needs more in finish()), Interrupted, what the
  /// sources throw.
  Proof(const Source& a, const Source& b, const ProofSettings& settings, const Run& run);

  /// Host memory that stays until finish() returns, from the header of A alone: an upper bound.
  /// Values: num_blocks, selection as in the settings.
  static std::uint64_t resident_bytes(const MatrixHeader& a, std::uint64_t num_blocks = 0,
                                      const Selection& selection = {});
  /// Host memory that a chosen block of A takes until finish() returns.
  static std::uint64_t chosen_bytes(std::uint32_t m, const Selection& selection = {}) {
    return m * row_bytes(selection) + sizeof(std::uint32_t);
  }
  /// Host memory that finish() takes in addition to that and to settings.memory_bytes: an upper bound.
  static std::uint64_t finish_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t num_blocks = 0);

  /// Takes whole records of C, each once, in any order. Returns the first flaw in the rows that are proven, behind
  /// which nothing was taken.
  /// Threads: any. Errors: OutOfMemory.
  std::optional<RecordFlaw> look(std::span<const std::byte> records);

  /// Decides every row that A stores or C holds, or every chosen one. Call it once, behind the last look().
  /// Errors: OutOfMemory, Interrupted, what the sources throw, std::logic_error (a row fails and is right when it is
  /// computed again).
  ProofResult finish(const FindRow& find_row, const Run& run);

 private:
  /// What is known of an element row.
  struct KeptElements {
    std::uint64_t last_rank = 0xFFFF'FFFF'FFFF'FFFFu;
    std::uint64_t num = 0;
  };
  static constexpr std::uint64_t row_bytes(const Selection& selection) {
    return sizeof(std::uint64_t) + 1 + (selection.keep == 0 ? 0 : sizeof(KeptElements));
  }

  [[nodiscard]] bool is_kept(std::uint64_t slot, BlockIndex at, std::uint32_t r, std::uint32_t c, double sum) const;
  void subtract_products(const RowSlots& b_rows, const Run& run);
  std::uint64_t subtract_exact_rows(const RowSlots& b_rows, const Run& run);
  [[nodiscard]] std::vector<std::uint32_t> wrong_rows(const Run& run) const;
  std::string describe(std::span<const std::uint32_t> wrong, const RowSlots& b_rows, const FindRow& find_row,
                       const Run& run);
  [[nodiscard]] std::mutex& mutex_of(std::uint64_t slot) { return mutexes_[slot % mutexes_.size()]; }

  Inputs inputs_;
  ProofSettings settings_;
  std::uint32_t m_;
  RandomVector x_;
  bool is_sample_;   // only the rows of a_rows_ are proven
  RowSlots a_rows_;  // that are proven
  std::array<std::mutex, 64> mutexes_{};
  // Guarded by mutex_of(slot). Shapes: [slots of A, m], one for each element row.
  AlignedArray<std::uint64_t> residual_;  // C X, less what it must be
  AlignedArray<std::uint8_t> is_exact_;   // 1: to be computed again
  AlignedArray<KeptElements> kept_;       // of C, if the largest elements of rows are kept
  std::atomic<std::uint64_t> num_saturated_ = 0;
  std::atomic<std::uint64_t> num_blocks_ = 0;  // of C in the rows
  std::mutex stray_mutex_{};
  std::vector<std::uint32_t> stray_rows_{};  // block rows that C holds and A does not; some of them
};

/// The order of one file, whose pieces may come in any order. Memory: 32 bytes for each piece. Threads: any may add().
class RecordOrder {
 public:
  explicit RecordOrder(std::uint64_t record_bytes) : record_bytes_(record_bytes) {}

  /// Takes whole records, each once; `first` = how many are in front of them. Returns the first flaw among them.
  std::optional<RecordFlaw> add(std::uint64_t first, std::span<const std::byte> records);

  /// Behind the last add(). Returns the first flaw between pieces.
  std::optional<RecordFlaw> close();

  /// Whether exactly the records [0, count) have come. Behind close().
  [[nodiscard]] bool is_whole(std::uint64_t count) const;

 private:
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    BlockIndex first;
    BlockIndex last;
  };

  std::uint64_t record_bytes_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

/// --verify of a product: the order and the sums of its records are proven on their way to its sink. Threads: one
/// caller at a time.
class ResultProof {
 public:
  /// Values: `sink` is what the records go to, for messages; header = of A. All must outlive this.
  ResultProof(Proof& proof, Sink& sink, const MatrixHeader& header, const Run& run)
      : proof_(proof),
        sink_(sink),
        header_(header),
        run_(run),
        record_bytes_(output_record_bytes(header.m)),
        order_(record_bytes_) {}

  /// Takes whole records, each once and in any order, on the threads of the run. Errors: VerifyError if they break the
  /// format; OutOfMemory.
  void look(std::uint64_t first_block, std::span<const std::byte> records);

  /// Behind sink.finish(): decides every row. Values: num_blocks = of the whole result. Errors: VerifyError that says
  /// what differs; as Proof::finish().
  ProofResult check(std::uint64_t num_blocks);

 private:
  bool find_row(std::uint32_t row, std::uint64_t num_blocks,
                const std::function<void(BlockIndex at, const std::byte* values)>& take);

  Proof& proof_;
  Sink& sink_;
  MatrixHeader header_;
  const Run& run_;
  std::uint64_t record_bytes_;
  RecordOrder order_;
};

}  // namespace spmm
