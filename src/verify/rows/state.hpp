// What a proof of C = A B knows while records of C go by, and until every row is decided.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/bound_task.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/sums/block_sums.hpp"
#include "verify/sums/random_columns.hpp"
#include "verify/sums/row_slots.hpp"
#include "verify/sums/slot_sums.hpp"

namespace spmm {

/// Saturated elements of an element row that the equations solve for; more of them are summed exactly.
inline constexpr std::uint32_t kMaxSpareColumns = 3;
inline constexpr std::uint32_t kMaxProofColumns = kMaxSpareColumns + 1;

/// How blocks that are saturated everywhere are proven where most blocks of a row are.
enum class BoundWay : std::uint8_t {
  automatic,  ///< as is expected to be faster
  panels,     ///< by high bytes of whole rows, on the host or on a device
  pairs,      ///< block by block, by exact sums until they are large enough
};

/// A device that can prove bounds.
struct BoundDevice {
  BoundProver prove{};  ///< empty: there is none
  double start_s = 0;   ///< what it takes until it can begin
};

struct ProofSettings {
  std::uint64_t key = 0;  ///< of the random columns
  std::uint64_t memory_bytes =
      0;  ///< for places of saturated elements and, once C is there, for operands; 0 = no limit
  bool allow_zero_blocks = false;  ///< of C
  BoundDevice device{};            ///< in addition to the host
  BoundWay way = BoundWay::automatic;
};

/// A block of C with saturated elements.
struct SaturatedBlock {
  static constexpr std::uint64_t kEverywhere = ~std::uint64_t{0};

  BlockIndex at;
  std::uint64_t mask = kEverywhere;  ///< where its bits begin, a bit for each element
};

/// Blocks of C with saturated elements, and where those are. Values of blocks: any order, until sort().
struct SaturatedBlocks {
  std::vector<SaturatedBlock> blocks;
  std::vector<std::uint64_t> masks;

  [[nodiscard]] std::uint64_t bytes() const {
    return blocks.capacity() * sizeof(SaturatedBlock) + masks.capacity() * sizeof(std::uint64_t);
  }
  [[nodiscard]] bool is_saturated(const SaturatedBlock& block, std::uint32_t element) const {
    return block.mask == SaturatedBlock::kEverywhere || (masks[block.mask + element / 64] >> element % 64 & 1) != 0;
  }
};

/// Equations of every element row r of A B = C: Y = A (B X), and residual = Y - C X without saturated elements of C.
struct ProofState {
  ProofState(const Source& left, const Source& right, const ProofSettings& how, const Run& run);

  const Source& a;
  const Source& b;
  ProofSettings settings;
  std::uint32_t m;
  std::uint32_t blocks_per_side;
  BlockSums kernels = choose_block_sums();
  RandomColumns random;
  RowSlots a_rows;
  RowSlots b_rows;
  std::vector<std::unique_ptr<RandomVectors>> vectors{};  ///< [columns] of X
  SlotLocks locks{};
  AlignedArray<std::uint8_t> may_saturate{};  ///< [slots of A] whether a true sum of the block row may reach kMaxVal
  std::uint32_t largest_a = 0;                ///< element
  std::uint32_t largest_b = 0;
  std::uint32_t num_columns = 1;                      ///< of X
  SlotSums y0{};                                      ///< more than one column: column 0 of Y
  std::array<SlotSums, kMaxProofColumns> residual{};  ///< one column: Y - C X; else - C X

  std::mutex mutex{};
  // Guarded by mutex:
  std::vector<SaturatedBlocks> saturated{};  ///< as they came
  std::uint64_t saturated_bytes = 0;
  std::vector<std::uint32_t> stray_rows{};  ///< block rows that C holds and A does not; some of them

  /// Bytes of tables of X at most.
  static std::uint64_t table_bytes(std::uint64_t n, std::uint32_t columns, std::uint64_t limit_bytes);

  /// Adds column q of A (B X). Memory: 8 bytes for each element row of B, or a part of them after the other.
  void add_y(std::uint32_t q, const SlotSums& to, const Run& run) const;

  [[nodiscard]] std::uint64_t elements() const { return std::uint64_t{m} * m; }
};

/// Calls body(records, count, first record) for pieces of a source, on all threads of the run.
void for_pieces(const Source& source, const Run& run,
                const std::function<void(const std::byte* records, std::uint64_t count, std::uint64_t first)>& body);

/// Runs of records of one block row, as one thread goes through them.
class RecordRuns {
 public:
  RecordRuns(SumBlocks kernel, std::uint32_t m)
      : kernel_(kernel), m_(m), terms_(max_block_terms(m)), places_(terms_.size() * m), sums_(m) {}

  /// Adds up consecutive records [0, count) of one block row in as many calls as it takes. vector(x, place) gives the
  /// vector of record x or null; values(x) its elements; apply(sums) takes the sums of a call.
  template <class Values, class Vector, class Apply>
  void sum(std::uint64_t count, const Values& values, const Vector& vector, const Apply& apply) {
    std::uint32_t filled = 0;
    const auto flush = [&] {
      if (filled == 0) return;
      kernel_(terms_.data(), filled, m_, sums_.data());
      apply(static_cast<const std::uint64_t*>(sums_.data()));
      filled = 0;
    };
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint64_t* const with = vector(x, places_.data() + std::uint64_t{filled} * m_);
      if (with == nullptr) continue;
      terms_[filled++] = {.values = values(x), .vector = with};
      if (filled == terms_.size()) flush();
    }
    flush();
  }

 private:
  SumBlocks kernel_;
  std::uint32_t m_;
  std::vector<BlockTerm> terms_;
  std::vector<std::uint64_t> places_;  // [terms, m]
  std::vector<std::uint64_t> sums_;    // [m]
};

}  // namespace spmm
