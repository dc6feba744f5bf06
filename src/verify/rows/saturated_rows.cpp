// Saturated elements as erasures of equations, or by exact sums if there are too many.
#include "verify/rows/saturated_rows.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

#include "spmm/saturate.hpp"
#include "verify/rows/erasures.hpp"
#include "verify/rows/exact_rows.hpp"
#include "verify/rows/proven_claims.hpp"

namespace spmm {
namespace {

/// The largest true sum of a product whose rows have n elements.
std::uint64_t most_sum(const ProofState& s) {
  const std::uint64_t product = multiply_exact(65535, 65535);
  return std::min<std::uint64_t>(s.a.header().n * product, kPrime61 - 1);  // n < 2^32: no overflow
}

/// Saturated elements of element row r. Calls take(column of C).
template <class Take>
void for_saturated(const ProofState& s, const SaturatedBlocks& all, const SaturatedRow& row, std::uint32_t r,
                   const Take& take) {
  for (const SaturatedBlock& block : row.blocks) {
    for (std::uint32_t c = 0; c < s.m; ++c) {
      if (all.is_saturated(block, r * s.m + c)) take(std::uint64_t{block.at.j} * s.m + c);
    }
  }
}

/// Most saturated elements of an element row; more than kMaxSpareColumns are not distinguished.
std::uint32_t most_saturated(const ProofState& s, const SaturatedBlocks& all, const SaturatedRow& row) {
  if (row.blocks.size() > std::uint64_t{kMaxSpareColumns} * s.m) return kMaxSpareColumns + 1;
  std::uint32_t most = 0;
  for (std::uint32_t r = 0; r < s.m; ++r) {
    std::uint32_t count = 0;
    for_saturated(s, all, row, r, [&](std::uint64_t) { ++count; });
    most = std::max(most, std::min(count, kMaxSpareColumns + 1));
  }
  return most;
}

Decoded decode_row(const ProofState& s, const SaturatedBlocks& all, const SaturatedRow& row, std::uint64_t most) {
  for (std::uint32_t r = 0; r < s.m; ++r) {
    Erasures erased;
    for_saturated(s, all, row, r, [&](std::uint64_t col) {
      for (std::uint32_t q = 0; q < kMaxProofColumns; ++q) erased.x[erased.num][q] = s.random(col, q);
      ++erased.num;
    });
    for (std::uint32_t q = 0; q <= erased.num; ++q) erased.d[q] = s.residual[q].at(row.slot)[r];
    erased.d[0] = add61(erased.d[0], s.y0.at(row.slot)[r]);
    const Decoded decoded = decode(erased, most);
    if (decoded != Decoded::right) return decoded;
  }
  return Decoded::right;
}

/// Rows that exact sums decide. Either the true sums of all saturated elements, which complete the equations; or, where
/// that is cheaper, a proof that what is saturated everywhere is, without its sums, and all other blocks of the row.
/// Blocks that bounds of whole rows have proven before are left out of the latter.
class RowsBySums {
 public:
  RowsBySums(const ProofState& state, const SaturatedBlocks& all, std::span<const SaturatedRow> rows,
             const ProvenClaims& proven)
      : s_(state), all_(all), rows_(rows), proven_(proven), verdicts_(rows.size()) {}

  void run(std::vector<std::uint32_t>& wrong, const Run& run) {
    std::vector<std::uint32_t> left;  // block rows, and their numbers
    std::vector<std::size_t> numbers;
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      if (proven_.is_whole(x)) {
        decide_whole(x);
        continue;
      }
      left.push_back(rows_[x].row);
      numbers.push_back(x);
    }
    for_exact_rows(
        {s_.a, s_.b}, s_.b_rows, left, s_.settings.memory_bytes, run,
        [&](std::size_t x, ExactRow& row, bool first, bool last) { visit(numbers[x], row, first, last, run); });
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      if (verdicts_[x].is_wrong) wrong.push_back(rows_[x].row);
    }
  }

 private:
  struct Verdict {
    bool by_bounds = false;  ///< the second way
    bool is_wrong = false;
    std::uint64_t num_found = 0;        ///< saturated blocks that have pairs
    std::vector<std::uint64_t> sums{};  ///< [m] modulo p
  };

  [[nodiscard]] const SaturatedBlock* find(const SaturatedRow& row, std::uint32_t col) const {
    const auto found = std::lower_bound(row.blocks.begin(), row.blocks.end(), col,
                                        [](const SaturatedBlock& x, std::uint32_t y) { return x.at.j < y; });
    return found != row.blocks.end() && found->at.j == col ? &*found : nullptr;
  }

  /// Every block of C is proven to be saturated everywhere, and is claimed to be.
  void decide_whole(std::size_t number) {
    Verdict& verdict = verdicts_[number];
    verdict.by_bounds = true;
    verdict.num_found = s_.blocks_per_side;
    verdict.sums.assign(s_.m, 0);
    decide(verdict, rows_[number]);
  }

  /// Whether bounds and all other blocks take fewer pairs than the sums of all saturated ones.
  [[nodiscard]] bool bounds_are_cheaper(std::size_t number, const ExactRow& exact) const {
    const SaturatedRow& row = rows_[number];
    double sums = 0;
    double bounds = 0;
    const double share = static_cast<double>(num_needed_ + 1) / static_cast<double>(num_bounded_ + 2);
    for (std::uint32_t place = 0; place < exact.cols().size(); ++place) {
      const auto pairs = static_cast<double>(exact.pairs(place));
      const SaturatedBlock* const block = find(row, exact.cols()[place]);
      sums += block != nullptr ? pairs : 0;
      if (proven_.is_proven(number, exact.cols()[place])) continue;
      bounds += block != nullptr && block->mask == SaturatedBlock::kEverywhere ? share * pairs : pairs;
    }
    return bounds < sums;
  }

  void visit(std::size_t number, ExactRow& exact, bool first, bool last, const Run& run) {
    const SaturatedRow& row = rows_[number];
    Verdict& verdict = verdicts_[number];
    if (first) {
      verdict.sums.assign(s_.m, 0);
      verdict.by_bounds = bounds_are_cheaper(number, exact);
    }
    const std::span<const std::uint32_t> cols = exact.cols();
    std::vector<WantedSum> wanted(cols.size(), WantedSum::none);
    std::vector<const SaturatedBlock*> blocks(cols.size());
    std::uint64_t num_exact = 0;
    std::uint64_t num_bounded = 0;
    for (std::uint32_t place = 0; place < cols.size(); ++place) {
      blocks[place] = find(row, cols[place]);
      verdict.num_found += blocks[place] != nullptr ? 1 : 0;
      const bool everywhere = blocks[place] != nullptr && blocks[place]->mask == SaturatedBlock::kEverywhere;
      if (verdict.by_bounds && proven_.is_proven(number, cols[place])) continue;
      if (verdict.by_bounds) {
        wanted[place] = everywhere ? WantedSum::until_saturated : WantedSum::exact;
      } else if (blocks[place] != nullptr) {
        wanted[place] = WantedSum::exact;
      }
      if (wanted[place] == WantedSum::exact) num_exact += exact.pairs(place);
      if (wanted[place] == WantedSum::until_saturated) num_bounded += exact.pairs(place);
    }
    exact.multiply(wanted, s_.kernels.add_product, run);
    num_bounded_ += num_bounded;
    num_needed_ += exact.num_multiplied() - num_exact;
    for (std::uint32_t place = 0; place < cols.size(); ++place) {
      if (wanted[place] != WantedSum::none) take(verdict, cols[place], blocks[place], exact.sums(place));
    }
    if (last) decide(verdict, row);
  }

  void take(Verdict& verdict, std::uint32_t col, const SaturatedBlock* block, const std::uint64_t* sums) const {
    for (std::uint32_t r = 0; r < s_.m; ++r) {
      for (std::uint32_t c = 0; c < s_.m; ++c) {
        const std::uint32_t e = r * s_.m + c;
        const bool claimed = block != nullptr && all_.is_saturated(*block, e);
        const bool saturates = sums[e] >= kMaxVal;
        if (claimed && !saturates) verdict.is_wrong = true;
        if (verdict.by_bounds && saturates && !claimed) verdict.is_wrong = true;
        if (verdict.by_bounds ? saturates : !claimed) continue;
        const std::uint64_t x = s_.random(std::uint64_t{col} * s_.m + c, 0);
        verdict.sums[r] = add61(verdict.sums[r], multiply61(reduce61(sums[e]), x));
      }
    }
  }

  void decide(Verdict& verdict, const SaturatedRow& row) const {
    verdict.is_wrong |= verdict.num_found != row.blocks.size();  // saturated without a single pair
    for (std::uint32_t r = 0; r < s_.m; ++r) {
      const std::uint64_t minus_c = s_.residual[0].at(row.slot)[r];
      const std::uint64_t should_be_zero = verdict.by_bounds
                                               ? add61(minus_c, verdict.sums[r])
                                               : subtract61(add61(minus_c, s_.y0.at(row.slot)[r]), verdict.sums[r]);
      verdict.is_wrong |= should_be_zero != 0;
    }
  }

  const ProofState& s_;
  const SaturatedBlocks& all_;
  std::span<const SaturatedRow> rows_;
  const ProvenClaims& proven_;
  std::vector<Verdict> verdicts_;
  std::atomic<std::uint64_t> num_bounded_{0};  // pairs of blocks that are saturated everywhere
  std::atomic<std::uint64_t> num_needed_{0};   // and those that were needed to prove it
};

}  // namespace

SaturatedBlocks gather_saturated(ProofState& state, const Run& run) {
  std::vector<SaturatedBlocks>& pieces = state.saturated;
  const auto by_first = [](const SaturatedBlocks& x, const SaturatedBlocks& y) {
    return x.blocks.front().at < y.blocks.front().at;  // none is empty
  };
  std::sort(pieces.begin(), pieces.end(), by_first);
  struct Begin {
    std::uint64_t block = 0;
    std::uint64_t word = 0;
  };
  std::vector<Begin> begins(pieces.size() + 1);
  for (std::size_t x = 0; x < pieces.size(); ++x) {
    begins[x + 1] = {.block = begins[x].block + pieces[x].blocks.size(),
                     .word = begins[x].word + pieces[x].masks.size()};
  }
  SaturatedBlocks all;
  all.blocks.resize(begins.back().block);
  all.masks.resize(begins.back().word);
  run.parallel_for(pieces.size(), 1, [&](std::uint64_t x, std::uint64_t) {
    run.check_cancelled();
    SaturatedBlock* to = all.blocks.data() + begins[x].block;
    for (SaturatedBlock block : pieces[x].blocks) {
      if (block.mask != SaturatedBlock::kEverywhere) block.mask += begins[x].word;
      *to++ = block;
    }
    std::copy(pieces[x].masks.begin(), pieces[x].masks.end(), all.masks.data() + begins[x].word);
    pieces[x] = {};
  });
  pieces = {};
  const auto ascend = [&](const SaturatedBlock& x, const SaturatedBlock& y) {
    run.check_cancelled();
    return x.at < y.at;
  };
  // Records in order make pieces that only have to follow each other.
  if (!std::is_sorted(all.blocks.begin(), all.blocks.end(), ascend)) {
    std::sort(all.blocks.begin(), all.blocks.end(), ascend);
  }
  return all;
}

std::vector<SaturatedRow> saturated_rows(const ProofState& state, const SaturatedBlocks& all) {
  std::vector<SaturatedRow> rows;
  const std::span<const SaturatedBlock> blocks(all.blocks);
  for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    for (end = begin; end < blocks.size() && blocks[end].at.i == blocks[begin].at.i;) ++end;
    rows.push_back({.row = blocks[begin].at.i,
                    .slot = state.a_rows.slot(blocks[begin].at.i),
                    .blocks = blocks.subspan(begin, end - begin)});
  }
  return rows;
}

SaturationStats check_saturated(ProofState& state, const SaturatedBlocks& all, std::vector<SaturatedRow>& rows,
                                std::vector<std::uint32_t>& wrong, const Run& run) {
  std::uint32_t num_spare = 0;
  for (SaturatedRow& row : rows) {
    const std::uint32_t most = most_saturated(state, all, row);
    row.by_sums = most > kMaxSpareColumns;
    if (!row.by_sums) num_spare = std::max(num_spare, most);
  }
  for (std::uint32_t q = 1; q <= num_spare; ++q) state.add_y(q, state.residual[q], run);
  for (SaturatedRow& row : rows) {
    run.check_cancelled();
    if (row.by_sums) continue;
    const Decoded decoded = decode_row(state, all, row, most_sum(state));
    if (decoded == Decoded::wrong) wrong.push_back(row.row);
    row.by_sums = decoded == Decoded::singular;
  }
  std::vector<SaturatedRow> left;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(left), [](const SaturatedRow& row) { return row.by_sums; });
  if (left.empty()) return {};
  const ProvenClaims proven(state, left, run);
  RowsBySums(state, all, left, proven).run(wrong, run);
  return {.num_exact = left.size(),
          .num_bounded = proven.num_blocks(),
          .by_device = proven.by_device(),
          .bounds_s = proven.seconds()};
}

}  // namespace spmm
