// --verify full: a proof that C = A B, saturated, from the three matrices alone.
//
// Freivalds: with X random modulo p = 2^61 - 1, every element row of C must satisfy C X = A (B X). A saturated element
// of C is an erasure at a known place: with s of them in a row and s + 1 columns of X, the first s equations give
// their true sums, which must reach kMaxVal, and equation s + 1 must hold. A wrong row passes with a probability of at
// most 1 / p. True sums stay below p up to 536,887,296 terms, so that a false claim of saturation never passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/rows/state.hpp"

namespace spmm {

/// What breaks the format of C, or makes it no C of these operands whatever the sums are.
struct ProofFlaw {
  enum class Kind : std::uint8_t { out_of_range, zero_block };
  Kind kind;
  std::uint64_t record = 0;  ///< among those that were examined
  BlockIndex at;
};

/// Finds the records of a block row of C again, for messages. False if it cannot.
/// Shapes: calls take(index, values) for each record; values [m, m] u32, unaligned.
using FindRow =
    std::function<bool(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take)>;

struct ProofResult {
  std::uint64_t num_rows = 0;       ///< element rows whose equations were checked
  std::uint32_t num_columns = 0;    ///< of X
  std::uint64_t num_saturated = 0;  ///< elements of C that are kMaxVal where that is possible
  std::uint64_t num_exact = 0;      ///< block rows with so many of them that blocks were summed or bounded
  std::uint64_t num_bounded = 0;    ///< blocks that bounds of whole rows proved to be saturated everywhere
  bool bounded_by_device = false;
  double bounds_s = 0;          ///< seconds that these bounds took
  std::uint64_t num_wrong = 0;  ///< block rows that are wrong
  std::string differences{};    ///< what is wrong; empty where nothing is
};

class Proof {
 public:
  /// Reads B and A: Y = A (B X), and whether anything can saturate.
  /// Memory: resident_bytes() and B X; that goes again when this returns. Errors: FormatError (index out of range),
  /// OutOfMemory, Interrupted, what the sources throw.
  Proof(const Source& a, const Source& b, const ProofSettings& settings, const Run& run);

  /// Host memory that stays until finish() with so many columns of X, from the headers alone: an upper bound but for
  /// places of saturated elements.
  static std::uint64_t resident_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t columns,
                                      std::uint64_t limit_bytes);

  /// Host memory in addition to that, for a while and at most, from the headers alone: while Y is made, and while rows
  /// with saturated elements are summed after the product. Values: memory_bytes = as in ProofSettings, not 0.
  static std::uint64_t passing_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t memory_bytes,
                                     unsigned num_threads);

  /// Takes whole records of C, each once, in any order. Returns the first flaw, behind which nothing was taken.
  /// Threads: any. Errors: OutOfMemory.
  std::optional<ProofFlaw> look(std::span<const std::byte> records);

  /// Decides every row that A stores or C holds. Call it once, behind the last look().
  /// Errors: OutOfMemory, Interrupted, what the sources throw, std::logic_error (a row fails the equations and is
  /// right when it is computed anew).
  ProofResult finish(const FindRow& find_row, const Run& run);

  [[nodiscard]] std::uint32_t num_columns() const { return state_.num_columns; }

 private:
  ProofState state_;
};

}  // namespace spmm
