// The inner dimension divided, and its cost against that of rows.
#include "mpi/divide/inner_division.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "cpu/operands/order/radix_sort.hpp"
#include "mpi/exchange/distinct_rows.hpp"

namespace spmm::mpi {
namespace {

/// A block row of B that rows of C on one rank meet. On its way to the row's home.
struct RowUse {
  std::uint32_t row = 0;
  std::uint32_t rank = 0;
  std::uint64_t a_blocks = 0;
};

/// Uses of the rows of B by the blocks of A that this rank has read, ascending.
std::vector<RowUse> own_uses(const SplitQuestion& question, std::uint32_t num_ranks) {
  std::vector<std::uint64_t> keys;
  keys.reserve(question.indices.size());
  for (const BlockIndex& at : question.indices) {
    keys.push_back(std::uint64_t{at.j} << 32 | question.by_rows.rank_of(at.i));
  }
  std::vector<std::uint64_t> scratch(keys.size());
  const auto row_bits = static_cast<unsigned>(std::bit_width(question.b.blocks_per_side()));
  cpu::radix_sort(keys, scratch.data(), 0, static_cast<unsigned>(std::bit_width(num_ranks)), question.num_threads);
  cpu::radix_sort(keys, scratch.data(), 32, 32 + row_bits, question.num_threads);
  scratch = {};
  std::vector<RowUse> uses;
  for (std::size_t x = 0; x < keys.size(); ++x) {
    if (x == 0 || keys[x] != keys[x - 1]) {
      uses.push_back({.row = static_cast<std::uint32_t>(keys[x] >> 32), .rank = static_cast<std::uint32_t>(keys[x])});
    }
    ++uses.back().a_blocks;
  }
  return uses;
}

/// All uses of the rows of B that are at home here, ascending. Collective.
std::vector<RowUse> row_uses_at_home(const Group& group, const SplitQuestion& question) {
  const auto num_ranks = static_cast<std::uint32_t>(group.ranks.size());
  std::vector<RowUse> uses = at_homes(group, own_uses(question, num_ranks), question.b_rows.first_rows());
  std::sort(uses.begin(), uses.end(),
            [](const RowUse& x, const RowUse& y) { return std::pair(x.row, x.rank) < std::pair(y.row, y.rank); });
  std::size_t size = 0;
  for (const RowUse& one : uses) {
    if (size != 0 && uses[size - 1].row == one.row && uses[size - 1].rank == one.rank) {
      uses[size - 1].a_blocks += one.a_blocks;
    } else {
      uses[size++] = one;
    }
  }
  uses.resize(size);
  return uses;
}

std::uint64_t largest_sum(const Group& group, std::vector<std::uint64_t>& values) {
  group.ranks.sum(values);
  return *std::max_element(values.begin(), values.end());
}

std::uint64_t all_c_blocks(const Division& division) {
  return std::accumulate(division.c_blocks_of_ranks.begin(), division.c_blocks_of_ranks.end(), std::uint64_t{0});
}

/// Exact pairs of each inner index, and the blocks of B that each rank would fetch in a division by rows. Collective.
void divide_inner(const Group& group, const SplitQuestion& question, InnerDivision& division) {
  SplitCounts& counts = division.counts;
  std::vector<std::uint64_t> fetched(counts.num_ranks, 0);
  std::vector<RowWork> inner;
  for (const RowUse& one : row_uses_at_home(group, question)) {
    const std::uint64_t blocks = question.b_rows.size_here(one.row);
    fetched[one.rank] += blocks;
    if (inner.empty() || inner.back().row != one.row) inner.push_back({.row = one.row});
    inner.back().pairs += one.a_blocks * blocks;
    inner.back().blocks += one.a_blocks;
  }
  const Standing standing = standing_of(group, inner);
  division.borders = borders_in(inner, standing.weight_before, standing.weight, counts.num_ranks);
  group.ranks.max(division.borders);
  std::vector<std::uint64_t> pairs(counts.num_ranks, 0);
  std::vector<std::uint64_t> a_blocks(counts.num_ranks, 0);
  std::vector<std::uint64_t> b_blocks(counts.num_ranks, 0);
  for (const RowWork& one : inner) {
    const std::uint32_t rank = part_of(division.borders, one.row);
    pairs[rank] += one.pairs;
    a_blocks[rank] += one.blocks;
    b_blocks[rank] += one.pairs / one.blocks;
  }
  counts.b_blocks_by_rows = largest_sum(group, fetched);
  counts.pairs_by_inner = largest_sum(group, pairs);
  counts.a_blocks_by_inner = largest_sum(group, a_blocks);
  counts.b_blocks_by_inner = largest_sum(group, b_blocks);
}

/// What is known without counting by inner index; no more than what that will find.
SplitCounts least_counts(const Group& group, const SplitQuestion& question) {
  const Division& by_rows = question.by_rows;
  const auto num_ranks = static_cast<std::uint32_t>(group.ranks.size());
  SplitCounts counts{.num_ranks = num_ranks,
                     .m = question.b.m,
                     .limit_bytes = question.limit_bytes,
                     .stored_bytes = question.stored_bytes};
  counts.pairs_by_rows = *std::max_element(by_rows.pairs_of_ranks.begin(), by_rows.pairs_of_ranks.end());
  counts.b_blocks_by_rows = std::min<std::uint64_t>(question.b.num_blocks, counts.pairs_by_rows);  // at most
  counts.pairs_by_inner = (by_rows.pairs + num_ranks - 1) / num_ranks;
  counts.b_blocks_at_home = group.ranks.max(question.b_rows.size_here());
  counts.partial_c_blocks = std::min(all_c_blocks(by_rows), counts.pairs_by_inner);
  return counts;
}

}  // namespace

std::uint64_t count_columns(const Group& group, const BRows& b_rows, std::uint32_t blocks_per_side) {
  const auto num_ranks = static_cast<std::uint32_t>(group.ranks.size());
  std::vector<std::uint32_t> first_columns;
  for (std::uint32_t r = 1; r < num_ranks; ++r) {
    first_columns.push_back(static_cast<std::uint32_t>(std::uint64_t{blocks_per_side} * r / num_ranks));
  }
  const std::vector<std::uint32_t> columns = b_rows.columns_here(blocks_per_side);
  std::vector<Bytes> to;
  auto begin = columns.begin();
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    const auto end = r + 1 == num_ranks ? columns.end() : std::lower_bound(begin, columns.end(), first_columns[r]);
    to.push_back(bytes_of({begin, end}));
    begin = end;
  }
  std::vector<std::uint32_t> here;
  for (const Bytes& some : swap_lists(group, to)) {
    const std::vector<std::uint32_t> numbers = numbers_of(some);
    here.insert(here.end(), numbers.begin(), numbers.end());
  }
  return group.ranks.sum(DistinctRows(here, blocks_per_side).rows().size());
}

std::optional<InnerDivision> choose_inner(const Group& group, const SplitQuestion& question) {
  const Policy::Division wanted = group.ranks.policy().division;
  InnerDivision division{.borders = {}, .counts = least_counts(group, question), .sums = {}};
  SplitCounts& counts = division.counts;
  if (wanted == Policy::Division::rows) return std::nullopt;
  if (wanted == Policy::Division::faster && !splits_inner(counts)) return std::nullopt;
  divide_inner(group, question, division);
  const std::uint64_t range_blocks = question.range_bytes / output_record_bytes(counts.m) / counts.num_ranks;
  division.sums = divide(group, question.rows, question.num_columns, range_blocks, 1);
  const std::vector<std::uint64_t>& sums = division.sums.c_blocks_of_ranks;
  counts.partial_c_blocks = std::min(all_c_blocks(question.by_rows), counts.pairs_by_inner);
  counts.merged_c_blocks =
      std::min(*std::max_element(sums.begin(), sums.end()) * counts.num_ranks, question.by_rows.pairs);
  counts.round_c_blocks = division.sums.max_c_blocks * counts.num_ranks;
  if (wanted == Policy::Division::inner ? !fits_inner(counts) : !splits_inner(counts)) return std::nullopt;
  return division;
}

}  // namespace spmm::mpi
