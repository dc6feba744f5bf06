#include "cpu/operands/diagonals.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/records/saturated_count.hpp"
#include "cpu/operands/prepared.hpp"
#include "plan/memory/host_bytes.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kRowGrain = 4096;
/// Terms of a row that take no longer than a tile. Half full bands, one thread of a Zen 3: of 20 diagonals (12 terms a
/// tile) multiply 0.31 of what it is by tiles, of 61 (15 terms) 1.07.
constexpr double kTermsPerTile = 13;

/// Numbers diagonals in the order in which they are added; found by a hash under which no two meet.
class DiagonalNumbers {
 public:
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();

  DiagonalNumbers() { slots_.fill({.offset = kNone, .number = 0}); }
  explicit DiagonalNumbers(const std::vector<std::int32_t>& offsets) : DiagonalNumbers() {
    for (const std::int32_t offset : offsets) add(offset);
  }

  [[nodiscard]] const std::vector<std::int32_t>& offsets() const { return offsets_; }
  [[nodiscard]] bool has(std::int32_t offset) const { return slots_[slot_of(offset)].offset == offset; }
  /// Values: has(offset).
  [[nodiscard]] std::uint32_t number_of(std::int32_t offset) const { return slots_[slot_of(offset)].number; }
  /// Values: not has(offset).
  void add(std::int32_t offset) {
    offsets_.push_back(offset);
    if (place(offsets_.size() - 1)) return;
    for (bool all = false; !all;) {
      factor_ = factor_ * 747'796'405u + 2'891'336'452u;  // odd again
      slots_.fill({.offset = kNone, .number = 0});
      all = true;
      for (std::size_t x = 0; x < offsets_.size() && all; ++x) all = place(x);
    }
  }

 private:
  static constexpr unsigned kSlotBits = 10;
  struct Slot {
    std::int32_t offset;
    std::uint32_t number;
  };

  [[nodiscard]] std::size_t slot_of(std::int32_t offset) const {
    return static_cast<std::uint32_t>(offset) * factor_ >> (32 - kSlotBits);
  }
  bool place(std::size_t x) {
    Slot& slot = slots_[slot_of(offsets_[x])];
    if (slot.offset != kNone) return false;
    slot = {.offset = offsets_[x], .number = static_cast<std::uint32_t>(x)};
    return true;
  }

  std::array<Slot, std::size_t{1} << kSlotBits> slots_;
  std::vector<std::int32_t> offsets_;
  std::uint32_t factor_ = 2'654'435'769u;
};

/// Calls body(offset, element) for the elements of a stored row. Values: b = B if `of` is an A whose columns are
/// positions in B's rows, else null.
template <class Body>
void for_elements(const PackedOperand& of, const PackedOperand* b, std::uint64_t row, const Body& body) {
  const std::uint32_t of_row = of.rows[row];
  for (std::uint32_t x = of.row_ptr[row]; x < of.row_ptr[row + 1]; ++x) {
    std::uint32_t col = of.cols[x];
    if (b != nullptr && col == kNoRow) continue;
    if (b != nullptr) col = b->rows[col];
    body(static_cast<std::int32_t>(col - of_row), x);
  }
}

/// Whether a row has an element on each of these diagonals and no other, as most rows of a stencil have; never of an A
/// whose columns are not those of B's rows. A loop without branches, which the compiler turns into vectors.
bool is_full_row(const PackedOperand& of, const PackedOperand* b, std::uint64_t row,
                 const std::vector<std::int32_t>& offsets) {
  const std::size_t size = of.row_ptr[row + 1] - of.row_ptr[row];
  if (b != nullptr || size != offsets.size()) return false;
  const std::uint32_t* const cols = of.cols.data() + of.row_ptr[row];
  const std::uint32_t of_row = of.rows[row];
  std::uint32_t differs = 0;
  for (std::size_t x = 0; x < size; ++x) differs |= cols[x] - of_row - static_cast<std::uint32_t>(offsets[x]);
  return differs == 0;
}

/// The diagonals of an operand, ascending; kMaxDiagonals + 1 of anything if there are more.
std::vector<std::int32_t> diagonals_of(const PackedOperand& of, const PackedOperand* b, const Run& run) {
  std::set<std::int32_t> offsets;
  std::mutex mutex;
  std::atomic<bool> too_many = false;
  run.parallel_for(of.num_rows(), kRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    DiagonalNumbers known;
    std::vector<std::int32_t> sorted;
    for (std::uint64_t row = begin; row < end && !too_many; ++row) {
      if (is_full_row(of, b, row, sorted)) continue;
      for_elements(of, b, row, [&](std::int32_t offset, std::uint32_t) {
        if (!known.has(offset) && known.offsets().size() <= kMaxDiagonals) known.add(offset);
      });
      if (known.offsets().size() > kMaxDiagonals) too_many = true;
      if (known.offsets().size() == sorted.size()) continue;
      sorted = known.offsets();
      std::sort(sorted.begin(), sorted.end());
    }
    const std::lock_guard lock(mutex);
    offsets.insert(sorted.begin(), sorted.end());
    if (offsets.size() > kMaxDiagonals) too_many = true;
  });
  if (too_many) return std::vector<std::int32_t>(kMaxDiagonals + 1);
  return {offsets.begin(), offsets.end()};
}

std::uint64_t stride_of(std::uint64_t num_rows) {
  return num_rows + 2 * std::uint64_t{kDiagonalRows};
}

DiagonalOperand fill_diagonals(const PackedOperand& of, const PackedOperand* b, std::vector<std::int32_t> offsets,
                               std::uint64_t num_rows, const Run& run) {
  DiagonalOperand out{.offsets = std::move(offsets), .stride = stride_of(num_rows), .values = {}};
  out.values = AlignedArray<std::uint16_t>(out.offsets.size() * out.stride);
  const DiagonalNumbers known(out.offsets);
  const std::uint64_t stride = out.stride;
  run.parallel_for(of.num_rows(), kRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const std::uint64_t first = begin == 0 ? 0 : of.rows[begin] + std::uint64_t{kDiagonalRows};
    const std::uint64_t last = end == of.num_rows() ? stride : of.rows[end] + std::uint64_t{kDiagonalRows};
    for (std::size_t d = 0; d < out.offsets.size(); ++d) {
      std::uint16_t* const diagonal = out.values.data() + d * stride;
      std::fill(diagonal + first, diagonal + last, std::uint16_t{0});
    }
    for (std::uint64_t row = begin; row < end; ++row) {
      std::uint16_t* const values = out.values.data() + kDiagonalRows + of.rows[row];
      if (is_full_row(of, b, row, out.offsets)) {
        const std::uint16_t* const from = of.values.data() + of.row_ptr[row];
        for (std::size_t d = 0; d < out.offsets.size(); ++d) values[d * stride] = from[d];
        continue;
      }
      for_elements(of, b, row, [&](std::int32_t offset, std::uint32_t x) {
        values[known.number_of(offset) * stride] = of.values[x];
      });
    }
  });
  return out;
}

/// Lists the terms of the sums of a row.
void list_terms(DiagonalProduct& out) {
  struct Term {
    std::uint32_t a;
    DiagonalTerm at;
  };
  std::map<std::int64_t, std::vector<Term>> sums;
  const std::int64_t num_rows = out.num_rows;
  for (std::size_t x = 0; x < out.a.offsets.size(); ++x) {
    for (std::size_t y = 0; y < out.b.offsets.size(); ++y) {
      const std::int64_t offset = std::int64_t{out.a.offsets[x]} + out.b.offsets[y];
      if (offset <= -num_rows || offset >= num_rows) continue;
      const DiagonalTerm at{.a = static_cast<std::ptrdiff_t>(x * out.a.stride),
                            .b = static_cast<std::ptrdiff_t>(y * out.b.stride) + out.a.offsets[x]};
      sums[offset].push_back({.a = static_cast<std::uint32_t>(x), .at = at});
    }
  }
  for (const auto& [offset, terms] : sums) {
    for (const Term& term : terms) {
      out.terms.push_back(term.at);
      out.a_terms.push_back(term.a);
    }
    out.offsets.push_back(static_cast<std::uint32_t>(offset));
    out.ends.push_back(static_cast<std::uint32_t>(out.terms.size()));
  }
  while (out.ends.size() % kDiagonalLanes != 0) {
    out.offsets.push_back(0);
    out.ends.push_back(out.ends.back());
  }
}

/// Whether diagonals take less time than tiles, and no more memory.
bool suit(const Prepared& product, std::uint64_t a_diagonals, std::uint64_t b_diagonals) {
  if (std::max(a_diagonals, b_diagonals) > kMaxDiagonals) return false;
  constexpr std::uint64_t kTileBytes = plan::tile_value_bytes(1) + sizeof(std::uint32_t);
  constexpr std::uint64_t kElementBytes = sizeof(std::uint16_t) + sizeof(std::uint32_t);
  const std::uint64_t num_rows = product.blocks_per_side;
  const std::uint64_t terms = a_diagonals * b_diagonals;
  const std::uint64_t diagonal_bytes = stride_of(num_rows) * sizeof(std::uint16_t);
  const std::uint64_t tile_bytes = product.b_tiles[product.b.num_rows()] * kTileBytes;
  const std::uint64_t slots = plan::wide_tile(1).window(product.blocks_per_side);
  const std::uint64_t slot_bytes = plan::kTileLanes * sizeof(std::uint32_t) + plan::kTileSlotBytes;
  return static_cast<double>(terms * num_rows) <= kTermsPerTile * static_cast<double>(product.tile_pairs) &&
         b_diagonals * diagonal_bytes <= tile_bytes &&
         (a_diagonals + b_diagonals) * diagonal_bytes <= tile_bytes + product.b.cols.size() * kElementBytes &&
         terms * kDiagonalThreadBytes <= slots * slot_bytes + plan::kMaxTileSegments * plan::kTileSegmentBytes;
}

/// B where columns of A are positions in its rows, else null.
const PackedOperand* linked_rows(const Prepared& product) {
  return product.b.num_rows() == product.blocks_per_side ? nullptr : &product.b;
}

}  // namespace

DiagonalOffsets find_diagonals(const Prepared& product, const Run& run) {
  constexpr std::uint32_t kMaxSide = 1u << 31;  // offsets fit 32 bits, and none of them is DiagonalNumbers::kNone
  if (product.tile_pairs == 0 || product.blocks_per_side > kMaxSide) return {};
  DiagonalOffsets out;
  out.b = diagonals_of(product.b, nullptr, run);
  if (out.b.size() <= kMaxDiagonals) out.a = diagonals_of(product.a, linked_rows(product), run);
  return suit(product, out.a.size(), out.b.size()) ? out : DiagonalOffsets();
}

DiagonalProduct make_diagonal_product(Prepared& product, const Run& run) {
  DiagonalProduct out;
  out.num_rows = product.blocks_per_side;
  out.b = fill_diagonals(product.b, nullptr, std::move(product.diagonals.b), out.num_rows, run);
  product.b.values = {};
  product.b.cols = {};
  product.b_tiles = {};
  out.a = fill_diagonals(product.a, linked_rows(product), std::move(product.diagonals.a), out.num_rows, run);
  product.a.values = {};
  product.a.cols = {};
  list_terms(out);
  const std::uint64_t most = std::min(out.a.offsets.size(), out.b.offsets.size());
  out.saturates = most > sure_terms(product.a.seen_bits, product.b.seen_bits);
  return out;
}

}  // namespace spmm::cpu
